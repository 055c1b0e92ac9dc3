//! Promises: settled or timed out, once.

use hapax_engine::model::{
    Failure, PromiseState, RunHead, RunStatus, SettleRequest, Settlement, StepState, WorkspaceId,
};
use hapax_engine::store::{CommitOutcome, SettleOutcome, SettlePromise};

use crate::fixture::*;
use crate::must;

/// A run that waits at most an hour for a payment.
async fn waiting(t: &TestStore) -> RunHead {
    let run = t.driven().await;
    let deadline = t.now().plus(HOUR);
    t.write(&run).await.awaits_promise("payment", Some(deadline)).parks_until(Some(deadline)).done().await
}

async fn state(t: &TestStore, run: &RunHead) -> PromiseState {
    let id = promise_of(run, "payment");
    t.store.find_promise(&WorkspaceId::default(), &id).await.unwrap().expect("it is there").state
}

/// S4.24: a promise is opened in the same write as the step that waits for it.
pub(super) async fn a_promise_is_opened_with_its_step(t: &TestStore) {
    let run = waiting(t).await;
    let promise =
        t.store.find_promise(&WorkspaceId::default(), &promise_of(&run, "payment")).await.unwrap().unwrap();
    assert_eq!((promise.run, promise.deadline_at), (run.id(), Some(t.now().plus(HOUR))));
    assert_eq!(promise.state, PromiseState::Pending);
    assert_eq!(t.log(&run).await.promises, [promise]);
    assert!(matches!(t.step(&run, "payment").await.unwrap().state, StepState::Waiting { until: Some(_) }));
}

