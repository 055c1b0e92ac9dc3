//! The memory store as one node reaches it: over a connection that fails in every way a connection can.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{
    Grant, IdempotencyKey, JournalEntry, KeyKind, KeyRecord, NewRun, OutboxMessage, OwnerId, Promise,
    PromiseId, PromiseRef, RunCommand, RunCommit, RunEvent, RunId, TallyCount, Timestamp, Version,
    WorkspaceId,
};
use hapax_engine::store::{
    Catalog, ClaimOutbox, ClaimRuns, ClaimedOutbox, ClaimedRuns, CommandRun, CommitOutcome, EntityStore,
    FamilyStore, FinishOutboxMessage, ListAudit, ListDoubts, ListJournal, ListOutbox, ListRuns, PromiseStore,
    Purge, PurgeOutcome, Redeliver, RedeliverOutcome, RenewLeases, RequestKeyStore, RunCommandOutcome,
    RunLog, RunPage, RunView, SendSignal, SettleOutcome, SettlePromise, SignalOutcome, StartOutcome, Store,
    StoreError, StoreResult, StoredDoubt, StoredJournalEntry, StoredKey, WebhookStore,
};

use super::network_faults::RequestFault;
use super::node::Node;
use super::trace_text::TraceText;
use super::world::World;

#[derive(Debug)]
pub struct FaultyStore {
    world: Arc<World>,
    node: Arc<Node>,
}

/// A store verb: its name in the trace, and its implementation.
pub struct Call<F> {
    shown: String,
    writes: bool,
    may_echo: bool,
    carry_out: F,
}

impl<F> Call<F> {
    pub fn read(shown: String, carry_out: F) -> Self {
        Call { shown, writes: false, may_echo: false, carry_out }
    }

    /// Makes a call that writes, and that may arrive a second time at any later time.
    pub fn write(shown: String, carry_out: F) -> Self {
        Call { shown, writes: true, may_echo: true, carry_out }
    }

    /// Makes a call that writes, and that must not arrive again later, when it would mean something else.
    pub fn command(shown: String, carry_out: F) -> Self {
        Call { shown, writes: true, may_echo: false, carry_out }
    }
}

impl FaultyStore {
    pub fn new(world: Arc<World>, node: Arc<Node>) -> Self {
        FaultyStore { world, node }
    }

    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The store itself, without faults, for checks and people.
    pub fn store(&self) -> &MemoryStore {
        &self.world.store
    }

    pub async fn send<T, F>(&self, call: Call<F>) -> StoreResult<T>
    where
        T: TraceText + Send + 'static,
        F: Fn(&MemoryStore) -> StoreResult<T> + Send + Sync + 'static,
    {
        let (world, node) = (&self.world, &self.node);
        world.pace();
        world.count(|tally| tally.requests += 1);
        let mut journey = world.journey(call.writes, call.may_echo);
        self.reach_the_line()?;
        if !journey.out.is_zero() {
            tokio::time::sleep(journey.out).await;
        }
        node.thawed().await;
        self.reach_the_line()?;
        if world.is_calm() {
            journey.fate = RequestFault::Pass;
        }
        let told = |fate: &str| world.log(&node.name, &format!("{}: {fate}", call.shown));
        let unknown = || StoreError::Unknown("the answer was lost".into());
        match journey.fate {
            RequestFault::Refuse => {
                told("refused");
                world.count(|tally| tally.refused += 1);
                return Err(StoreError::Unavailable("the store is down".into()));
            }
            RequestFault::LoseRequest => {
                told("lost on the way");
                return Err(unknown());
            }
            RequestFault::ArriveLate(after) => {
                told("no answer, still under way");
                world.count(|tally| tally.arrived_late += 1);
                let (world, node) = (world.clone(), node.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _ = arrive(&world, &node, "late ", &call);
                });
                return Err(unknown());
            }
            RequestFault::Hang { takes_effect } => {
                told("hangs");
                world.count(|tally| tally.hung += 1);
                if takes_effect {
                    let _ = arrive(world, node, "", &call);
                }
                node.hang();
                node.death().await;
                return Err(unknown());
            }
            RequestFault::Pass
            | RequestFault::LoseAnswer
            | RequestFault::ArriveTwice
            | RequestFault::Echo(_) => {}
        }
        let mut answer = arrive(world, node, "", &call);
        if journey.fate == RequestFault::ArriveTwice {
            world.count(|tally| tally.arrived_twice += 1);
            answer = arrive(world, node, "again ", &call);
        }
        if !journey.back.is_zero() {
            tokio::time::sleep(journey.back).await;
        }
        node.thawed().await;
        if node.is_dead() {
            return Err(unknown());
        }
        match journey.fate {
            RequestFault::LoseAnswer => {
                told("answer lost");
                world.count(|tally| tally.answers_lost += 1);
                return Err(unknown());
            }
            RequestFault::Echo(after) => {
                world.count(|tally| tally.arrived_twice += 1);
                let (world, node) = (world.clone(), node.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _ = arrive(&world, &node, "echo ", &call);
                });
            }
            _ => {}
        }
        answer
    }

    /// Fails if the node is dead or cut off.
    fn reach_the_line(&self) -> StoreResult<()> {
        if self.node.is_dead() {
            return Err(StoreError::Unavailable("this node is dead".into()));
        }
        if self.node.is_cut_off() {
            return Err(StoreError::Unavailable("this node is cut off".into()));
        }
        Ok(())
    }

    pub fn learn_owner(&self, owner: OwnerId) {
        let known = *self.node.owner.get_or_init(|| owner);
        if known != owner {
            self.world.break_off(format!("invariant 22: {} has two owner ids", self.node.name));
        }
    }

    fn learn_from(&self, grant: &Option<Grant>) {
        if let Some(grant) = grant {
            self.learn_owner(grant.owner);
        }
    }
}

