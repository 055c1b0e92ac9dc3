//! Granting leases on due runs.

use std::sync::Arc;

use hapax_engine::limits::MAX_STALLS;
use hapax_engine::model::{
    EventKind, Fence, Grant, PendingRequest, Priority, RunCommand, RunId, RunState, RunStatus,
    ServedWorkflows,
};
use hapax_engine::store::{ClaimRuns, StartOutcome};

use crate::fixture::*;
use crate::must;

/// S0.23, S0.24: a grant takes one version, increments the fence, and records when the run was first driven.
pub(super) async fn a_claim_grants_a_lease(t: &TestStore) {
    let run = t.pending().await;
    t.pass(SECOND);
    let held = t.claim_one(ANN).await;
    let lease = held.state.lease().expect("it is leased");
    assert_eq!((lease.owner, lease.until), (ANN, t.now().plus(LEASE)));
    assert_eq!((held.version, held.fence), (run.version.next(), Fence::new(1)));
    assert_eq!((held.started_at, held.changed_at), (Some(t.now()), t.now()));
    assert_eq!(t.head(&run).await, held);
    assert_eq!(t.history(&run).await, [EventKind::Started, EventKind::Claimed]);
    let first_driven = held.started_at;
    t.pass(SECOND);
    t.write(&held).await.releases().done().await;
    assert_eq!(t.claim_one(BOB).await.started_at, first_driven, "the first start wins");
}

/// Runs are granted by priority, then by due time, then by id.
pub(super) async fn runs_are_granted_in_order(t: &TestStore) {
    let low = t.order().priority(Priority::Low).start().await;
    let last = t.order().due_in(2 * SECOND).start().await;
    t.pass(SECOND);
    let twins = (t.pending().await, t.pending().await);
    t.pass(2 * SECOND);
    let high = t.order().priority(Priority::High).start().await;
    let order = [high.id(), twins.0.id(), twins.1.id(), last.id(), low.id()];
    let mut granted: Vec<RunId> = Vec::new();
    for limit in [1, 3, 9] {
        granted.extend(t.claim_upto(limit, ANN).await.runs.iter().map(|run| run.id()));
    }
    assert_eq!(granted, order);
}

/// The order holds across all workflows that the worker serves.
pub(super) async fn runs_of_several_workflows_are_granted_in_one_order(t: &TestStore) {
    let mut order = Vec::new();
    for workflow in ["refund", "order", "refund", "order"] {
        order.push(t.order().workflow(workflow, 1).start().await.id());
        t.pass(SECOND);
    }
    let granted: Vec<RunId> = t.claim_upto(3, ANN).await.runs.iter().map(|run| run.id()).collect();
    assert_eq!(granted, order[..3]);
}

/// Invariant 47: a run is granted at its due time, and not before.
pub(super) async fn a_run_is_granted_when_it_is_due(t: &TestStore) {
    let run = t.order().due_in(HOUR).start().await;
    t.pass(HOUR - std::time::Duration::from_millis(1));
    let claimed = t.claim_upto(10, ANN).await;
    assert!(claimed.runs.is_empty());
    assert_eq!(claimed.next_wake_at, run.state.wake_at());
    t.pass(std::time::Duration::from_millis(1));
    assert_eq!(t.claim_one(ANN).await.id(), run.id());
}

/// A worker gets only the workflow names and versions it has code for.
pub(super) async fn only_served_workflows_are_granted(t: &TestStore) {
    let old = t.order().start().await;
    let new = t.order().workflow("order", 2).start().await;
    let claim = |serves| ClaimRuns { grant: grant_for(ANN, serves), limit: 10 };
    let none = t.store.claim_runs(claim(vec![workflow("refund", 1)])).await.unwrap();
    assert!(none.runs.is_empty() && none.next_wake_at.is_none());
    let nothing = t.store.claim_runs(claim(vec![])).await.unwrap();
    assert!(nothing.runs.is_empty() && nothing.next_wake_at.is_none());
    let second = t.store.claim_runs(claim(vec![workflow("order", 2)])).await.unwrap();
    assert_eq!(second.runs.iter().map(|run| run.id()).collect::<Vec<_>>(), [new.id()]);
    assert_eq!(t.claim_one(ANN).await.id(), old.id());
}

