//! Writes under a lease.

use std::time::Duration;

use hapax_engine::model::{
    EventKind, Failure, PendingRequest, Priority, RunCommand, RunHead, RunState, RunStatus, StepKind,
    StepState, StepTransition, WorkspaceId,
};
use hapax_engine::store::CommitOutcome;

use crate::fixture::*;
use crate::must;

/// S0.22, S0.34: a step takes two versions, whether or not its start was recorded separately.
pub(super) async fn a_step_takes_two_versions(t: &TestStore) {
    let run = t.driven().await;
    let at_once = t.write(&run).await.does("charge").done().await;
    assert_eq!(at_once.version.get(), run.version.get() + 2);
    let begun = t.write(&at_once).await.begins("ship").done().await;
    assert_eq!(begun.version, at_once.version.next());
    let marked = t.write(&begun).await.does("ship").done().await;
    assert_eq!(marked.version.get(), at_once.version.get() + 2);
    let steps = t.log(&run).await.steps;
    let versions = |step: usize| (steps[step].started_version.get(), steps[step].changed_version.get());
    let first = run.version.get();
    assert_eq!((versions(0), versions(1)), ((first + 1, first + 2), (first + 3, first + 4)));
}

/// S0.36, S0.40: records read back in the order the steps started.
pub(super) async fn records_read_back_in_the_order_they_started(t: &TestStore) {
    let run = t.driven().await;
    let write = t.write(&run).await.begins("z").does("b").skips("a").begins("y").begins("w");
    let write = write.fails_at("y").doubts("w").sleeps("n", t.now().plus(HOUR));
    let mut advance = write.advance();
    let failure = Failure::retryable("busy").with_code("e-7").retry_after(Duration::from_millis(1_500));
    advance.steps[0].state = StepState::Pending { due_at: t.now().plus(SECOND), failure };
    advance.steps[0].attempts = 7;
    let mut written: Vec<_> = advance.steps.clone();
    must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Committed { .. });
    // The later of two records of one step in a write counts.
    written.drain(3..5);
    written.sort_by_key(|record| record.started_version);
    let read = t.log(&run).await.steps;
    assert_eq!(read, written);
    assert_eq!(read.iter().map(|step| step.id.as_str()).collect::<Vec<_>>(), ["z", "b", "a", "y", "w", "n"]);
}

