//! Tables and indexes of the memory store. Only this file keeps the indexes consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};

use crate::model::{
    CatalogItem, CatalogKind, EarlySettlement, EffectKey, Entity, EntityId, EntityJournalEntry, EntityRef,
    Family, IdempotencyKey, InboundEvent, InboundEventId, JournalEntry, KeyKind, KeyRecord, Name, Operation,
    OperationId, OutboxMessage, Payload, Priority, Promise, PromiseId, RequestRecord, RequestScope, RunEvent,
    RunFacts, RunHead, RunId, RunResult, Signal, SignalId, StepId, StepRecord, Subject, Timestamp,
    WorkflowRef, WorkspaceId, WriteToken,
};
use crate::store::{KeyRef, KeyUsage, SettleToken, StoredKey, TokenDigest};

/// A run with the rows that belong only to it.
#[derive(Debug)]
pub(super) struct RunRow {
    pub(super) head: RunHead,
    pub(super) input: Payload,
    pub(super) result: Option<RunResult>,
    /// Token of the last write under a lease.
    pub(super) token: Option<WriteToken>,
    /// Step records of the current generation.
    pub(super) steps: BTreeMap<StepId, StepRecord>,
    /// Sorted by version.
    pub(super) events: Vec<RunEvent>,
    /// Unconsumed signals by sequence number.
    pub(super) signals: BTreeMap<u64, Signal>,
    /// Ids of all signals ever sent to the run.
    pub(super) signal_ids: BTreeSet<SignalId>,
    pub(super) promises: BTreeSet<PromiseId>,
    /// Standalone promises that the run waits for.
    pub(super) awaits: BTreeSet<PromiseId>,
}

/// Runs of one workflow that become due by time alone, in claim order within a priority.
type Due = BTreeSet<(Priority, Timestamp, RunId)>;

#[derive(Debug, Default)]
pub(super) struct State {
    runs: BTreeMap<RunId, RunRow>,
    keys: BTreeMap<StoredKey, KeyRecord>,
    promises: BTreeMap<(WorkspaceId, PromiseId), Promise>,
    /// Runs that wait for standalone promises. Index for settlements.
    waiters: BTreeMap<(WorkspaceId, PromiseId), BTreeSet<RunId>>,
    /// Tokens of the requests that created standalone promises.
    pub(super) makings: BTreeMap<(WorkspaceId, PromiseId), WriteToken>,
    pub(super) early: BTreeMap<(WorkspaceId, IdempotencyKey), EarlySettlement>,
    pub(super) tokens: BTreeMap<TokenDigest, SettleToken>,
    pub(super) inbound_events: BTreeMap<InboundEventId, InboundEvent>,
    pub(super) last_hook: u64,
    pub(super) entities: BTreeMap<(WorkspaceId, EntityRef), Entity>,
    /// Stand-ins for tables of the user. They hold only the columns of an entity.
    pub(super) tables: BTreeMap<String, BTreeMap<EntityId, Entity>>,
    pub(super) operations: BTreeMap<(WorkspaceId, OperationId), Operation>,
    /// Index for keys.
    pub(super) keyed_operations: BTreeMap<(WorkspaceId, IdempotencyKey), OperationId>,
    /// The operation that holds an entity. Index for claims.
    pub(super) holders: BTreeMap<(WorkspaceId, EntityRef), OperationId>,
    pub(super) entity_notes: Vec<EntityJournalEntry>,
    /// By workspace and root.
    pub(super) families: BTreeMap<(WorkspaceId, RunId), Family>,
    /// (root, descendant). Index for sweeps.
    descendants: BTreeSet<(RunId, RunId)>,
    /// Index for claims.
    due: BTreeMap<WorkflowRef, Due>,
    /// Open runs by subject. Index for starts.
    subjects: BTreeMap<(WorkspaceId, Name, Subject), RunId>,
    /// (parent, child). Index for endings.
    children: BTreeSet<(RunId, RunId)>,
    /// Keys with an expiry. Index for purging.
    expiries: BTreeSet<(Timestamp, StoredKey)>,
    /// The journal by sequence number.
    notes: BTreeMap<u64, JournalEntry>,
    last_note: u64,
    posts: BTreeMap<(WorkspaceId, EffectKey), OutboxMessage>,
    pub(super) requests: BTreeMap<(RequestScope, IdempotencyKey), RequestRecord>,
    pub(super) uses: BTreeMap<KeyRef, KeyUsage>,
    pub(super) items: BTreeMap<(CatalogKind, Name), CatalogItem>,
}

impl State {
    pub(super) fn insert_run(&mut self, head: RunHead, input: Payload, started: RunEvent) {
        let id = head.id();
        if let Some(parent) = &head.facts.parent {
            self.children.insert((parent.run, id));
            self.descendants.insert((parent.root, id));
        }
        self.index(&head);
        let row = RunRow {
            head,
            input,
            result: None,
            token: None,
            steps: BTreeMap::new(),
            events: vec![started],
            signals: BTreeMap::new(),
            signal_ids: BTreeSet::new(),
            promises: BTreeSet::new(),
            awaits: BTreeSet::new(),
        };
        self.runs.insert(id, row);
    }

