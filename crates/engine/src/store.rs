//! The contract between the engine and a store: a few operations, each atomic, each with one request and one
//! outcome.
//!
//! The `store-conformance` crate tests this contract. A behaviour that it does not test is not promised.

mod catalog;
mod claim_runs;
mod command_run;
mod commit_run;
mod entity_store;
mod error;
mod family_store;
mod journal;
mod outbox;
mod promise_store;
mod purge;
mod read;
mod renew_leases;
mod request_key_store;
mod run_filter;
mod schema;
mod send_signal;
mod settle_promise;
mod start_run;
mod transact;
mod webhook_store;

use std::any::Any;

use async_trait::async_trait;
use tokio::sync::watch;

pub use catalog::{Catalog, ListCatalogItems, PutCatalogItem, PutOutcome};
pub use claim_runs::{ClaimRuns, ClaimedRuns};
pub use command_run::{CommandRun, RunCommandOutcome};
pub use commit_run::CommitOutcome;
pub use entity_store::{
    CreateEntityOutcome, EntityStore, FindLatestOperations, HeldOperation, LatestOperations, ListEntities,
    ListEntityJournal, ListEvidence, ListOperations, NewEntity, OpenClaim, OperationCursor, PurgeOperations,
    PurgeOperationsOutcome, RevertStrays, StoredEntityEntry, TransactOperation, TransactOperationOutcome,
};
pub use error::StoreError;
pub use family_store::{CancelFamily, CancelFamilyOutcome, FamilyStore, SweepFamily, SweepFamilyOutcome};
pub use journal::{
    AuditCursor, AuditFilter, DoubtCursor, ListAudit, ListDoubts, ListJournal, StoredDoubt,
    StoredJournalEntry,
};
pub use outbox::{
    ClaimOutbox, ClaimedOutbox, FinishOutboxMessage, ListOutbox, OutboxCommand, OutboxDepth, Redeliver,
    RedeliverOutcome,
};
pub use promise_store::{
    CreateOutcome, CreatePromise, ListEarlySettlements, ListPromises, PromisePage, PromiseStore,
    PutSettleToken, SettleToken, StoredEarlySettlement, TokenDigest,
};
pub use purge::{Purge, PurgeOutcome};
pub use read::{ListRuns, RunLog, RunPage, RunView, StoredKey};
pub use renew_leases::{HeldLease, RenewLeases};
pub use request_key_store::{
    KeyRef, KeyUsage, KeyUsageDelta, ReleaseKey, ReleaseOutcome, RequestKeyStore, check_usage_batch,
};
pub use run_filter::{RunFilter, WaitsFor};
pub use schema::SchemaState;
pub use send_signal::{SendSignal, SignalOutcome};
pub use settle_promise::{SettleOutcome, SettlePromise};
pub use start_run::StartOutcome;
pub use transact::{RecordOutput, Transact, TransactOutcome};
pub use webhook_store::{
    FinishInboundEvent, ListInboundEvents, ListUnprocessedEvents, NewInboundEvent, ReceiveOutcome,
    WebhookStore,
};

use crate::limits::{MAX_COUNTED_OUTBOX, MAX_PAGE};
use crate::model::{
    IdempotencyKey, JournalEntry, KeyKind, KeyRecord, NewRun, OutboxMessage, OutboxStatus, Promise,
    PromiseId, RunCommit, RunEvent, RunId, RunStatus, TallyCount, Timestamp, Version, WorkspaceId,
};

/// Result of a store operation: an outcome for the caller to handle, or an error classified by what to do
/// about it.
pub type StoreResult<T> = Result<T, StoreError>;

/// Stores runs, steps, keys, promises, signals, the journal and the outbox.
///
/// These rules hold for every operation:
///
/// - Atomicity. An operation takes effect as a whole or not at all. Its writes are durable when it returns
///   (in the memory store: until the process ends).
/// - Isolation. Concurrent operations on the same run, key or promise take effect one after the other.
/// - Idempotency. An operation that writes may be sent again after [`StoreError::Unknown`]: it recognises its
///   own write. The exceptions are [`Store::transact`] and [`Store::append_journal`].
/// - Time. All decisions use the clock of the store ([`Store::now`]).
/// - Tenancy. An operation that names a workspace never sees or changes the data of another.
/// - Decisions. The functions `decide_*` of [`crate::model`] make all decisions. A store reads their inputs
///   and writes their results in one transaction.
///
/// The trait extends [`Any`], so that the crate of a store can find its own store behind an engine and offer
/// more than this trait does.
#[async_trait]
pub trait Store: Any + Send + Sync + std::fmt::Debug {
    /// Current time of the store's clock. Leases, timers and deadlines are compared with it.
    fn now(&self) -> Timestamp;