/// Among hundreds of workflows the few with due runs are found, whatever others have between them, and so is the time at which the next is due.
pub(super) async fn due_runs_are_found_among_hundreds_of_workflows(t: &TestStore) {
    let name_of = |n: u32| format!("flow-{n:03}");
    // Every third is not served here. All have runs that are due, in several priorities and versions.
    for n in (1..60).step_by(3) {
        t.order().workflow(&name_of(n), 1).priority(Priority::High).start().await;
    }
    let low = t.order().workflow(&name_of(2), 1).priority(Priority::Low).start().await;
    t.pass(SECOND);
    let normal = t.order().workflow(&name_of(57), 2).start().await;
    let high = t.order().workflow(&name_of(57), 2).priority(Priority::High).start().await;
    t.order().workflow(&name_of(57), 1).start().await;
    let later = t.order().workflow(&name_of(30), 1).due_in(60 * SECOND).start().await;
    t.order().workflow(&name_of(33), 1).due_in(HOUR).start().await;
    let abroad = t.order().workflow(&name_of(36), 1).workspace("abroad").start().await;
    let home = t.order().workflow(&name_of(36), 1).due_in(120 * SECOND).start().await;

    let mut serves = ServedWorkflows::default();
    for n in (0..400).filter(|n| n % 3 != 1) {
        let workspace = (n == 36).then_some(&home.facts.workspace);
        serves.insert(workspace, workflow(&name_of(n), if n == 57 { 2 } else { 1 }));
    }
    let grant = Grant { owner: ANN, lease_for: LEASE, serves: Arc::new(serves) };
    let claim = |limit| ClaimRuns { grant: grant.clone(), limit };
    let some = t.store.claim_runs(claim(1)).await.unwrap();
    assert_eq!(some.runs.iter().map(|run| run.id()).collect::<Vec<_>>(), [high.id()]);
    assert_eq!(some.next_wake_at, low.state.wake_at());
    let rest = t.store.claim_runs(claim(10)).await.unwrap();
    assert_eq!(rest.runs.iter().map(|run| run.id()).collect::<Vec<_>>(), [normal.id(), low.id()]);
    assert_eq!(rest.next_wake_at, Some(t.now().plus(LEASE)), "their leases end before any other run is due");
    for run in some.runs.iter().chain(&rest.runs) {
        t.write(run).await.completes("1").done().await;
    }
    let nothing = t.store.claim_runs(claim(10)).await.unwrap();
    assert!(nothing.runs.is_empty());
    assert_eq!(nothing.next_wake_at, later.state.wake_at());
    t.pass(120 * SECOND);
    let due = t.store.claim_runs(claim(10)).await.unwrap();
    assert_eq!(due.runs.iter().map(|run| run.id()).collect::<Vec<_>>(), [later.id(), home.id()]);
    assert_eq!(t.head(&abroad).await, abroad, "nobody touched it");
}

/// Two workspaces may have different workflows with the same name. A worker gets only runs whose code it has. Runs of
/// other workspaces neither block it nor make it poll again.
pub(super) async fn only_served_workspaces_are_granted(t: &TestStore) {
    let abroad = t.order().workspace("abroad").start().await;
    t.pass(SECOND);
    let home = t.order().start().await;
    let mut serves = ServedWorkflows::default();
    serves.insert(Some(&home.facts.workspace), workflow("order", 1));
    let claim = |serves: &ServedWorkflows, limit| ClaimRuns {
        grant: Grant { owner: ANN, lease_for: LEASE, serves: Arc::new(serves.clone()) },
        limit,
    };
    let own = t.store.claim_runs(claim(&serves, 1)).await.unwrap();
    assert_eq!(own.runs.iter().map(|run| run.id()).collect::<Vec<_>>(), [home.id()]);
    assert_eq!(own.next_wake_at, Some(t.now().plus(LEASE)), "only its own lease is to end");
    t.write(&own.runs[0]).await.completes("1").done().await;
    let none = t.store.claim_runs(claim(&serves, 10)).await.unwrap();
    assert!(none.runs.is_empty() && none.next_wake_at.is_none(), "{none:?}");
    assert_eq!(t.head(&abroad).await, abroad, "nobody touched it");
    // Only a worker that serves the workspace takes over an abandoned run.
    serves.insert(Some(&abroad.facts.workspace), workflow("order", 1));
    let both = t.store.claim_runs(claim(&serves, 10)).await.unwrap();
    assert_eq!(both.runs.iter().map(|run| run.id()).collect::<Vec<_>>(), [abroad.id()]);
    t.pass(LEASE);
    let mut other = ServedWorkflows::default();
    other.insert(Some(&home.facts.workspace), workflow("order", 1));
    assert!(t.store.claim_runs(claim(&other, 10)).await.unwrap().runs.is_empty());
    assert_eq!(t.store.claim_runs(claim(&serves, 10)).await.unwrap().runs.len(), 1);
    // A run is also not granted at its start or wake-up to a worker that does not serve its workspace.
    let offer = Grant { owner: ANN, lease_for: LEASE, serves: Arc::new(other) };
    let mut new = t.order().workspace("abroad").new_run();
    new.grant = Some(offer);
    must!(t.store.start_run(new).await.unwrap(), StartOutcome::Created(head) if head.state.lease().is_none());
}

