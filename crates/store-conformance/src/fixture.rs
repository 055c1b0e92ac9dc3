//! Short builders and calls for the cases, so that a case reads like sentences.

mod at_once;
mod catalog;
mod entities;
mod journal;
mod operations;
mod order;
mod outbox;
mod requests;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hapax_engine::clock::{Clock, ManualClock};
use hapax_engine::fsck::{Report, fsck};
use hapax_engine::model::{
    EventKind, Failure, Grant, IdempotencyKey, KeyKind, KeyRecord, Name, OwnerId, Payload, PromiseId,
    PromiseRef, RunCommand, RunEvent, RunHead, RunId, RunResult, SettleRequest, Settlement, SignalId, StepId,
    StepRecord, Subscribers, Timestamp, Version, WorkflowRef, WorkspaceId,
};
use hapax_engine::store::{
    ClaimRuns, ClaimedRuns, CommandRun, HeldLease, ListRuns, Purge, PurgeOutcome, RenewLeases,
    RunCommandOutcome, RunLog, RunPage, RunView, SendSignal, SettleOutcome, SettlePromise, SignalOutcome,
    Store,
};

use crate::UserTables;

pub use at_once::at_once;
pub use catalog::{CatalogItemBuilder, all_items};
pub use entities::{INVOICES, entity_in, entity_of, is_table, kind_in};
pub use journal::{MEG, note_of, noted_by};
pub use operations::{BeginBuilder, BegunOperation, begun, done, failure, key_in, manager};
pub use order::Order;
pub use outbox::{finish_of, post_of};
pub use requests::{Ask, GRACE, HOLD, KEEP, answer, kept, replayed, run_key, uses};
pub use write::{Write, doubt_of};

/// Unwraps an outcome that must match the pattern; otherwise panics with the outcome.
#[macro_export]
macro_rules! must {
    ($outcome:expr, $form:pat $(if $guard:expr)? $(=> $taken:expr)?) => {
        match $outcome {
            $form $(if $guard)? => ($($taken)?),
            other => panic!("expected {}, got {other:?}", stringify!($form $(if $guard)?)),
        }
    };
}

/// Lease duration in the cases.
pub const LEASE: Duration = Duration::from_secs(30);
/// A second.
pub const SECOND: Duration = Duration::from_secs(1);
/// An hour.
pub const HOUR: Duration = Duration::from_secs(3600);

/// A worker.
pub const ANN: OwnerId = OwnerId::from_u128(0xa);
/// Another worker.
pub const BOB: OwnerId = OwnerId::from_u128(0xb);

/// A store on its own clock, with the calls that cases make.
#[derive(Debug)]
pub struct TestStore {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// The clock it follows.
    pub clock: Arc<ManualClock>,
    /// Tables that belong to the user, if the store supports them.
    pub tables: Option<Arc<dyn UserTables>>,
    ids: AtomicU64,
}