/// Executes the request at the store, then checks all invariants if it was a write.
fn arrive<T, F>(world: &World, node: &Node, how: &str, call: &Call<F>) -> StoreResult<T>
where
    T: TraceText,
    F: Fn(&MemoryStore) -> StoreResult<T>,
{
    let answer = (call.carry_out)(&world.store);
    let shown = match &answer {
        Ok(outcome) => outcome.shown(world),
        Err(error) => error.to_string(),
    };
    world.log(&node.name, &format!("{how}{} => {shown}", call.shown));
    if call.writes {
        world.look();
    }
    answer
}

/// Unwraps an answer of the memory store, whose calls complete at the first poll.
pub fn now<T>(answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    answer.now_or_never().expect("the memory store does not wait")
}

#[async_trait]
impl Store for FaultyStore {
    fn now(&self) -> Timestamp {
        self.world.store.now()
    }

    fn request_key_store(&self) -> Option<&dyn RequestKeyStore> {
        Some(self)
    }

    fn catalog(&self) -> Option<&dyn Catalog> {
        Some(self)
    }

    fn promise_store(&self) -> Option<&dyn PromiseStore> {
        Some(self)
    }

    fn webhook_store(&self) -> Option<&dyn WebhookStore> {
        Some(self)
    }

    fn family_store(&self) -> Option<&dyn FamilyStore> {
        Some(self)
    }

    fn entity_store(&self) -> Option<&dyn EntityStore> {
        Some(self)
    }

    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        self.learn_from(&new.grant);
        let shown = format!("start {}", self.world.name(new.facts.id));
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.start_run(new.clone())))).await
    }

    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        self.learn_owner(request.grant.owner);
        let shown = format!("claim {}", request.limit);
        self.send(Call::command(shown, move |store: &MemoryStore| now(store.claim_runs(request.clone()))))
            .await
    }

    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        self.learn_owner(request.owner);
        let held: Vec<String> = request
            .leases
            .iter()
            .map(|held| format!("{}@{}", self.world.name(held.run), held.fence))
            .collect();
        let shown = format!("renew {}", held.join(" "));
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.renew_leases(request.clone()))))
            .await
    }

    async fn commit_run(&self, advance: RunCommit) -> StoreResult<CommitOutcome> {
        let shown = super::trace_text::advance(&advance, &self.world);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.commit_run(advance.clone())))).await
    }

    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        let run = self.world.name(request.run);
        let shown = match &request.command {
            RunCommand::Pause => format!("pause {run}"),
            RunCommand::Resume => format!("resume {run}"),
            RunCommand::Cancel { .. } => format!("cancel {run}"),
            RunCommand::Retry { .. } => format!("retry {run}"),
        };
        let world = self.world.clone();
        self.send(Call::command(shown, move |store: &MemoryStore| {
            let steered = now(store.command_run(request.clone()));
            if request.command == RunCommand::Pause && matches!(steered, Ok(RunCommandOutcome::Accepted(_))) {
                world.with_requests(|requests| requests.note_pause(request.run));
            }
            steered
        }))
        .await
    }

    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        self.learn_from(&request.grant);
        let id = request.id.as_ref().map_or("-", |id| id.as_str());
        let shown = format!("signal {} {id}", self.world.name(request.run));
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.send_signal(request.clone()))))
            .await
    }

    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        self.learn_from(&request.grant);
        let name = match &request.promise {
            PromiseRef::Id(id) => id.as_str().split_once(':').map_or("?", |(_, name)| name).to_string(),
            PromiseRef::Key(key) => key.as_str().rsplit(':').next().unwrap_or("?").to_string(),
        };
        let shown = format!("settle {name}");
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.settle_promise(request.clone()))))
            .await
    }

    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        self.send(Call::write("purge".into(), move |store: &MemoryStore| now(store.purge(request.clone()))))
            .await
    }

    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        let workspace = workspace.clone();
        let shown = format!("find {}", self.world.name(run));
        self.send(Call::read(shown, move |store: &MemoryStore| now(store.find_run(&workspace, run)))).await
    }

    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        let workspace = workspace.clone();
        let shown = format!("load {}", self.world.name(run));
        self.send(Call::read(shown, move |store: &MemoryStore| now(store.find_log(&workspace, run)))).await
    }

    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        now(self.world.store.list_runs(request))
    }

    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        now(self.world.store.list_events(workspace, run, after))
    }

    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        now(self.world.store.find_key(workspace, kind, key))
    }

    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        now(self.world.store.list_keys(after))
    }

    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        now(self.world.store.find_promise(workspace, id))
    }

    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.send(Call::write("append_journal".into(), move |store: &MemoryStore| {
            now(store.append_journal(notes.clone()))
        }))
        .await
    }

    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        now(self.world.store.list_journal(request))
    }

    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        now(self.world.store.list_audit(request))
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        now(self.world.store.count_tallies(workspace))
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        now(self.world.store.list_doubts(request))
    }

    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        self.send(Call::command("claim_outbox".into(), move |store: &MemoryStore| {
            now(store.claim_outbox(request.clone()))
        }))
        .await
    }

    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        self.send(Call::write("finish_outbox_message".into(), move |store: &MemoryStore| {
            now(store.finish_outbox_message(request.clone()))
        }))
        .await
    }

    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        self.send(Call::command("redeliver".into(), move |store: &MemoryStore| {
            now(store.redeliver(request.clone()))
        }))
        .await
    }

    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        now(self.world.store.list_outbox(request))
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