/// Every kind and state of a step can be stored.
pub(super) async fn every_kind_of_step_is_kept(t: &TestStore) {
    let run = t.driven().await;
    let mut write = t.write(&run).await.leaves("after_effect~x#2", "mail");
    for kind in StepKind::ALL.into_iter().filter(|kind| *kind != StepKind::AfterEffect) {
        let output = json(r#"{"exact":1.0}"#);
        let state = StepState::Completed { at: t.now(), output };
        write = write.step(&format!("{}~x#2", kind.as_str()), kind, StepTransition::Complete, state, None);
    }
    let run = write.begins("c").gives_up("c").done().await;
    let steps = t.log(&run).await.steps;
    let mut kinds: Vec<StepKind> = steps.iter().take(StepKind::ALL.len()).map(|step| step.kind).collect();
    kinds.rotate_left(1);
    assert_eq!(kinds, StepKind::ALL);
    assert!(
        matches!(&steps[1].state, StepState::Completed { output, .. } if output.as_str() == r#"{"exact":1.0}"#)
    );
    assert!(matches!(steps[StepKind::ALL.len()].state, StepState::Cancelled { at } if at == t.now()));
}

/// The record of a step is replaced as the step progresses, and keeps its start.
pub(super) async fn a_record_is_replaced_as_its_step_moves_on(t: &TestStore) {
    let run = t.driven().await;
    let run = t.write(&run).await.begins("charge").done().await;
    let started = t.step(&run, "charge").await.unwrap();
    t.pass(SECOND);
    let run = t.write(&run).await.retries_at("charge", t.now().plus(SECOND)).done().await;
    let waiting = t.step(&run, "charge").await.unwrap();
    assert!(matches!(&waiting.state, StepState::Pending { failure, .. } if failure.message() == "busy"));
    t.pass(SECOND);
    let run = t.write(&run).await.does("charge").done().await;
    let done = t.step(&run, "charge").await.unwrap();
    assert_eq!((done.started_version, done.started_at), (started.started_version, started.started_at));
    assert_eq!((done.attempts, done.changed_version), (2, run.version));
    assert_eq!(t.log(&run).await.steps.len(), 1);
}

/// S0.30, invariant 3: a refused write leaves nothing behind, whatever it contained.
async fn leaves_nothing_behind(t: &TestStore, held: &RunHead) -> CommitOutcome {
    let child = t.child_of(held, "ship");
    let _ = t.signal(held, "go").await;
    let before = (t.view(held).await, t.log(held).await, t.events(held).await);
    let write =
        t.write(held).await.does("late").awaits_promise("late-payment", None).awaits_child("ship", &child);
    let mut advance = write.consumes(1).gives_up("late-payment").gives_up("ship").advance();
    advance.input = Some(json("2"));
    let outcome = t.store.commit_run(advance).await.unwrap();
    let after = (t.view(held).await, t.log(held).await, t.events(held).await);
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    let workspace = WorkspaceId::default();
    assert!(t.store.find_promise(&workspace, &promise_of(held, "late-payment")).await.unwrap().is_none());
    assert!(t.store.find_run(&workspace, child.new_run().facts.id).await.unwrap().is_none());
    outcome
}

/// S0.23, S0.25, S0.27, invariant 18: a write under an older version is refused, and the answer shows the run's current
/// state.
pub(super) async fn an_older_version_writes_nothing(t: &TestStore) {
    let first = t.driven().await;
    let second = t.write(&first).await.does("charge").done().await;
    let outcome = leaves_nothing_behind(t, &first).await;
    must!(outcome, CommitOutcome::Stale(head) if head.version == second.version && head.fence == second.fence);
}

/// S0.27, S0.30: no transition changes anything under an older version.
pub(super) async fn no_transition_is_made_under_an_older_version(t: &TestStore) {
    let first = t.write(&t.driven().await).await.begins("ship").done().await;
    let second = t.write(&first).await.does("charge").done().await;
    let ship = t.step(&first, "ship").await;
    let soon = t.now().plus(SECOND);
    for (what, late) in [
        ("a step begins", t.write(&first).await.begins("mail")),
        ("a step is completed", t.write(&first).await.does("ship")),
        ("a step fails", t.write(&first).await.fails_at("ship")),
        ("the run waits", t.write(&first).await.awaits_signal("go").parks()),
        ("a retry is scheduled", t.write(&first).await.retries_at("ship", soon).parks_until(Some(soon))),
        ("the run is given back", t.write(&first).await.releases()),
        ("the run ends", t.write(&first).await.does("ship").completes("1")),
    ] {
        let outcome = late.send().await;
        assert!(matches!(outcome, CommitOutcome::Stale(_)), "{what}: {outcome:?}");
        assert_eq!(t.head(&first).await, second, "{what}");
        assert_eq!(t.step(&first, "ship").await, ship, "{what}");
    }
    assert_eq!(t.log(&first).await.steps.len(), 2, "what the late writes were about is not there");
    t.write(&second).await.does("ship").completes("1").done().await;
}

/// S0.21, G0.5, G3.1, invariants 17, 18, 21: after a takeover, the first holder's writes are refused.
pub(super) async fn a_paused_worker_cannot_write_after_a_takeover(t: &TestStore) {
    let late = t.driven().await;
    t.pass(LEASE);
    let taken = t.claim_one(BOB).await;
    must!(leaves_nothing_behind(t, &late).await, CommitOutcome::LeaseLost);
    let mut disguised = late.clone();
    disguised.version = taken.version;
    must!(leaves_nothing_behind(t, &disguised).await, CommitOutcome::LeaseLost);
    let taken = t.head(&taken).await;
    t.write(&taken).await.does("charge").done().await;
}

/// Invariant 18: a holder that released the lease cannot write, even if no other worker has claimed the run.
pub(super) async fn a_released_lease_writes_nothing(t: &TestStore) {
    let held = t.driven().await;
    let released = t.write(&held).await.releases().done().await;
    must!(t.write(&held).await.does("late").send().await, CommitOutcome::LeaseLost);
    must!(t.write(&released).await.does("late").send().await, CommitOutcome::LeaseLost);
    let held = t.claim_one(ANN).await;
    let parked = t.write(&held).await.awaits_signal("go").parks().done().await;
    let mut disguised = held.clone();
    (disguised.version, disguised.fence) = (parked.version, parked.fence);
    must!(t.write(&disguised).await.does("late").send().await, CommitOutcome::LeaseLost);
    assert_eq!(t.head(&held).await, parked);
}

/// Invariant 25: a run is closed once, and no write is accepted afterwards.
pub(super) async fn a_closed_run_is_not_written(t: &TestStore) {
    let held = t.driven().await;
    let closed = t.write(&held).await.does("charge").completes("1").done().await;
    must!(t.write(&held).await.does("late").send().await, CommitOutcome::LeaseLost);
    let mut disguised = held.clone();
    disguised.version = closed.version;
    must!(t.write(&disguised).await.fails("late").send().await, CommitOutcome::LeaseLost);
    assert_eq!(t.head(&held).await, closed);
}

/// Writes to a run that does not exist, or that belongs to another workspace, are refused.
pub(super) async fn a_run_that_is_not_there_is_not_written(t: &TestStore) {
    let mut ghost = t.driven().await;
    std::sync::Arc::make_mut(&mut ghost.facts).workspace = WorkspaceId::new("abroad").unwrap();
    must!(t.write(&ghost).await.does("late").send().await, CommitOutcome::LeaseLost);
}

/// A holder with an expired lease may still write until another worker claims the run.
pub(super) async fn an_ended_lease_that_nobody_took_still_writes(t: &TestStore) {
    let held = t.driven().await;
    t.pass(2 * LEASE);
    t.write(&held).await.does("charge").done().await;
}

/// A pending request reaches the holder in the answer to its next write, which the holder then repeats.
pub(super) async fn the_holder_gets_a_request_at_its_next_write(t: &TestStore) {
    let held = t.driven().await;
    t.steered(&held, RunCommand::Pause).await;
    let now = must!(t.write(&held).await.does("charge").send().await, CommitOutcome::Stale(head) => head);
    assert_eq!((now.asked, now.version, now.fence), (PendingRequest::Pause, held.version.next(), held.fence));
    let paused = t.write(&now).await.does("charge").pauses().done().await;
    assert_eq!((paused.status(), paused.asked), (RunStatus::Paused, PendingRequest::Nothing));
}

/// S0.32, invariants 6, 27: the last step, the end, the result and the history are one write.
pub(super) async fn the_last_step_and_the_end_are_one_write(t: &TestStore) {
    let held = t.driven().await;
    t.pass(SECOND);
    let closed = t.write(&held).await.does("charge").completes(r#"{"paid":1.0}"#).done().await;
    assert_eq!(
        closed.state,
        RunState::Closed { at: t.now(), ending: hapax_engine::model::Ending::Completed }
    );
    assert_eq!(closed.version.get(), held.version.get() + 3);
    assert_eq!(t.view(&held).await.result, Some(completed(r#"{"paid":1.0}"#)));
    assert_eq!(t.history(&held).await, [EventKind::Started, EventKind::Completed]);
}

/// A failure is stored with all its fields.
pub(super) async fn a_failed_run_says_why(t: &TestStore) {
    let held = t.driven().await;
    let why = Failure::unknown("it broke: \"ü\"").with_code("e-7").retry_after(SECOND);
    let mut advance = t.write(&held).await.fails("no").advance();
    advance.result = Some(hapax_engine::model::RunResult::Failed(why.clone()));
    must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Committed { .. });
    assert_eq!(t.view(&held).await.result, Some(hapax_engine::model::RunResult::Failed(why)));
    assert_eq!(t.events(&held).await.last().unwrap().note.as_deref(), Some("no"));
}

/// The holder's count of arrivals says what it has seen, not how many there are.
pub(super) async fn a_write_does_not_forget_arrivals(t: &TestStore) {
    let held = t.driven().await;
    let _ = t.signal(&held, "go").await;
    let _ = t.signal(&held, "go").await;
    let after = t.write(&held).await.does("charge").done().await;
    assert_eq!(after.arrivals, 2);
}

/// A write cannot change the facts fixed at the start of the run.
pub(super) async fn a_write_does_not_change_the_facts(t: &TestStore) {
    let held = t.order().key("k").subject("s").granted_to(ANN).start().await;
    let mut mistaken = held.clone();
    let facts = std::sync::Arc::make_mut(&mut mistaken.facts);
    (facts.priority, facts.subject, facts.key) = (Priority::High, None, None);
    let after = t.write(&mistaken).await.does("charge").done().await;
    assert_eq!(after.facts, held.facts);
    assert_eq!(t.log(&held).await.head.facts, held.facts);
}

/// One write may contain many records.
pub(super) async fn a_write_may_carry_many_records(t: &TestStore) {
    let mut held = t.driven().await;
    for batch in 0..3 {
        let mut write = t.write(&held).await;
        for n in 0..200 {
            write = write.does(&format!("item#{}", batch * 200 + n));
        }
        held = write.done().await;
    }
    assert_eq!(held.version.get(), 1 + 2 * 600);
    let steps = t.log(&held).await.steps;
    assert_eq!(steps.len(), 600);
    assert!(steps.is_sorted_by_key(|step| step.started_version));
}
