//! A few basic properties of the store. The conformance suite tests all of them.

use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::model::{
    CommitBuilder, Fingerprint, Grant, IgnorePaths, KeyRetention, Name, OwnerId, Payload, Priority, RunFacts,
    RunHead, RunResult, RunStatus, ServedWorkflows, SignalId, WorkflowRef,
};

const LEASE: Duration = Duration::from_secs(30);

fn store() -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::default());
    (clock.clone(), MemoryStore::new(clock))
}

fn workflow() -> WorkflowRef {
    WorkflowRef { name: Name::new("workflow", "order").unwrap(), version: 1 }
}

fn grant(owner: u128) -> Grant {
    let serves = Arc::new(ServedWorkflows::from_iter([workflow()]));
    Grant { owner: OwnerId::from_u128(owner), lease_for: LEASE, serves }
}

fn new_run(id: u128, key: Option<&str>, grant: Option<Grant>) -> NewRun {
    let fingerprint =
        Fingerprint::for_run(&workflow().name, &Payload::null(), &IgnorePaths::default()).unwrap();
    let facts = RunFacts {
        workspace: WorkspaceId::default(),
        id: RunId::from_u128(id),
        workflow: workflow(),
        key: key.map(|key| IdempotencyKey::new(key).unwrap()),
        fingerprint: key.map(|_| fingerprint),
        retention: KeyRetention::default(),
        subject: None,
        priority: Priority::Normal,
        deadline_at: None,
        parent: None,
        created_at: Timestamp::EPOCH,
    };
    NewRun { facts: Arc::new(facts), input: Payload::null(), due_at: None, grant }
}

async fn start(store: &MemoryStore, new: NewRun) -> RunHead {
    match store.start_run(new).await.unwrap() {
        StartOutcome::Created(head) => head,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_key_names_one_run() {
    let (_, store) = store();
    let first = start(&store, new_run(1, Some("k"), None)).await;
    let again = store.start_run(new_run(2, Some("k"), None)).await.unwrap();
    assert!(matches!(again, StartOutcome::Existing(head) if head == first));
}

#[tokio::test]
async fn a_lease_that_ended_is_taken_and_its_holder_writes_nothing() {
    let (clock, store) = store();
    let held = start(&store, new_run(1, None, Some(grant(1)))).await;
    let claim = ClaimRuns { grant: grant(2), limit: 10 };
    assert!(store.claim_runs(claim.clone()).await.unwrap().runs.is_empty());
    clock.advance(LEASE);
    assert_eq!(store.claim_runs(claim).await.unwrap().runs[0].fence, held.fence.next());
    let mut late = CommitBuilder::new(&held, store.now());
    late.close(RunResult::Completed(Payload::null())).unwrap();
    let late = store.commit_run(late.finish()).await.unwrap();
    assert!(matches!(late, CommitOutcome::LeaseLost));
}

/// Invariant 41: the order of arrival and park does not matter.
#[tokio::test]
async fn a_run_that_parks_after_a_signal_is_due_at_once() {
    let (_, store) = store();
    let held = start(&store, new_run(1, None, Some(grant(1)))).await;
    let signal = SendSignal {
        workspace: WorkspaceId::default(),
        run: held.id(),
        name: Name::new("signal", "go").unwrap(),
        payload: Payload::null(),
        id: Some(SignalId::new("s1").unwrap()),
        note: None,
        grant: None,
    };
    assert!(matches!(
        store.send_signal(signal.clone()).await.unwrap(),
        SignalOutcome::Stored { seq: 1, granted: None }
    ));
    assert!(matches!(store.send_signal(signal).await.unwrap(), SignalOutcome::Duplicate));
    let mut park = CommitBuilder::new(&held, store.now());
    park.wait(None, held.arrivals).unwrap();
    let parked = store.commit_run(park.finish()).await.unwrap();
    assert!(matches!(parked, CommitOutcome::Committed { woken, .. } if woken == [held.id()]));
    let claimed = store.claim_runs(ClaimRuns { grant: grant(2), limit: 10 }).await.unwrap();
    assert_eq!(claimed.runs.len(), 1);
    assert_eq!(claimed.runs[0].status(), RunStatus::Running);
}