impl TestStore {
    /// A stage for `store`, which follows `clock`.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        TestStore { store, clock, tables: None, ids: AtomicU64::new(1) }
    }

    /// Adds the user's tables.
    #[must_use]
    pub fn with_tables(self, tables: Option<Arc<dyn UserTables>>) -> Self {
        TestStore { tables, ..self }
    }

    /// The current time by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Advances the clock.
    pub fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// An unused run id, greater than earlier ones.
    pub fn fresh_id(&self) -> RunId {
        RunId::from_u128(0x1000 + u128::from(self.ids.fetch_add(1, Ordering::Relaxed)))
    }

    /// Begins a start: of workflow `order` unless set otherwise.
    pub fn order(&self) -> Order<'_> {
        Order::new(self)
    }

    /// Begins the start of a child that `step` of `parent` waits for.
    pub fn child_of(&self, parent: &RunHead, step: &str) -> Order<'_> {
        self.order().parent(parent.facts.as_parent(StepId::from_stored(step), Default::default()))
    }

    /// A new run that waits to be claimed.
    pub async fn pending(&self) -> RunHead {
        self.order().start().await
    }

    /// A new run that ANN drives.
    pub async fn driven(&self) -> RunHead {
        self.order().granted_to(ANN).start().await
    }

    /// A write under the lease of `head`.
    pub async fn write(&self, head: &RunHead) -> Write<'_> {
        let log = self.store.find_log(&head.facts.workspace, head.id()).await.unwrap();
        let (steps, before) = log.map(|log| (log.steps, log.attempts_before)).unwrap_or_default();
        Write::new(self, head, steps, before)
    }

    /// Claims up to `limit` runs.
    pub async fn claim_upto(&self, limit: usize, owner: OwnerId) -> ClaimedRuns {
        self.store.claim_runs(ClaimRuns { grant: grant(owner), limit }).await.unwrap()
    }

    /// Claims all due runs.
    pub async fn claim(&self, owner: OwnerId) -> Vec<RunHead> {
        self.claim_upto(100, owner).await.runs
    }

    /// Claims the one due run.
    pub async fn claim_one(&self, owner: OwnerId) -> RunHead {
        let mut runs = self.claim(owner).await;
        assert_eq!(runs.len(), 1, "one run is due: {runs:?}");
        runs.remove(0)
    }

    /// Renews the leases of `heads`; returns the lost ones.
    pub async fn renew(&self, owner: OwnerId, heads: &[&RunHead]) -> Vec<RunId> {
        let held = |head: &&RunHead| HeldLease {
            workspace: head.facts.workspace.clone(),
            run: head.id(),
            fence: head.fence,
        };
        let leases = heads.iter().map(held).collect();
        self.store.renew_leases(RenewLeases { owner, lease_for: LEASE, leases }).await.unwrap()
    }

    /// Sends a command.
    pub async fn steer(&self, run: &RunHead, command: RunCommand) -> RunCommandOutcome {
        self.steer_at(run, command, None).await
    }

    /// Sends a command that requires this version of the run.
    pub async fn steer_at(
        &self,
        run: &RunHead,
        command: RunCommand,
        expected: Option<Version>,
    ) -> RunCommandOutcome {
        let workspace = run.facts.workspace.clone();
        self.store
            .command_run(CommandRun {
                workspace,
                run: run.id(),
                command,
                expected,
                note: None,
                announce: Subscribers::default(),
            })
            .await
            .unwrap()
    }

    /// Sends a command, which must be accepted.
    pub async fn steered(&self, run: &RunHead, command: RunCommand) -> RunHead {
        must!(self.steer(run, command).await, RunCommandOutcome::Accepted(head) => head)
    }

    /// Sends the signal `name`.
    pub async fn signal(&self, run: &RunHead, name_of: &str) -> SignalOutcome {
        self.store.send_signal(signal_to(run, name_of, None)).await.unwrap()
    }

    /// Sends the signal `name` with an id that the sender chose.
    pub async fn signal_as(&self, run: &RunHead, name_of: &str, id: &str) -> SignalOutcome {
        self.store.send_signal(signal_to(run, name_of, Some(id))).await.unwrap()
    }

    /// Settles the promise that `step` waits for with `value`.
    pub async fn settle(&self, run: &RunHead, step: &str, value: &str) -> SettleOutcome {
        self.store.settle_promise(settlement_of(run, step, value)).await.unwrap()
    }

    /// Purges runs that closed before now, and expired keys.
    pub async fn purge(&self) -> PurgeOutcome {
        let request = Purge { runs_closed_before: Some(self.now()), after: None, limit: 100 };
        self.store.purge(request).await.unwrap()
    }

    /// The current run.
    pub async fn view(&self, run: &RunHead) -> RunView {
        self.find(run).await.expect("the run is there")
    }

    /// The current run, if it exists.
    pub async fn find(&self, run: &RunHead) -> Option<RunView> {
        self.store.find_run(&run.facts.workspace, run.id()).await.unwrap()
    }

    /// The current head of the run.
    pub async fn head(&self, run: &RunHead) -> RunHead {
        self.view(run).await.head
    }

    /// Everything a replay of the run needs.
    pub async fn log(&self, run: &RunHead) -> RunLog {
        let log = self.store.find_log(&run.facts.workspace, run.id()).await.unwrap();
        log.expect("the run is there")
    }

    /// The record of a step.
    pub async fn step(&self, run: &RunHead, step: &str) -> Option<StepRecord> {
        self.log(run).await.steps.into_iter().find(|record| record.id.as_str() == step)
    }

    /// The history of the run.
    pub async fn events(&self, run: &RunHead) -> Vec<RunEvent> {
        self.store.list_events(&run.facts.workspace, run.id(), Version::default()).await.unwrap()
    }

    /// Kinds of the run's events, in order.
    pub async fn history(&self, run: &RunHead) -> Vec<EventKind> {
        self.events(run).await.into_iter().map(|event| event.kind).collect()
    }

    /// The record of a key in the default workspace.
    pub async fn key(&self, key: &str) -> Option<KeyRecord> {
        let key = IdempotencyKey::new(key).unwrap();
        self.store.find_key(&WorkspaceId::default(), KeyKind::Run, &key).await.unwrap()
    }

    /// One page of runs of the default workspace.
    pub async fn list(&self, limit: usize, before: Option<RunId>) -> RunPage {
        let workspace = Some(WorkspaceId::default());
        let request = ListRuns {
            workspace,
            statuses: Vec::new(),
            workflow: None,
            filter: Default::default(),
            before,
            limit,
        };
        self.store.list_runs(request).await.unwrap()
    }

    /// Checks every invariant on the stored data.
    pub async fn fsck(&self) -> Report {
        fsck(&*self.store).await.unwrap()
    }
}

