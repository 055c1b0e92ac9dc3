//! Values that the tests share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::{Clock, ManualClock};
use hapax_engine::model::{
    CommitBuilder, EffectKey, Fingerprint, Grant, IdempotencyKey, IgnorePaths, JournalEntry, JournalEvent,
    KeyRetention, Name, NewRun, OutboxMessage, OutboxState, OwnerId, Payload, Priority, RunCommit, RunFacts,
    RunHead, RunId, ServedWorkflows, StepChange, StepId, StepKind, StepState, StepTransition, Timestamp,
    WorkflowRef, WorkspaceId,
};
use hapax_engine::store::{ClaimRuns, CommitOutcome, ListJournal, ListOutbox, StartOutcome, Store};
use hapax_store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A folder that goes away with the test, and a clock that stands still.
pub(crate) struct TestFolder {
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<ManualClock>,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        TestFolder { folder: TempDir::new().unwrap(), clock: Arc::new(ManualClock::default()) }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("orders.db")
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        SqliteOptions::default().clock(self.clock.clone())
    }

    pub(crate) async fn open(&self) -> SqliteStore {
        SqliteStore::open(self.file(), self.options()).await.unwrap()
    }
}

pub(crate) fn workspace() -> WorkspaceId {
    WorkspaceId::default()
}

pub(crate) fn workflow() -> WorkflowRef {
    WorkflowRef { name: Name::new("workflow", "order").unwrap(), version: 1 }
}

pub(crate) fn grant(owner: u128) -> Grant {
    let serves = Arc::new(ServedWorkflows::from_iter([workflow()]));
    Grant { owner: OwnerId::from_u128(owner), lease_for: LEASE, serves }
}

pub(crate) fn claim(owner: u128) -> ClaimRuns {
    ClaimRuns { grant: grant(owner), limit: 100 }
}

pub(crate) fn facts(id: u128) -> RunFacts {
    RunFacts {
        workspace: workspace(),
        id: RunId::from_u128(id),
        workflow: workflow(),
        key: None,
        fingerprint: None,
        retention: KeyRetention::default(),
        subject: None,
        priority: Priority::Normal,
        deadline_at: None,
        parent: None,
        created_at: ManualClock::default().now(),
    }
}

pub(crate) fn with_key(id: u128, key: &str, input: &str) -> NewRun {
    let input = Payload::of(input).unwrap();
    let fingerprint = Fingerprint::for_run(&workflow().name, &input, &IgnorePaths::default()).unwrap();
    let key = Some(IdempotencyKey::new(key).unwrap());
    NewRun { input, ..new_run(RunFacts { key, fingerprint: Some(fingerprint), ..facts(id) }) }
}

/// A run that waits to be claimed.
pub(crate) fn new_run(facts: RunFacts) -> NewRun {
    NewRun { facts: Arc::new(facts), input: Payload::of("input").unwrap(), due_at: None, grant: None }
}

/// A run that owner 1 drives from the start.
pub(crate) fn granted(facts: RunFacts) -> NewRun {
    NewRun { grant: Some(grant(1)), ..new_run(facts) }
}

pub(crate) async fn start(store: &SqliteStore, new: NewRun) -> RunHead {
    match store.start_run(new).await.unwrap() {
        StartOutcome::Created(head) => head,
        other => panic!("{other:?}"),
    }
}

/// A step that is done.
pub(crate) fn completed(name: &str, at: Timestamp, output: Payload) -> StepChange {
    StepChange {
        id: StepId::from_stored(name),
        kind: StepKind::Effect,
        previous: None,
        transition: StepTransition::Complete,
        state: StepState::Completed { at, output },
        attempts: 1,
        started_at: at,
        child: None,
    }
}

/// The completion of one step, as the holder of the lease writes it.
pub(crate) fn step(write: &mut CommitBuilder, store: &SqliteStore, name: &str) {
    write.step(completed(name, store.now(), Payload::of(name).unwrap())).unwrap();
}

pub(crate) fn one_step(store: &SqliteStore, head: &RunHead, name: &str) -> RunCommit {
    let mut write = CommitBuilder::new(head, store.now());
    step(&mut write, store, name);
    write.finish()
}

/// Writes, and answers with the run as its holder then knows it.
pub(crate) async fn advance(store: &SqliteStore, write: RunCommit) -> RunHead {
    let head = write.head.clone();
    match store.commit_run(write).await.unwrap() {
        CommitOutcome::Committed { .. } => head,
        other => panic!("{other:?}"),
    }
}

/// Message of a step for `mail`.
pub(crate) fn post(run: &RunHead, step: &str) -> OutboxMessage {
    let at = run.facts.created_at;
    OutboxMessage {
        workspace: run.facts.workspace.clone(),
        id: EffectKey::new(run.id(), run.generation, &StepId::from_stored(step)),
        run: run.id(),
        target: Name::new("target", "mail").unwrap(),
        payload: Payload::of(step).unwrap(),
        created_at: at,
        attempts: 0,
        failure: None,
        state: OutboxState::Due { at },
    }
}

/// The completion of one step that also notes something and leaves something.
pub(crate) fn one_step_with_effects(store: &SqliteStore, head: &RunHead, name: &str) -> RunCommit {
    let mut write = one_step(store, head, name);
    write.posts.push(post(head, name));
    write.notes.push(JournalEntry {
        workspace: workspace(),
        run: head.id(),
        generation: head.generation,
        step: Some(StepId::from_stored(name)),
        at: store.now(),
        fence: head.fence,
        owner: None,
        by: None,
        what: JournalEvent::Claimed { attempt: 1 },
        evidence: None,
    });
    write
}

/// How many notes and after-effects each run has.
pub(crate) async fn effects(store: &SqliteStore) -> BTreeMap<RunId, (usize, usize)> {
    let mut counts: BTreeMap<RunId, (usize, usize)> = BTreeMap::new();
    let mut after = 0;
    loop {
        let request = ListJournal { workspace: workspace(), run: None, by_people: false, after, limit: 1000 };
        let page = store.list_journal(request).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.place;
        page.iter().for_each(|placed| counts.entry(placed.note.run).or_default().0 += 1);
    }
    let mut after = None;
    loop {
        let request = ListOutbox { workspace: None, status: None, target: None, after, limit: 1000 };
        let page = store.list_outbox(request).await.unwrap();
        let Some(last) = page.last() else { return counts };
        after = Some((last.workspace.clone(), last.id.clone()));
        page.iter().for_each(|post| counts.entry(post.run).or_default().1 += 1);
    }
}
