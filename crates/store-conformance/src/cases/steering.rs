//! Commands to runs.

use hapax_engine::model::{
    EventKind, KeyTarget, PendingRequest, Refusal, RunCommand, RunHead, RunResult, RunState, RunStatus,
    RunningState, StepId, Version,
};
use hapax_engine::store::{CommitOutcome, RunCommandOutcome};

use crate::fixture::*;
use crate::must;

async fn refused(t: &TestStore, run: &RunHead, command: RunCommand) -> Refusal {
    let before = (t.head(run).await, t.events(run).await);
    let refusal = must!(t.steer(run, command).await, RunCommandOutcome::Refused(refusal, head) if head == before.0 => refusal);
    assert_eq!((t.head(run).await, t.events(run).await), before, "a refused command changes nothing");
    refusal
}

async fn failed_run(t: &TestStore) -> RunHead {
    let run = t.order().key("k").subject("s").release_key_on_failure().granted_to(ANN).start().await;
    t.write(&run).await.does("charge").does("pack").fails_at("ship").fails("no").done().await
}

/// A run that no worker drives pauses at once, and continues after a resume.
pub(super) async fn a_resting_run_is_paused_at_once(t: &TestStore) {
    let pending = t.pending().await;
    let waiting = t.driven().await;
    t.write(&waiting).await.awaits_signal("go").parks().done().await;
    let ready = t.driven().await;
    t.write(&ready).await.releases().done().await;
    for run in [&pending, &waiting, &ready] {
        let before = t.head(run).await;
        t.pass(SECOND);
        let paused = t.steered(run, RunCommand::Pause).await;
        assert_eq!(
            (paused.state, paused.version, paused.changed_at),
            (RunState::Paused, before.version.next(), t.now())
        );
        assert_eq!(t.head(run).await, paused);
        assert_eq!(refused(t, run, RunCommand::Pause).await, Refusal::AlreadyRequested);
    }
    t.pass(HOUR);
    assert!(t.claim(BOB).await.is_empty(), "a paused run is not driven");
    for run in [&pending, &waiting, &ready] {
        let resumed = t.steered(run, RunCommand::Resume).await;
        assert_eq!(resumed.state, RunState::Running(RunningState::Ready { due_at: t.now() }));
        assert_eq!(refused(t, run, RunCommand::Resume).await, Refusal::NotPaused(RunStatus::Running));
    }
    assert_eq!(t.claim(BOB).await.len(), 3);
}

/// A driven run gets a pause request and keeps its lease. The request survives a takeover.
pub(super) async fn a_driven_run_is_asked_to_pause(t: &TestStore) {
    let held = t.driven().await;
    let asked = t.steered(&held, RunCommand::Pause).await;
    assert_eq!((asked.asked, asked.state, asked.fence), (PendingRequest::Pause, held.state, held.fence));
    assert_eq!(t.history(&held).await, [EventKind::Started, EventKind::PauseRequested]);
    assert_eq!(refused(t, &held, RunCommand::Pause).await, Refusal::AlreadyRequested);
    t.pass(LEASE);
    let taken = t.claim_one(BOB).await;
    assert_eq!(taken.asked, PendingRequest::Pause);
    let paused = t.write(&taken).await.pauses().done().await;
    assert_eq!((paused.state, paused.asked), (RunState::Paused, PendingRequest::Nothing));
}

/// A resume withdraws a pending pause: the holder keeps its lease and continues.
pub(super) async fn a_resume_withdraws_a_pending_pause(t: &TestStore) {
    let held = t.driven().await;
    let asked = t.steered(&held, RunCommand::Pause).await;
    t.pass(SECOND);
    let resumed = t.steered(&held, RunCommand::Resume).await;
    assert_eq!(
        (resumed.asked, resumed.state, resumed.fence),
        (PendingRequest::Nothing, held.state, held.fence)
    );
    assert_eq!((resumed.version, resumed.changed_at), (asked.version.next(), t.now()));
    assert_eq!(t.head(&held).await, resumed);
    assert_eq!(t.history(&held).await, [EventKind::Started, EventKind::PauseRequested, EventKind::Resumed]);
    assert_eq!(refused(t, &held, RunCommand::Resume).await, Refusal::NotPaused(RunStatus::Running));
    // A holder that has not seen the resume writes over an older version, and is refused.
    must!(t.write(&asked).await.pauses().send().await, CommitOutcome::Stale(head) if head == resumed);
    // A run may park with the request pending; a resume then withdraws it.
    let shielded = t.driven().await;
    let asked = t.steered(&shielded, RunCommand::Pause).await;
    let parked = t.write(&asked).await.awaits_signal("go").parks().done().await;
    let resumed = t.steered(&shielded, RunCommand::Resume).await;
    assert_eq!((resumed.asked, resumed.state), (PendingRequest::Nothing, parked.state));
}