/// A valid name.
pub fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

/// A version of a workflow.
pub fn workflow(text: &str, version: u32) -> WorkflowRef {
    WorkflowRef { name: name(text), version }
}

/// JSON text.
pub fn json(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}

/// An offer to drive the workflows `order` and `refund`.
pub fn grant(owner: OwnerId) -> Grant {
    grant_for(owner, [workflow("order", 1), workflow("refund", 1)])
}

/// An offer to drive these workflows.
pub fn grant_for(owner: OwnerId, serves: impl IntoIterator<Item = WorkflowRef>) -> Grant {
    Grant { owner, lease_for: LEASE, serves: Arc::new(serves.into_iter().collect()) }
}

/// A signal for a run.
pub fn signal_to(run: &RunHead, name_of: &str, id: Option<&str>) -> SendSignal {
    SendSignal {
        workspace: run.facts.workspace.clone(),
        run: run.id(),
        name: name(name_of),
        payload: json(r#"{"from":"outside"}"#),
        id: id.map(|id| SignalId::new(id).unwrap()),
        note: None,
        grant: None,
    }
}

/// The promise that `step` of the run waits for.
pub fn promise_of(run: &RunHead, step: &str) -> PromiseId {
    PromiseId::for_step(run.id(), run.generation, &StepId::from_stored(step))
}

/// A settlement of the promise that `step` of the run waits for.
pub fn settlement_of(run: &RunHead, step: &str, value: &str) -> SettlePromise {
    SettlePromise {
        workspace: run.facts.workspace.clone(),
        promise: PromiseRef::Id(promise_of(run, step)),
        wish: SettleRequest::new(Settlement::Resolved(json(value))),
        keep_for: None,
        note: None,
        grant: None,
    }
}

/// The command to cancel.
pub fn cancel() -> RunCommand {
    RunCommand::Cancel { reason: "the customer left".into() }
}

/// The command to retry all that failed.
pub fn retry() -> RunCommand {
    RunCommand::retry(None)
}

/// A successful result.
pub fn completed(value: &str) -> RunResult {
    RunResult::Completed(json(value))
}

/// A failed result.
pub fn failed(why: &str) -> RunResult {
    RunResult::Failed(Failure::permanent(why))
}