    /// Writes the state and counters of an existing run. Its immutable facts are kept.
    pub(super) fn put_head(&mut self, mut head: RunHead) {
        let row = self.runs.get_mut(&head.id()).expect("only runs that are there are changed");
        head.facts = row.head.facts.clone();
        let before = std::mem::replace(&mut row.head, head.clone());
        self.unindex(&before);
        self.index(&head);
    }

    /// Deletes a run with all its rows, except its key.
    pub(super) fn remove_run(&mut self, id: RunId) {
        let Some(row) = self.runs.remove(&id) else { return };
        self.unindex(&row.head);
        let workspace = &row.head.facts.workspace;
        for promise in row.promises {
            self.remove_promise(workspace, &promise);
        }
        for promise in row.awaits {
            self.stop_waiting(workspace, &promise, id);
        }
        if let Some(parent) = &row.head.facts.parent {
            self.children.remove(&(parent.run, id));
            self.descendants.remove(&(parent.root, id));
        }
        self.forget_family(&row.head.facts);
        self.notes.retain(|_, note| note.run != id || note.by.is_some());
        self.posts.retain(|_, post| post.run != id);
    }

    pub(super) fn notes(&self) -> &BTreeMap<u64, JournalEntry> {
        &self.notes
    }

    pub(super) fn append_journal(&mut self, notes: impl IntoIterator<Item = JournalEntry>) {
        for note in notes {
            self.last_note += 1;
            self.notes.insert(self.last_note, note);
        }
    }

    pub(super) fn posts(&self) -> &BTreeMap<(WorkspaceId, EffectKey), OutboxMessage> {
        &self.posts
    }

    pub(super) fn put_post(&mut self, post: OutboxMessage) {
        self.posts.insert((post.workspace.clone(), post.id.clone()), post);
    }

    /// Outbox messages of an operation.
    pub(super) fn posts_of(&self, workspace: &WorkspaceId, operation: OperationId) -> Vec<&OutboxMessage> {
        let (from, to) = EffectKey::bounds_of_operation(operation);
        self.posts.range((workspace.clone(), from)..(workspace.clone(), to)).map(|(_, post)| post).collect()
    }

    pub(super) fn remove_post(&mut self, workspace: &WorkspaceId, id: &EffectKey) {
        self.posts.remove(&(workspace.clone(), id.clone()));
    }

    fn index(&mut self, head: &RunHead) {
        let facts = &head.facts;
        if let Some(wake_at) = head.state.wake_at() {
            let due = self.due.entry(facts.workflow.clone()).or_default();
            due.insert((facts.priority, wake_at, facts.id));
        }
        if let Some(place) = subject_of(facts).filter(|_| !head.status().is_closed()) {
            self.subjects.insert(place, facts.id);
        }
    }

    fn unindex(&mut self, head: &RunHead) {
        let facts = &head.facts;
        if let (Some(wake_at), Some(due)) = (head.state.wake_at(), self.due.get_mut(&facts.workflow)) {
            due.remove(&(facts.priority, wake_at, facts.id));
        }
        if let Some(place) = subject_of(facts).filter(|_| !head.status().is_closed()) {
            self.subjects.remove(&place);
        }
    }

    pub(super) fn row(&self, id: RunId) -> Option<&RunRow> {
        self.runs.get(&id)
    }

    pub(super) fn row_mut(&mut self, id: RunId) -> Option<&mut RunRow> {
        self.runs.get_mut(&id)
    }

    /// The run, if it belongs to the workspace.
    pub(super) fn row_in(&self, workspace: &WorkspaceId, id: RunId) -> Option<&RunRow> {
        self.runs.get(&id).filter(|row| row.head.facts.workspace == *workspace)
    }

    pub(super) fn rows(&self) -> &BTreeMap<RunId, RunRow> {
        &self.runs
    }

    pub(super) fn due(&self, workflow: &WorkflowRef) -> Option<&Due> {
        self.due.get(workflow)
    }

    pub(super) fn children(&self, parent: RunId) -> Vec<RunId> {
        let all = (parent, RunId::from_u128(0))..=(parent, RunId::from_u128(u128::MAX));
        self.children.range(all).map(|(_, child)| *child).collect()
    }

    /// Descendants of a root, after `after`, in the order of their ids.
    pub(super) fn descendants(&self, root: RunId, after: Option<RunId>) -> impl Iterator<Item = RunId> {
        let first = after.map_or(Included((root, RunId::from_u128(0))), |after| Excluded((root, after)));
        let last = Included((root, RunId::from_u128(u128::MAX)));
        self.descendants.range((first, last)).map(|(_, run)| *run)
    }

    /// Deletes the family of a deleted run, if no member is left.
    fn forget_family(&mut self, facts: &RunFacts) {
        let root = facts.root();
        if !self.runs.contains_key(&root) && self.descendants(root, None).next().is_none() {
            self.families.remove(&(facts.workspace.clone(), root));
        }
    }