/// Runs of all workspaces are granted.
pub(super) async fn runs_of_every_workspace_are_granted(t: &TestStore) {
    t.order().start().await;
    t.order().workspace("abroad").start().await;
    assert_eq!(t.claim(ANN).await.len(), 2);
}

/// The answer says when to poll again: at once if more runs are due, else at the next due time.
pub(super) async fn a_claim_says_when_to_come_again(t: &TestStore) {
    assert_eq!(t.claim_upto(1, ANN).await.next_wake_at, None);
    let (_, second) = (t.pending().await, t.pending().await);
    t.pass(SECOND);
    let low = t.order().priority(Priority::Low).due_in(SECOND).start().await;
    let first = t.claim_upto(1, ANN).await;
    assert_eq!(first.next_wake_at, second.state.wake_at());
    assert_eq!(t.claim_upto(0, ANN).await.next_wake_at, second.state.wake_at());
    assert_eq!(t.claim_upto(1, ANN).await.next_wake_at, low.state.wake_at());
    t.pass(SECOND);
    let last = t.claim_upto(1, ANN).await;
    assert_eq!(last.runs[0].id(), low.id());
    assert_eq!(last.next_wake_at, Some(first.runs[0].state.wake_at().unwrap()), "a lease ends by time alone");
}

/// A run that only an arrival or a person can wake sets no poll time.
pub(super) async fn resting_runs_are_not_due(t: &TestStore) {
    let run = t.driven().await;
    t.write(&run).await.awaits_signal("go").parks().done().await;
    let paused = t.pending().await;
    t.steered(&paused, RunCommand::Pause).await;
    let closed = t.driven().await;
    t.write(&closed).await.completes("1").done().await;
    t.pass(1000 * HOUR);
    let claimed = t.claim_upto(10, BOB).await;
    assert!(claimed.runs.is_empty() && claimed.next_wake_at.is_none(), "{claimed:?}");
}

/// S3.12, S0.21, invariants 17, 19: an active lease is not taken. An expired lease is taken under a higher fence.
pub(super) async fn only_an_ended_lease_is_taken_over(t: &TestStore) {
    let held = t.driven().await;
    t.pass(LEASE - std::time::Duration::from_millis(1));
    assert!(t.claim(BOB).await.is_empty());
    t.pass(std::time::Duration::from_millis(1));
    let taken = t.claim_one(BOB).await;
    assert_eq!((taken.fence, taken.version, taken.stalls), (held.fence.next(), held.version.next(), 1));
    assert_eq!(taken.started_at, held.started_at);
    assert_eq!(t.history(&held).await, [EventKind::Started, EventKind::TakenOver]);
}

/// Lesson 8, invariant 22: even its own owner gets a run again only under a new fence.
pub(super) async fn an_owner_takes_over_from_itself_under_a_new_fence(t: &TestStore) {
    let held = t.driven().await;
    t.pass(LEASE);
    assert_eq!(t.claim_one(ANN).await.fence, held.fence.next());
}

/// A released run is granted without delay.
pub(super) async fn a_released_run_is_granted_at_once(t: &TestStore) {
    let held = t.driven().await;
    t.write(&held).await.releases().done().await;
    let next = t.claim_one(BOB).await;
    assert_eq!((next.stalls, next.fence), (0, held.fence.next()));
    assert_eq!(t.history(&held).await, [EventKind::Started, EventKind::Released, EventKind::Claimed]);
}

