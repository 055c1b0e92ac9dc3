//! The seam between the engine and what keeps its data: few verbs, each atomic, each with one request and one outcome.
//!
//! What a store must do is written down as tests in the `store-conformance` crate; a behaviour that is not tested
//! there is not promised. Every verb that writes is safe to send again after [`StoreError::Unknown`]: the second
//! time it recognises its own write.

mod advance_run;
mod catalog;
mod claim_runs;
mod command_run;
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
mod schema;
mod send_signal;
mod settle_promise;
mod start_run;
mod transact;
mod webhook_store;

use std::any::Any;

use async_trait::async_trait;
use tokio::sync::watch;

pub use advance_run::CommitOutcome;
pub use catalog::{Catalog, ListCatalogItems, PutCatalogItem, PutOutcome};
pub use claim_runs::{ClaimRuns, Claimed};
pub use command_run::{CommandRun, RunCommandOutcome};
pub use entity_store::{
    CreatedEntity, EntityStore, FindLatest, HeldOperation, LatestOperations, ListEntities, ListEntityNotes,
    ListEvidence, ListOperations, NewEntity, OpenClaim, OperationPlace, PlacedEntityNote, PurgeOperations,
    PurgedOperations, RevertStrays, TransactOperation, TransactedOperation,
};
pub use error::StoreError;
pub use family_store::{CancelFamily, CancelFamilyOutcome, FamilyStore, SweepFamily, SweptFamily};
pub use journal::{
    AuditFilter, AuditPlace, DoubtPlace, ListAudit, ListDoubts, ListJournal, PlacedEntry, StoredDoubt,
};
pub use outbox::{
    ClaimOutbox, ClaimedOutbox, FinishOutboxMessage, ListOutbox, OutboxCommand, OutboxDepth, Redeliver,
    RedeliverOutcome,
};
pub use promise_store::{
    CreateOutcome, CreatePromise, KeptEarly, ListEarly, ListPromises, PromisePage, PromiseStore,
    PutSettleToken, SettleToken, TokenDigest,
};
pub use purge::{Purge, Purged};
pub use read::{ListRuns, RunLog, RunPage, RunView, StoredKey};
pub use renew_leases::{HeldLease, RenewLeases};
pub use request_key_store::{
    KeyPlace, KeyUse, ReleaseKey, ReleaseOutcome, RequestKeyStore, Uses, check_uses,
};
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

/// What a store answers: an outcome that the caller must look at, or an error sorted by remedy.
pub type StoreResult<T> = Result<T, StoreError>;

/// Keeps runs, steps, keys, promises and signals. See the module for what that means.
///
/// It is [`Any`], so that the crate of a store can find its own behind an engine and offer what only that one can do.
#[async_trait]
pub trait Store: Any + Send + Sync + std::fmt::Debug {
    /// The store's clock: the one that leases, timers and deadlines are judged by.
    fn now(&self) -> Timestamp;

    /// How often this process saw the store's clock jump, and kept it from being followed.
    fn clock_jumps(&self) -> u64 {
        0
    }