    /// The open run with the same subject.
    pub(super) fn subject_holder(&self, facts: &RunFacts) -> Option<RunId> {
        self.subjects.get(&subject_of(facts)?).copied()
    }

    pub(super) fn keys(&self) -> &BTreeMap<StoredKey, KeyRecord> {
        &self.keys
    }

    pub(super) fn put_key(&mut self, place: StoredKey, record: KeyRecord) {
        self.remove_key(&place);
        if let Some(at) = record.expires_at {
            self.expiries.insert((at, place.clone()));
        }
        self.keys.insert(place, record);
    }

    pub(super) fn remove_key(&mut self, place: &StoredKey) {
        if let Some(KeyRecord { expires_at: Some(at), .. }) = self.keys.remove(place) {
            self.expiries.remove(&(at, place.clone()));
        }
    }

    /// Keys that have expired at `now`, oldest expiry first.
    pub(super) fn expired_keys(&self, now: Timestamp, limit: usize) -> Vec<StoredKey> {
        let dead = self.expiries.iter().take_while(|(at, _)| *at <= now);
        dead.take(limit).map(|(_, place)| place.clone()).collect()
    }

    pub(super) fn promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> Option<&Promise> {
        self.promises.get(&(workspace.clone(), id.clone()))
    }

    /// Writes a promise and links it to its run.
    pub(super) fn put_promise(&mut self, workspace: &WorkspaceId, promise: Promise) {
        if let Some(row) = self.runs.get_mut(&promise.run) {
            row.promises.insert(promise.id.clone());
        }
        self.promises.insert((workspace.clone(), promise.id.clone()), promise);
    }

    pub(super) fn remove_promises(&mut self, run: RunId) {
        let Some(row) = self.runs.get_mut(&run) else { return };
        let workspace = row.head.facts.workspace.clone();
        let (own, awaits) = (std::mem::take(&mut row.promises), std::mem::take(&mut row.awaits));
        own.iter().for_each(|id| self.remove_promise(&workspace, id));
        awaits.iter().for_each(|id| self.stop_waiting(&workspace, id, run));
    }

    /// Deletes a promise, with its key and its tokens.
    pub(super) fn remove_promise(&mut self, workspace: &WorkspaceId, id: &PromiseId) {
        let place = (workspace.clone(), id.clone());
        let Some(promise) = self.promises.remove(&place) else { return };
        if let Some(key) = promise.key {
            let place = promise_key(workspace, &key.key);
            if self.keys.get(&place).is_some_and(|record| record.promise() == Some(id)) {
                self.remove_key(&place);
                self.uses.remove(&KeyRef::Promise { workspace: place.workspace, key: place.key });
            }
        }
        self.makings.remove(&place);
        self.waiters.remove(&place);
        self.tokens.retain(|_, token| (&token.workspace, &token.promise) != (workspace, id));
    }

    /// Makes the run wait for a standalone promise.
    pub(super) fn wait_for_promise(&mut self, workspace: &WorkspaceId, id: &PromiseId, run: RunId) {
        if let Some(row) = self.runs.get_mut(&run) {
            row.awaits.insert(id.clone());
        }
        self.waiters.entry((workspace.clone(), id.clone())).or_default().insert(run);
    }

    fn stop_waiting(&mut self, workspace: &WorkspaceId, id: &PromiseId, run: RunId) {
        let place = (workspace.clone(), id.clone());
        if let Some(runs) = self.waiters.get_mut(&place) {
            runs.remove(&run);
            if runs.is_empty() {
                self.waiters.remove(&place);
            }
        }
    }

    /// Runs that wait for a standalone promise.
    pub(super) fn waiters(&self, workspace: &WorkspaceId, id: &PromiseId) -> Vec<RunId> {
        let waiters = self.waiters.get(&(workspace.clone(), id.clone()));
        waiters.into_iter().flatten().copied().collect()
    }

    pub(super) fn promises(&self) -> &BTreeMap<(WorkspaceId, PromiseId), Promise> {
        &self.promises
    }
}

/// Stored key of a run with these facts.
pub(super) fn key_of(facts: &RunFacts) -> Option<StoredKey> {
    facts.key.as_ref().map(|key| stored_key(&facts.workspace, key))
}

fn stored_key(workspace: &WorkspaceId, key: &IdempotencyKey) -> StoredKey {
    StoredKey { workspace: workspace.clone(), kind: KeyKind::Run, key: key.clone() }
}

/// Stored key of a promise.
pub(super) fn promise_key(workspace: &WorkspaceId, key: &IdempotencyKey) -> StoredKey {
    StoredKey { workspace: workspace.clone(), kind: KeyKind::Promise, key: key.clone() }
}

/// Subject key: at most one open run may have it.
fn subject_of(facts: &RunFacts) -> Option<(WorkspaceId, Name, Subject)> {
    facts.subject.clone().map(|subject| (facts.workspace.clone(), facts.workflow.name.clone(), subject))
}