/// Fault 44, invariant 35: a run that loses its worker too often is quarantined in a write, and not granted.
pub(super) async fn a_run_that_keeps_losing_its_worker_is_quarantined(t: &TestStore) {
    let held = t.driven().await;
    for _ in 0..MAX_STALLS {
        t.pass(LEASE);
        t.claim_one(BOB).await;
    }
    t.pass(LEASE);
    let other = t.pending().await;
    let claimed = t.claim_upto(1, BOB).await;
    assert!(claimed.runs.is_empty(), "quarantined runs count towards the limit");
    assert_eq!(claimed.next_wake_at, other.state.wake_at());
    let aside = t.head(&held).await;
    assert_eq!((aside.status(), aside.fence.get()), (RunStatus::Paused, u64::from(MAX_STALLS) + 1));
    assert_eq!(t.history(&held).await.last(), Some(&EventKind::Quarantined));
    t.steered(&held, RunCommand::Resume).await;
    let again = t.claim(ANN).await.into_iter().find(|run| run.id() == held.id()).expect("it may go on");
    assert_eq!(
        again.stalls, 1,
        "its stalls are forgiven, but not that its last worker vanished in the middle"
    );
}

/// A pause that no worker carried out before the quarantine is over when people resume the run.
pub(super) async fn a_quarantined_run_with_a_pause_pending_continues_when_resumed(t: &TestStore) {
    let held = t.driven().await;
    t.steered(&held, RunCommand::Pause).await;
    for _ in 0..MAX_STALLS {
        t.pass(LEASE);
        t.claim_one(BOB).await;
    }
    t.pass(LEASE);
    assert!(t.claim_upto(1, BOB).await.runs.is_empty());
    assert_eq!(t.head(&held).await.status(), RunStatus::Paused);
    let resumed = t.steered(&held, RunCommand::Resume).await;
    assert_eq!(resumed.asked, PendingRequest::Nothing);
    let again = t.claim_one(ANN).await;
    assert_eq!((again.id(), again.asked), (held.id(), PendingRequest::Nothing));
}

/// Progress resets the count of lost leases.
pub(super) async fn progress_forgives_lost_leases(t: &TestStore) {
    t.driven().await;
    t.pass(LEASE);
    let taken = t.claim_one(BOB).await;
    assert_eq!(taken.stalls, 1);
    assert_eq!(t.write(&taken).await.does("charge").done().await.stalls, 0);
}

/// A timer wakes a waiting run, once.
pub(super) async fn a_timer_wakes_a_waiting_run(t: &TestStore) {
    let run = t.driven().await;
    let until = t.now().plus(HOUR);
    let parked = t.write(&run).await.sleeps("nap", until).parks_until(Some(until)).done().await;
    assert_eq!(parked.state, RunState::Waiting { wake_at: Some(until) });
    assert!(t.claim(BOB).await.is_empty());
    t.pass(HOUR);
    let woken = t.claim_one(BOB).await;
    assert_eq!((woken.stalls, woken.fence), (0, parked.fence.next()));
    assert!(t.claim(BOB).await.is_empty());
}

/// Monitoring sees a run that no worker claims, or whose worker crashed, across workspaces, workflows, versions and
/// priorities.
pub(super) async fn the_most_overdue_run_is_known_for_every_workflow(t: &TestStore) {
    let longest = || async { t.store.find_oldest_due_at().await.unwrap() };
    assert_eq!(longest().await, None);
    let held = t.driven().await;
    let resting = t.driven().await;
    t.write(&resting).await.awaits_signal("go").parks().done().await;
    let paused = t.pending().await;
    t.steered(&paused, RunCommand::Pause).await;
    let later = t.order().workflow("order", 2).due_in(SECOND).start().await;
    assert_eq!(longest().await, None, "driven, resting and put off: none is due");
    t.pass(SECOND);
    assert_eq!(longest().await, later.state.wake_at(), "due at the instant");
    t.pass(SECOND);
    for (workspace, name, version, priority) in [
        ("home", "order", 2, Priority::Low),
        ("abroad", "order", 1, Priority::High),
        ("home", "refund", 1, Priority::Normal),
    ] {
        t.order().workspace(workspace).workflow(name, version).priority(priority).start().await;
    }
    assert_eq!(longest().await, later.state.wake_at());
    let serves = vec![workflow("order", 1), workflow("order", 2)];
    let claim = ClaimRuns { grant: grant_for(ANN, serves), limit: 10 };
    assert_eq!(t.store.claim_runs(claim).await.unwrap().runs.len(), 3);
    assert_eq!(longest().await, Some(t.now()), "what nobody serves is due, too");
    let ends = held.state.wake_at().expect("a lease ends");
    t.pass(LEASE);
    assert_eq!(longest().await, Some(t.now().minus(LEASE)));
    let claim = ClaimRuns { grant: grant_for(BOB, vec![workflow("refund", 1)]), limit: 10 };
    assert_eq!(t.store.claim_runs(claim).await.unwrap().runs.len(), 1);
    assert_eq!(longest().await, Some(ends), "since the holder's lease ended");
}