    /// Changes whenever another process may have made a run due, so that this one need not wait for its next poll to claim it.
    ///
    /// Only a hint: it may be late, be lost, or come for nothing. `None` if the store has no way to know.
    fn hints(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Keys of requests; `None` if the store keeps none.
    fn request_key_store(&self) -> Option<&dyn RequestKeyStore> {
        None
    }

    /// What is set up in workspaces; `None` if the store keeps no such things.
    fn catalog(&self) -> Option<&dyn Catalog> {
        None
    }

    /// Promises that outsiders make and look for; `None` if the store keeps only those of runs.
    fn promise_store(&self) -> Option<&dyn PromiseStore> {
        None
    }

    /// Webhooks that came in; `None` if the store keeps none.
    fn webhook_store(&self) -> Option<&dyn WebhookStore> {
        None
    }

    /// Families of runs; `None` if the store cannot cancel them as a whole.
    fn family_store(&self) -> Option<&dyn FamilyStore> {
        None
    }

    /// Entities and the operations that move them; `None` if the store keeps none.
    fn entity_store(&self) -> Option<&dyn EntityStore> {
        None
    }

    /// Makes a run exist, at most once per key and per open subject.
    ///
    /// A run with the same id is the caller's own from an earlier try: [`StartOutcome::Created`] with the run as it is
    /// (an id that another workspace is seen to have is [`StoreError::Refused`]; a run is named by workspace and id together,
    /// so that two equal ids, should they meet unseen, are still two runs).
    /// Otherwise a live key decides (same fingerprint: `Existing`, or `Spent` if the run was purged; another: `KeyConflict`),
    /// then an open run of the same workflow name on the same subject (`SubjectBusy`), then
    /// [`crate::model::decide_start`]. An expired key is given to the new run.
    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome>;

    /// Grants leases on due runs of the workflows the caller serves: higher priority first, then the longest due.
    ///
    /// Among runs of one priority workspaces are treated fairly: where many more are due than one claim takes, a store that
    /// workspaces share may leave the order of time for some of its grants, so that each workspace has its turn and the backlog
    /// of one never makes another's runs wait for all of it. Of runs due equally long the smaller id goes first. Each by [`crate::model::decide_claim`]; a run that it puts aside
    /// is written and not returned, but counts towards the limit.
    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<Claimed>;

    /// Prolongs leases to `now + lease_for`; answers with those that are lost.
    ///
    /// A lease is still the caller's if the run is leased to the owner under that fence. No version is taken. A lease that
    /// has ended but was not taken by anybody is prolonged as well. More leases than may be are [`StoreError::Refused`].
    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>>;

    /// Writes what the holder of a lease did, if the run is still leased under that fence and has that version. That the
    /// lease has ended does not count as long as nobody took it.
    ///
    /// Refused as a whole otherwise: the last `advance_run` that took effect on the run has the same token: `Advanced` (it is
    /// the caller's own, whatever other verbs did since; nobody is named as woken, and `opened` is judged by how things are now); the run is leased under the same fence:
    /// `Stale`; else `LeaseLost`. A promise in `timed_out` that is not stored as pending, nor opened by the same write, is `Stale`,
    /// too. A child of another workspace, or with a key or a subject, is [`StoreError::Refused`]. When it takes effect:
    /// - the run becomes `advance.head`, but a run that stays leased keeps its lease as it was last renewed, and the count of
    ///   arrivals stays the store's own; a run that parks having seen fewer
    ///   arrivals than there are is due at once (`wake_at` = now) and among the `woken`;
    /// - `input` replaces the run's input and deletes its step records of older generations (those last changed before the
    ///   version of `ContinuedAsNew`, also in this very write), its promises with their keys (not those that this write opens), what it waits for that stands alone, and its
    ///   consumed signals (not their ids);
    /// - promises are opened by [`crate::model::decide_open`], unless one with that id is there that has not lost its key to another
    ///   ([`crate::model::PromiseState::KeyTaken`]: that one is judged anew). For one that stands alone the run
    ///   waits from then on, whoever made it. Of those that stand alone or have a key, the ones that are not pending afterwards, or that stand alone and have a
    ///   deadline, are `opened`; each counts as an arrival (before a run that parks is looked at);
    /// - children are started by [`crate::model::decide_start`], unless a run with that id is there; those due and not granted are
    ///   among the `woken`. Those that are new count in the family of the run ([`crate::model::decide_births`]), whose count begins anew when
    ///   its root continues as new; if they may not be started, the write as a whole is [`CommitOutcome::ChildrenRefused`];
    /// - notes are appended to the journal; posts are kept, unless one with that id is there;
    /// - an ending sets the key's expiry by [`crate::model::decide_key_expiry`], is an arrival at the parent
    ///   ([`crate::model::decide_arrival`], without a grant), and cancels open children that ask for it
    ///   ([`crate::model::RunCommand::parent_ended`]; refusals are ignored); children that end by it have the same consequences. A parent
    ///   that this wakes, and children that it makes ready to be driven, are among the `woken`. For children that end by it, `announce` says who is
    ///   told ([`crate::model::Subscribers::tell_ending`]); that the run itself ended is among the posts.
    async fn advance_run(&self, advance: RunCommit) -> StoreResult<CommitOutcome>;

    /// Does work of the user's in a transaction of the store's own and writes its record in the same commit: both
    /// are there afterwards, or neither.
    ///
    /// The work is done first; if it fails, its writes are taken back and nothing is recorded. Then the write that
    /// [`Transact::record`] makes of its output is judged as [`Store::advance_run`] judges it; if it does not take effect, the
    /// work is taken back. After [`StoreError::Unknown`] the request is not sent again: the caller reads the log instead.
    async fn transact(&self, request: Transact) -> StoreResult<TransactOutcome> {
        drop(request);
        Err(StoreError::Refused("this store has no transactions that user code could share".into()))
    }

    /// Carries out a person's command on a run, by [`crate::model::decide_command`].
    ///
    /// A wrong `expected` version is refused as [`crate::model::Refusal::Stale`] before all else. A command that ends the run has the
    /// same consequences as an ending by [`Store::advance_run`], and whoever `announce` names is told of it. A retry takes back the key (`KeyTaken` if a live key now names
    /// another run) and then the subject (`SubjectBusy`), clears the result and the key's expiry, and deletes the records in `rerun`.
    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome>;

    /// Keeps a signal for a run, and wakes it if it waits, by [`crate::model::decide_arrival`].
    ///
    /// The note is appended in the same write, and only if the signal is stored. Its place is the run's count of arrivals after it. An id that the run has seen is a `Duplicate`, consumed or not, also
    /// after the run has ended or continued as new.
    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome>;

    /// Settles a promise, first commit wins ([`crate::model::decide_settle`]), and wakes the runs that wait for it, by
    /// [`crate::model::decide_arrival`]; only the run that made it may be granted. Its key expires by
    /// [`crate::model::Promise::key_expires_at`] from then on.
    ///
    /// Judged at the store's clock. A promise whose run has ended can be settled; it wakes nobody. One that has lost its key to another is
    /// `NoSuchPromise`. A key that names no promise, or has expired, is claimed for the one it will name, and the settlement kept for that
    /// ([`crate::model::decide_early`]), if the request says for how long.
    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome>;

    /// Deletes expired keys, with the settlements that are still kept for them, and old closed runs, a bounded number at a time.
    ///
    /// Runs are looked at in the order of their ids. One whose parent is still open is kept, because the parent may have
    /// yet to read its result, and so is one whose after-effects are not settled or whose doubts nobody has ruled on. A run goes with all its rows, but its key stays while it
    /// lives, and entries of the journal that people made stay for ever. Keys go the longest expired first,
    /// and those that expired together in their order.
    async fn purge(&self, request: Purge) -> StoreResult<Purged>;

    /// One run with its input and result.
    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>>;

    /// Everything a replay of the run needs; promises as they were last written, so that a timeout can be written over them.
    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>>;

    /// Runs, newest first, one bounded page at a time.
    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage>;

    /// The history of a run after `after`, oldest first, at most [`crate::limits::MAX_PAGE`] events.
    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>>;

    /// What a key names, expired or not.
    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>>;

    /// Keys in order after `after`, across workspaces, at most [`crate::limits::MAX_PAGE`].
    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>>;

    /// One promise, as it stands now ([`crate::model::Promise::state_at`]).
    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>>;

    /// Appends to the journal by itself, without any guard: for what is seen by somebody who no longer holds the run.
    ///
    /// A request that is sent again after [`StoreError::Unknown`] may be there twice.
    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()>;

    /// Entries of the journal, oldest first.
    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<PlacedEntry>>;

    /// What people did, in the order of [`AuditPlace`]. Each filter is served by an index; of several, the first of run, subject, credential,
    /// name and action is, and the others are checked on what it finds.
    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<PlacedEntry>>;

    /// How many effects happened more than once, or may have, by class and by how often, in this order. It is computed from the evidence in
    /// the journal ([`crate::model::Evidence`]): of each attempt the strongest counts. `None` counts over all workspaces.
    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>>;

    /// Steps in doubt, the longest in doubt first, of open and of ended runs.
    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>>;

    /// Grants after-effects to a deliverer, by [`crate::model::OutboxMessage::claimed`]: for each target the longest due first, then by id. One whose
    /// deliverer has not said by the end of its claim how it went is due again at that end.
    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox>;

    /// Writes how a delivery went, if it is still the caller's ([`crate::model::OutboxMessage::is_held_by`]); answers whether it was.
    ///
    /// Sent again after it took effect it answers `false` and changes nothing.
    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool>;

    /// Makes a delivered or dead after-effect due again now, with no attempts counted and no failure; or deletes it, if that is the wish.
    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome>;

    /// After-effects in the order of workspaces and ids.
    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>>;

    /// How much waits to be delivered, for those who watch. Stores that can count without reading what waits do.
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

    /// Since when the run that has been due the longest is due, over all workspaces and whoever serves its workflow: nobody has
    /// claimed it, or the lease of its holder ended then. `None` if none is due. Stores that can tell without reading runs do.
    async fn find_longest_due(&self) -> StoreResult<Option<Timestamp>> {
        let (mut longest, mut before) = (None, None);
        loop {
            let statuses = vec![RunStatus::Pending, RunStatus::Running, RunStatus::Waiting];
            let request = ListRuns { workspace: None, statuses, workflow: None, before, limit: MAX_PAGE };
            let page = self.list_runs(request).await?;
            let due = page.runs.iter().filter_map(|run| run.head.state.wake_at());
            longest = due.chain(longest).min();
            before = page.next;
            if before.is_none() {
                return Ok(longest.filter(|at| *at <= self.now()));
            }
        }
    }

    /// Waits until everything accepted is written, and lets go of what the store holds.
    async fn close(&self) -> StoreResult<()>;
}