/// Invariant 45: a run that never ran is cancelled at once, with a result.
pub(super) async fn a_run_that_never_ran_is_cancelled_at_once(t: &TestStore) {
    let pending = t.pending().await;
    let paused = t.pending().await;
    t.steered(&paused, RunCommand::Pause).await;
    for run in [&pending, &paused] {
        t.pass(SECOND);
        let closed = t.steered(run, cancel()).await;
        assert_eq!(
            closed.state,
            RunState::Closed { at: t.now(), ending: hapax_engine::model::Ending::Cancelled }
        );
        let view = t.view(run).await;
        let RunResult::Cancelled(why) = view.result.unwrap() else { panic!("it was cancelled") };
        assert_eq!((why.message(), why.code()), ("the customer left", Some("cancelled")));
        let last = t.events(run).await.pop().unwrap();
        assert_eq!((last.kind, last.note.as_deref()), (EventKind::Cancelled, Some("the customer left")));
    }
    assert!(t.claim(BOB).await.is_empty());
}

/// Invariant 45: a run that has done work becomes due, so that it can undo the work.
pub(super) async fn a_run_that_has_run_is_woken_to_cancel(t: &TestStore) {
    let waiting = t.driven().await;
    t.write(&waiting).await.does("charge").awaits_signal("go").parks().done().await;
    let paused = t.driven().await;
    t.write(&paused).await.releases().done().await;
    t.steered(&paused, RunCommand::Pause).await;
    t.pass(SECOND);
    for run in [&waiting, &paused] {
        let asked = t.steered(run, cancel()).await;
        assert_eq!(
            (asked.asked, asked.state),
            (PendingRequest::Cancel, RunState::Running(RunningState::Ready { due_at: t.now() }))
        );
        assert_eq!(t.events(run).await.last().unwrap().note.as_deref(), Some("the customer left"));
    }
    let held = t.claim(BOB).await.into_iter().find(|run| run.id() == waiting.id()).unwrap();
    assert_eq!(held.asked, PendingRequest::Cancel);
    let closed = t.write(&held).await.gives_up("go").undoes("charge").cancels().done().await;
    assert_eq!((closed.status(), closed.asked), (RunStatus::Cancelled, PendingRequest::Nothing));
}

/// A driven run learns of its cancellation at its next write, even after a pause request.
pub(super) async fn a_driven_run_is_asked_to_cancel(t: &TestStore) {
    let held = t.driven().await;
    t.steered(&held, RunCommand::Pause).await;
    let asked = t.steered(&held, cancel()).await;
    assert_eq!((asked.asked, asked.state.lease()), (PendingRequest::Cancel, held.state.lease()));
    must!(t.write(&held).await.does("charge").send().await, CommitOutcome::Stale(head) if head == asked);
    assert_eq!(refused(t, &held, cancel()).await, Refusal::AlreadyRequested);
    assert_eq!(refused(t, &held, RunCommand::Pause).await, Refusal::AlreadyRequested);
}

/// Invariants 25, 45: a command on a closed run changes nothing, and the answer says so.
pub(super) async fn an_ended_run_is_not_changed(t: &TestStore) {
    for ends in 0..3 {
        let held = t.driven().await;
        let write = t.write(&held).await;
        let closed = match ends {
            0 => write.completes("1"),
            1 => write.fails("no"),
            _ => write.cancels(),
        };
        let closed = closed.done().await;
        for command in [RunCommand::Pause, RunCommand::Resume, cancel()] {
            assert_eq!(refused(t, &held, command).await, Refusal::Ended(closed.status()));
        }
        if closed.status() != RunStatus::Failed {
            assert_eq!(refused(t, &held, retry()).await, Refusal::NotFailed(closed.status()));
        }
    }
    let open = t.pending().await;
    assert_eq!(refused(t, &open, retry()).await, Refusal::NotFailed(RunStatus::Pending));
}

/// CONTRACT 5 (`If-Match`): a wrong version is refused before any other check.
pub(super) async fn a_command_on_an_older_version_is_refused(t: &TestStore) {
    let run = t.pending().await;
    let now = t.claim_one(ANN).await;
    must!(t.steer_at(&run, cancel(), Some(run.version)).await,
        RunCommandOutcome::Refused(Refusal::Stale(version), head) if version == now.version && head == now);
    must!(
        t.steer_at(&run, RunCommand::Resume, Some(Version::new(99))).await,
        RunCommandOutcome::Refused(Refusal::Stale(_), _)
    );
    must!(t.steer_at(&run, cancel(), Some(now.version)).await, RunCommandOutcome::Accepted(_));
}

/// CONTRACT 5: a retry moves a FAILED run to RUNNING, and repeats only the failed steps.
pub(super) async fn a_retry_reopens_a_failed_run(t: &TestStore) {
    let failed = failed_run(t).await;
    t.pass(SECOND);
    let open = t.steered(&failed, retry()).await;
    assert_eq!(open.state, RunState::Running(RunningState::Ready { due_at: t.now() }));
    assert_eq!((open.version, open.fence), (failed.version.next(), failed.fence));
    let view = t.view(&failed).await;
    assert_eq!((view.result, &view.head), (None, &open));
    let left: Vec<_> = t.log(&failed).await.steps.iter().map(|step| step.id.to_string()).collect();
    assert_eq!(left, ["charge", "pack"]);
    let record = t.key("k").await.unwrap();
    assert_eq!((record.run(), record.expires_at), (Some(failed.id()), None), "the key is its own again");
    let held = t.claim_one(BOB).await;
    let closed = t.write(&held).await.does("ship").completes("1").done().await;
    assert_eq!(t.view(&closed).await.result, Some(completed("1")));
}