/// S4.3, G4.3, invariants 39, 40: the first settlement stands. An identical one is acknowledged, and a different one
/// gets the stored value.
pub(super) async fn the_first_settlement_stands(t: &TestStore) {
    let run = waiting(t).await;
    t.pass(SECOND);
    must!(t.settle(&run, "payment", r#"{"a":1,"b":2}"#).await, SettleOutcome::Settled { granted: None, .. });
    let first = Settlement::Resolved(json(r#"{"a":1,"b":2}"#));
    let stands = PromiseState::Settled { at: t.now(), settlement: first };
    assert_eq!(state(t, &run).await, stands);
    t.pass(SECOND);
    let same = t.settle(&run, "payment", r#"{ "b": 2.0, "a": 1 }"#).await;
    must!(same, SettleOutcome::AlreadySettled { same: true, promise } if promise.state == stands);
    let other = t.settle(&run, "payment", r#"{"a":2}"#).await;
    must!(other, SettleOutcome::AlreadySettled { same: false, promise } if promise.state == stands);
    let rejection = SettlePromise {
        wish: SettleRequest::new(Settlement::Rejected(Failure::permanent("no"))),
        ..settlement_of(&run, "payment", "1")
    };
    must!(
        t.store.settle_promise(rejection).await.unwrap(),
        SettleOutcome::AlreadySettled { same: false, .. }
    );
    assert_eq!(state(t, &run).await, stands);
    assert_eq!(t.head(&run).await.arrivals, 1, "only the first is an arrival");
}

/// A rejection is a settlement, stored with all its fields.
pub(super) async fn a_rejection_is_a_settlement(t: &TestStore) {
    let run = waiting(t).await;
    let why = Failure::permanent("card \"ü\" declined").with_code("declined").retry_after(SECOND);
    let rejection = SettlePromise {
        wish: SettleRequest::new(Settlement::Rejected(why.clone())),
        ..settlement_of(&run, "payment", "1")
    };
    must!(t.store.settle_promise(rejection.clone()).await.unwrap(), SettleOutcome::Settled { .. });
    assert_eq!(
        state(t, &run).await,
        PromiseState::Settled { at: t.now(), settlement: Settlement::Rejected(why) }
    );
    must!(t.store.settle_promise(rejection).await.unwrap(), SettleOutcome::AlreadySettled { same: true, .. });
}

/// A settled promise stays settled after its deadline.
pub(super) async fn a_settlement_outlasts_the_deadline(t: &TestStore) {
    let run = waiting(t).await;
    must!(t.settle(&run, "payment", "1").await, SettleOutcome::Settled { .. });
    t.pass(2 * HOUR);
    must!(t.settle(&run, "payment", "1").await, SettleOutcome::AlreadySettled { same: true, .. });
    assert!(matches!(state(t, &run).await, PromiseState::Settled { .. }));
}

/// CONTRACT 7, invariant 43: a promise has timed out from its deadline on, even before anyone records the timeout.
pub(super) async fn a_promise_times_out_by_the_clock_alone(t: &TestStore) {
    let run = waiting(t).await;
    t.pass(HOUR - std::time::Duration::from_millis(1));
    assert_eq!(state(t, &run).await, PromiseState::Pending);
    t.pass(std::time::Duration::from_millis(1));
    assert_eq!(state(t, &run).await, PromiseState::TimedOut);
    must!(t.settle(&run, "payment", "1").await, SettleOutcome::TimedOut { .. });
    assert_eq!(t.head(&run).await.arrivals, 0);
    assert_eq!(t.log(&run).await.promises[0].state, PromiseState::Pending, "a replay sees what was written");
}

/// A timeout is recorded with the step that observes it, and stands.
pub(super) async fn a_timeout_is_written_with_its_step(t: &TestStore) {
    waiting(t).await;
    t.pass(HOUR);
    let held = t.claim_one(BOB).await;
    let held = t.write(&held).await.times_out("payment").done().await;
    assert_eq!(t.log(&held).await.promises[0].state, PromiseState::TimedOut);
    must!(t.settle(&held, "payment", "1").await, SettleOutcome::TimedOut { .. });
    let mut again = t.write(&held).await.does("charge").advance();
    again.timed_out.push(promise_of(&held, "payment"));
    must!(t.store.commit_run(again).await.unwrap(), CommitOutcome::Stale(_));
}

/// Invariant 43: either the timeout or the settlement wins, and the loser learns which.
pub(super) async fn a_timeout_loses_to_an_earlier_settlement(t: &TestStore) {
    let run = t.driven().await;
    let held = t.write(&run).await.awaits_promise("payment", Some(t.now().plus(HOUR))).done().await;
    let timeout = t.write(&held).await.times_out("payment").advance();
    must!(t.settle(&held, "payment", "1").await, SettleOutcome::Settled { .. });
    let now = must!(t.store.commit_run(timeout).await.unwrap(), CommitOutcome::Stale(head) => head);
    assert_eq!((now.version, now.arrivals), (held.version, 1));
    assert!(matches!(state(t, &held).await, PromiseState::Settled { .. }));
    assert!(matches!(t.step(&held, "payment").await.unwrap().state, StepState::Waiting { .. }));
    t.write(&now).await.gets("payment").done().await;
}

/// A promise that does not exist cannot time out.
pub(super) async fn an_unknown_promise_does_not_time_out(t: &TestStore) {
    let held = t.driven().await;
    let mut advance = t.write(&held).await.does("charge").advance();
    advance.timed_out.push(promise_of(&held, "nothing"));
    must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Stale(head) if head == held);
    assert!(t.log(&held).await.steps.is_empty());
}

/// A promise may be opened and time out in one write.
pub(super) async fn a_promise_may_open_and_time_out_in_one_write(t: &TestStore) {
    let held = t.driven().await;
    t.write(&held).await.awaits_promise("payment", Some(t.now())).times_out("payment").done().await;
    assert_eq!(t.log(&held).await.promises[0].state, PromiseState::TimedOut);
}

/// Invariant 42: after a crash, the same program point gets the same promise.
pub(super) async fn opening_a_promise_again_leaves_it_as_it_is(t: &TestStore) {
    let held = t.driven().await;
    let held = t.write(&held).await.awaits_promise("payment", None).done().await;
    must!(t.settle(&held, "payment", "1").await, SettleOutcome::Settled { .. });
    let held = t.head(&held).await;
    let opened = t.log(&held).await.promises.remove(0);
    let mut advance = t.write(&held).await.gets("payment").advance();
    advance.promises.push(hapax_engine::model::Promise { state: PromiseState::Pending, ..opened.clone() });
    must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Committed { .. });
    assert_eq!(t.log(&held).await.promises, [opened]);
}

/// A promise of a closed run can be settled, and wakes no run.
pub(super) async fn a_promise_of_an_ended_run_can_be_settled(t: &TestStore) {
    let held = t.driven().await;
    let held = t.write(&held).await.awaits_promise("payment", None).done().await;
    let closed = t.write(&held).await.gives_up("payment").completes("1").done().await;
    let request = SettlePromise { grant: Some(grant(BOB)), ..settlement_of(&held, "payment", "1") };
    must!(t.store.settle_promise(request).await.unwrap(), SettleOutcome::Settled { granted: None, .. });
    let after = t.head(&held).await;
    assert_eq!(
        (after.status(), after.version, after.state),
        (RunStatus::Completed, closed.version, closed.state)
    );
    assert!(t.claim(BOB).await.is_empty());
}

/// Promises of one run are settled independently.
pub(super) async fn each_promise_is_settled_by_itself(t: &TestStore) {
    let held = t.driven().await;
    let held =
        t.write(&held).await.awaits_promise("payment", None).awaits_promise("approval", None).done().await;
    must!(t.settle(&held, "approval", "1").await, SettleOutcome::Settled { .. });
    assert_eq!(state(t, &held).await, PromiseState::Pending);
    assert_eq!(t.log(&held).await.promises.len(), 2);
    must!(t.settle(&held, "Payment", "1").await, SettleOutcome::NoSuchPromise);
}