    /// Number of times this process saw the store's clock jump. A jump is not followed.
    fn clock_jumps(&self) -> u64 {
        0
    }

    /// Changes when another process may have made a run due, so that this one need not wait for its next
    /// poll.
    ///
    /// Only a hint: it may be late, lost or wrong. `None` if the store cannot tell.
    fn hints(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// The request keys. `None` if the store does not support them.
    fn request_key_store(&self) -> Option<&dyn RequestKeyStore> {
        None
    }

    /// The catalog: configuration of workspaces. `None` if the store does not support it.
    fn catalog(&self) -> Option<&dyn Catalog> {
        None
    }

    /// Standalone promises and search by key. `None` if the store supports only promises of runs.
    fn promise_store(&self) -> Option<&dyn PromiseStore> {
        None
    }

    /// Incoming webhook events. `None` if the store does not support them.
    fn webhook_store(&self) -> Option<&dyn WebhookStore> {
        None
    }

    /// Families of runs. `None` if the store cannot cancel a family as a whole.
    fn family_store(&self) -> Option<&dyn FamilyStore> {
        None
    }

    /// Entities and their operations. `None` if the store does not support them.
    fn entity_store(&self) -> Option<&dyn EntityStore> {
        None
    }

    /// Creates a run, at most once per key and per open subject.
    ///
    /// The first rule that applies decides:
    ///
    /// 1. A run with the same id exists: it is the caller's own from an earlier attempt, and the outcome is
    ///    [`StartOutcome::Created`] with the run as it is now. If the id is seen to belong to another
    ///    workspace, the call is [`StoreError::Refused`]. (Runs are identified by workspace and id, so equal
    ///    ids in two workspaces are two runs.)
    /// 2. The key is live. With the same fingerprint the outcome is `Existing`, or `Spent` if the run was
    ///    purged. With another fingerprint it is `KeyConflict`. An expired key is given to the new run.
    /// 3. An open run of the same workflow name has the same subject: `SubjectBusy`.
    /// 4. [`crate::model::decide_start`] gives the first state of the run.
    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome>;

    /// Grants leases on due runs of the workflows that the caller serves, each by
    /// [`crate::model::decide_claim`].
    ///
    /// Higher priorities come first, then the run that has been due the longest, then the smaller id. Within
    /// one priority, workspaces are treated fairly: if many more runs are due than one claim takes, a shared
    /// store may grant some runs out of this order, so that the backlog of one workspace does not delay the
    /// runs of another. A run that is quarantined is written and not returned, but counts towards the limit.
    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns>;

    /// Extends leases to `now + lease_for`. Returns the runs whose lease is lost.
    ///
    /// A lease is still the caller's if the run is leased to the owner under that fence, even if it has
    /// expired. Renewing changes no version. More than [`crate::limits::MAX_RENEWALS`] leases are
    /// [`StoreError::Refused`].
    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>>;

    /// Writes the changes of the holder of a lease, if the run is still leased under that fence and has the
    /// expected version. An expired lease counts as held until another worker takes it.
    ///
    /// If the condition does not hold, nothing is written, and the first rule that applies decides:
    ///
    /// 1. The last `commit_run` that took effect on the run has the same token: `Committed`. It is the
    ///    caller's own write, whatever other operations did since. `woken` is empty, and `opened` reflects
    ///    the current state.
    /// 2. The run is leased under the same fence: `Stale`.
    /// 3. Otherwise: `LeaseLost`.
    ///
    /// The write is also `Stale` if a promise in `timed_out` is neither stored as pending nor opened by this
    /// write. A child of another workspace, or one with a key or a subject, is [`StoreError::Refused`].
    ///
    /// When the write takes effect:
    ///
    /// - State: the run becomes `commit.head`. A run that stays leased keeps the stored end of its lease, and
    ///   the arrival count stays the store's own. A run that parks with fewer arrivals than stored is due at
    ///   once (`wake_at` = now) and is `woken`.
    /// - Continue as new: `input` replaces the input of the run. Deleted are its step records of older
    ///   generations (last changed before the version of `ContinuedAsNew`, even in this write), its promises
    ///   with their keys (except promises that this write opens), its waits for standalone promises, and its
    ///   consumed signals (but not their ids).
    /// - Promises are opened by [`crate::model::decide_open`]. One that exists is left unchanged, unless its
    ///   state is [`crate::model::PromiseState::KeyTaken`]; that one is decided again. From then on the run
    ///   waits for its standalone promises, even if another client created them. `opened` lists the promises
    ///   with a key that are no longer pending, and the standalone promises that are no longer pending or
    ///   have a deadline. Each counts as an arrival before the parking rule above.
    /// - Children are started by [`crate::model::decide_start`], unless a run with that id exists. Children
    ///   that are due and not granted are `woken`. New children count in the family of the run
    ///   ([`crate::model::decide_add_children`]); the count starts again when the root continues as new. If
    ///   they may not be started, the whole write is [`CommitOutcome::ChildrenRefused`].
    /// - Journal entries are appended. Outbox messages are stored, unless one with that id exists.
    /// - Ending: the expiry of the key is set by [`crate::model::decide_key_expiry`]. The parent gets an
    ///   arrival ([`crate::model::decide_arrival`], without a grant). Open children with
    ///   [`crate::model::ClosePolicy::Cancel`] are cancelled ([`crate::model::RunCommand::parent_ended`];
    ///   refusals are ignored), and if they end, the same rules apply to them. A parent that becomes due, and
    ///   children that become ready, are `woken`. For children that end, `announce` lists the subscribers to
    ///   inform ([`crate::model::Subscribers::announce_ending_of`]); the announcement of the run itself is
    ///   among the outbox messages.
    async fn commit_run(&self, commit: RunCommit) -> StoreResult<CommitOutcome>;

    /// Runs user code in a transaction of the store and writes its record in the same commit. Either both are
    /// written or neither.
    ///
    /// The code runs first. If it fails, its writes are rolled back and nothing is recorded. Then the write
    /// built by [`Transact::record`] is decided as in [`Store::commit_run`]. If it does not take effect, the
    /// code is rolled back too. After [`StoreError::Unknown`] the request must not be sent again: read the
    /// log of the run instead.
    async fn transact(&self, request: Transact) -> StoreResult<TransactOutcome> {
        drop(request);
        Err(StoreError::Refused("this store has no transactions that user code could share".into()))
    }

    /// Carries out an operator's command on a run, by [`crate::model::decide_command`].
    ///
    /// A wrong `expected` version is refused first, as [`crate::model::Refusal::Stale`]. A command that ends
    /// the run has the same consequences as an ending by [`Store::commit_run`], and `announce` lists the
    /// subscribers to inform. A retry takes the key again (`KeyTaken` if the live key names another run),
    /// then the subject (`SubjectBusy`). It clears the result and the expiry of the key, and deletes the
    /// records in `rerun`.
    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome>;

    /// Stores a signal for a run, and wakes the run if it waits, by [`crate::model::decide_arrival`].
    ///
    /// The sequence number of the signal is the arrival count of the run after it. The journal entry is
    /// appended in the same write, and only if the signal is stored. A known signal id is a `Duplicate`, even
    /// if the signal was consumed, and even after the run has ended or continued as new.
    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome>;

    /// Settles a promise, by [`crate::model::decide_settle`]. The first commit wins.
    ///
    /// The runs that wait for the promise are woken, by [`crate::model::decide_arrival`]; only the run that
    /// created it may be granted. The key expires at [`crate::model::Promise::key_expires_at`] from then on.
    /// A promise whose run has ended can be settled and wakes no run. A promise in
    /// [`crate::model::PromiseState::KeyTaken`] is `NoSuchPromise`.
    ///
    /// If the request names a key that names no promise or has expired, and says how long to keep the
    /// settlement, the key is claimed for a future promise and the settlement is kept for it
    /// ([`crate::model::decide_early`]).
    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome>;

    /// Deletes expired keys, with the early settlements kept for them, and old closed runs; a limited number
    /// per call.
    ///
    /// Runs are visited in the order of their ids. A run is kept if its parent is open (the parent may still
    /// read its result), if it has undelivered outbox messages, or if one of its doubts is unresolved. A run
    /// is deleted with all its rows, except its key, which stays until it expires, and journal entries of
    /// people, which stay forever. Keys are deleted by expiry, oldest first, then in key order.
    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome>;

    /// Finds a run with its input and result.
    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>>;

    /// Finds everything that a replay of the run needs. Promises have their state as last written, so that a
    /// timeout can be written over it.
    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>>;

    /// Lists runs, newest first, one bounded page at a time. Refuses a [`RunFilter`] without a workspace.
    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage>;

    /// Lists the history of a run after version `after`, oldest first, at most [`crate::limits::MAX_PAGE`]
    /// events.
    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>>;

    /// Finds the record of a key, expired or not.
    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>>;

    /// Lists keys after `after`, in key order over all workspaces, at most [`crate::limits::MAX_PAGE`].
    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>>;

    /// Finds a promise with its current state ([`crate::model::Promise::state_at`]).
    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>>;

    /// Appends entries to the journal, without any guard. For observations by a worker that no longer holds
    /// the run.
    ///
    /// A request that is sent again after [`StoreError::Unknown`] may be stored twice.
    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()>;

    /// Lists journal entries, oldest first.
    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>>;

    /// Lists actions of people in the order of [`AuditCursor`]. An index serves each filter. If several are
    /// given, the index is the first of run, subject, credential, name and action; the others are checked on
    /// its results.
    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>>;

    /// Counts the effects that happened more than once, or may have, by class and tally, in this order.
    /// Computed from the evidence in the journal ([`crate::model::Evidence`]); the strongest evidence about
    /// each attempt counts. `None` counts over all workspaces.
    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>>;

    /// Lists steps in doubt of open and closed runs, oldest doubt first.
    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>>;

    /// Grants outbox messages to a worker, by [`crate::model::OutboxMessage::claimed`]. For each target, the
    /// message due the longest comes first, then the smaller id. If the worker does not report by the end of
    /// its claim, the message is due again at that time.
    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox>;

    /// Records the result of a delivery, if the caller still holds the message
    /// ([`crate::model::OutboxMessage::is_held_by`]). Returns whether it did.
    ///
    /// Sent again after it took effect, it returns `false` and changes nothing.
    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool>;

    /// Makes a delivered or dead message due now, with its attempts and failure cleared; or deletes it, if
    /// the command says so.
    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome>;

    /// Lists outbox messages in the order of workspace and id.
    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>>;

    /// Measures the backlog of the outbox, for monitoring. A store may override this to count without reading
    /// messages.
    async fn measure_outbox(&self) -> StoreResult<OutboxDepth> {
        let mut depth = OutboxDepth::default();
        for status in [OutboxStatus::Due, OutboxStatus::Claimed, OutboxStatus::Dead] {
            let (mut after, mut counted) = (None, 0);
            while counted < MAX_COUNTED_OUTBOX {
                let limit = MAX_PAGE.min(MAX_COUNTED_OUTBOX - counted);
                let request =
                    ListOutbox { workspace: None, status: Some(status), target: None, after, limit };
                let page = self.list_outbox(request).await?;
                counted += page.len();
                if status == OutboxStatus::Dead {
                    depth.dead += page.len() as u64;
                } else {
                    depth.undelivered += page.len() as u64;
                    let made = page.iter().map(|post| post.created_at);
                    depth.oldest_at = made.chain(depth.oldest_at).min();
                    let due = page.iter().filter_map(|post| post.state.due_at());
                    depth.first_due_at = due.chain(depth.first_due_at).min();
                }
                match page.last() {
                    Some(last) if page.len() == limit => {
                        after = Some((last.workspace.clone(), last.id.clone()))
                    }
                    _ => break,
                }
            }
        }
        depth.undelivered = depth.undelivered.min(MAX_COUNTED_OUTBOX as u64);
        Ok(depth)
    }

    /// Due time of the most overdue run, in all workspaces and for all workflows: no worker has claimed it,
    /// or the lease of its holder expired then. `None` if no run is due. A store may override this to answer
    /// without reading runs.
    async fn find_oldest_due_at(&self) -> StoreResult<Option<Timestamp>> {
        let (mut longest, mut before) = (None, None);
        loop {
            let statuses = vec![RunStatus::Pending, RunStatus::Running, RunStatus::Waiting];
            let request = ListRuns {
                workspace: None,
                statuses,
                workflow: None,
                filter: Default::default(),
                before,
                limit: MAX_PAGE,
            };
            let page = self.list_runs(request).await?;
            let due = page.runs.iter().filter_map(|run| run.head.state.wake_at());
            longest = due.chain(longest).min();
            before = page.next;
            if before.is_none() {
                return Ok(longest.filter(|at| *at <= self.now()));
            }
        }
    }

    /// Number of open runs of a workspace. Counting ends at `up_to`. A store may override this to count
    /// without reading runs.
    async fn count_open_runs(&self, workspace: &WorkspaceId, up_to: usize) -> StoreResult<usize> {
        let (mut counted, mut before) = (0, None);
        while counted < up_to {
            let request = ListRuns {
                workspace: Some(workspace.clone()),
                statuses: vec![RunStatus::Pending, RunStatus::Running, RunStatus::Waiting, RunStatus::Paused],
                workflow: None,
                filter: Default::default(),
                before,
                limit: MAX_PAGE.min(up_to - counted),
            };
            let page = self.list_runs(request).await?;
            counted += page.runs.len();
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        Ok(counted)
    }

    /// Waits until everything accepted is written, then releases the resources of the store.
    async fn close(&self) -> StoreResult<()>;
}