/// A retry from a step repeats that step and all steps that started after it.
pub(super) async fn a_retry_from_a_step_runs_again_what_came_after(t: &TestStore) {
    let failed = failed_run(t).await;
    let from = |step: &str| RunCommand::retry(Some(StepId::from_stored(step)));
    assert_eq!(
        refused(t, &failed, from("nothing")).await,
        Refusal::NoSuchStep(StepId::from_stored("nothing"))
    );
    t.steered(&failed, from("pack")).await;
    let left: Vec<_> = t.log(&failed).await.steps.iter().map(|step| step.id.to_string()).collect();
    assert_eq!(left, ["charge"]);
    let last = t.events(&failed).await.pop().unwrap();
    assert_eq!((last.kind, last.note.as_deref()), (EventKind::Retried, Some("from pack")));
}

/// A run whose steps were undone cannot be retried.
pub(super) async fn a_run_whose_steps_were_undone_is_not_retried(t: &TestStore) {
    let run = t.driven().await;
    let failed =
        t.write(&run).await.does("charge").fails_at("ship").undoes("charge").fails("no").done().await;
    assert_eq!(refused(t, &failed, retry()).await, Refusal::Undone);
}

/// Invariant 7: a retry is refused while another run holds its key.
pub(super) async fn a_retry_does_not_take_a_key_that_another_run_has(t: &TestStore) {
    let failed = failed_run(t).await;
    let second = t.order().key("k").subject("s").release_key_on_failure().granted_to(BOB).start().await;
    assert_eq!(refused(t, &failed, retry()).await, Refusal::KeyTaken(second.id()), "the key is judged first");
    t.write(&second).await.fails("no").done().await;
    t.steered(&failed, retry()).await;
    let record = t.key("k").await.unwrap();
    assert_eq!((record.run(), record.expires_at, record.first_seen_at), (Some(failed.id()), None, t.now()));
    assert_eq!(refused(t, &second, retry()).await, Refusal::KeyTaken(failed.id()));
}

/// A retry is refused while another run is open on its subject, and leaves the key unchanged.
pub(super) async fn a_retry_does_not_take_a_subject_that_another_run_has(t: &TestStore) {
    let failed = failed_run(t).await;
    let second = t.order().subject("s").start().await;
    let key = t.key("k").await;
    assert_eq!(refused(t, &failed, retry()).await, Refusal::SubjectBusy(second.id()));
    assert_eq!(t.key("k").await, key);
    t.steered(&second, cancel()).await;
    t.steered(&failed, retry()).await;
    must!(t.order().subject("s").send().await, hapax_engine::store::StartOutcome::SubjectBusy { run } if run == failed.id());
}

/// Invariant 8: a retried run gets its key back, even if the key was purged in between.
pub(super) async fn a_retry_takes_back_a_purged_key(t: &TestStore) {
    let failed = failed_run(t).await;
    let fingerprint = failed.facts.fingerprint.unwrap();
    let request = hapax_engine::store::Purge { runs_closed_before: None, after: None, limit: 10 };
    assert_eq!(t.store.purge(request).await.unwrap().keys, 1);
    t.pass(SECOND);
    t.steered(&failed, retry()).await;
    let record = t.key("k").await.unwrap();
    let target = KeyTarget::Run { run: failed.id(), fingerprint };
    assert_eq!((record.target, record.expires_at), (target, None));
    must!(t.order().key("k").send().await, hapax_engine::store::StartOutcome::Existing(run) if run.id() == failed.id());
}

/// A retry keeps the time when the run's key was first used.
pub(super) async fn a_retry_does_not_make_a_key_younger(t: &TestStore) {
    let run = t.order().key("k").keep_key_for(HOUR).granted_to(ANN).start().await;
    let seen_at = t.now();
    t.pass(SECOND);
    let failed = t.write(&run).await.fails("no").done().await;
    assert_eq!(t.key("k").await.unwrap().expires_at, Some(t.now().plus(HOUR)));
    t.steered(&failed, retry()).await;
    let record = t.key("k").await.unwrap();
    assert_eq!((record.first_seen_at, record.expires_at), (seen_at, None));
}

/// A quarantined run can be cancelled.
pub(super) async fn a_quarantined_run_can_be_cancelled(t: &TestStore) {
    t.driven().await;
    for _ in 0..hapax_engine::limits::MAX_STALLS {
        t.pass(LEASE);
        t.claim_one(BOB).await;
    }
    t.pass(LEASE);
    assert!(t.claim(BOB).await.is_empty());
    let aside = t.list(1, None).await.runs.remove(0).head;
    assert_eq!(aside.state, RunState::Paused);
    t.steered(&aside, cancel()).await;
    let held = t.claim_one(BOB).await;
    t.write(&held).await.cancels().done().await;
}
