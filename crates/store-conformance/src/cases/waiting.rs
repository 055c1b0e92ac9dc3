//! No lost wake-ups, in either order of arrival and park.

use hapax_engine::model::{EventKind, RunCommand, RunHead, RunState};
use hapax_engine::store::{SettleOutcome, SignalOutcome};

use crate::fixture::*;
use crate::must;

/// A driven run that waits for a promise, a signal and a child.
async fn awaiting(t: &TestStore) -> (RunHead, RunHead) {
    let run = t.driven().await;
    let order = t.child_of(&run, "ship").granted_to(BOB);
    let write =
        t.write(&run).await.awaits_promise("payment", None).awaits_signal("go").awaits_child("ship", &order);
    let run = write.done().await;
    (run, order.start().await)
}

/// Delivers one of the three kinds of arrival to a run.
async fn arrives(t: &TestStore, way: usize, run: &RunHead, child: &RunHead) {
    match way {
        0 => must!(t.settle(run, "payment", "1").await, SettleOutcome::Settled { granted: None, .. }),
        1 => must!(t.signal(run, "go").await, SignalOutcome::Stored { granted: None, .. }),
        _ => drop(t.write(child).await.completes("1").done().await),
    }
}

/// Invariant 41: an arrival before the park makes the run due at once, and the answer to the park says so.
pub(super) async fn an_arrival_before_the_park_is_not_lost(t: &TestStore) {
    for way in 0..3 {
        let (run, child) = awaiting(t).await;
        arrives(t, way, &run, &child).await;
        t.pass(SECOND);
        assert_eq!(t.write(&run).await.parks().woke().await, [run.id()]);
        let parked = t.head(&run).await;
        assert_eq!((parked.state, parked.arrivals), (RunState::Waiting { wake_at: Some(t.now()) }, 1));
        assert_eq!(t.claim_one(BOB).await.id(), run.id());
    }
}

/// Invariant 41: an arrival after the park makes the run due at once.
pub(super) async fn an_arrival_after_the_park_wakes(t: &TestStore) {
    for way in 0..3 {
        let (run, child) = awaiting(t).await;
        let parked = t.write(&run).await.parks().done().await;
        assert_eq!(parked.state, RunState::Waiting { wake_at: None });
        t.pass(SECOND);
        arrives(t, way, &run, &child).await;
        let woken = t.head(&run).await;
        assert_eq!(woken.state, RunState::Waiting { wake_at: Some(t.now()) });
        assert_eq!((woken.arrivals, woken.version), (1, parked.version), "an arrival takes no version");
        assert_eq!(t.claim_one(BOB).await.id(), run.id());
    }
}

/// The end of a child returns the parent that it wakes.
pub(super) async fn the_end_of_a_child_names_the_parent_it_wakes(t: &TestStore) {
    let (run, child) = awaiting(t).await;
    t.write(&run).await.parks().done().await;
    assert_eq!(t.write(&child).await.completes("1").woke().await, [run.id()]);
    let (driven, child) = awaiting(t).await;
    assert!(t.write(&child).await.completes("1").woke().await.is_empty(), "a driven run needs no waking");
    assert_eq!(t.head(&driven).await.arrivals, 1);
}

/// A park that has seen every arrival sleeps. A park that missed the last one does not.
pub(super) async fn a_park_sleeps_only_if_it_has_seen_everything(t: &TestStore) {
    let (run, _) = awaiting(t).await;
    must!(t.signal(&run, "other").await, SignalOutcome::Stored { .. });
    let seen = t.head(&run).await;
    let parked = t.write(&seen).await.parks().done().await;
    assert_eq!(parked.state, RunState::Waiting { wake_at: None });
    assert!(t.claim(BOB).await.is_empty());
    must!(t.signal(&run, "other").await, SignalOutcome::Stored { .. });
    let held = t.claim_one(BOB).await;
    must!(t.signal(&run, "other").await, SignalOutcome::Stored { .. });
    must!(t.signal(&run, "other").await, SignalOutcome::Stored { .. });
    assert_eq!(held.arrivals, 2);
    t.write(&held).await.parks().done().await;
    t.claim_one(BOB).await;
}

/// An arrival wakes the run before a later timer, and keeps an earlier one.
pub(super) async fn an_arrival_and_a_timer_wake_at_the_earlier(t: &TestStore) {
    let (run, _) = awaiting(t).await;
    t.write(&run).await.parks_until(Some(t.now().plus(HOUR))).done().await;
    t.pass(SECOND);
    must!(t.signal(&run, "go").await, SignalOutcome::Stored { .. });
    assert_eq!(t.head(&run).await.state.wake_at(), Some(t.now()));
    let (run, _) = awaiting(t).await;
    let timer = t.now().plus(SECOND);
    t.write(&run).await.parks_until(Some(timer)).done().await;
    t.pass(HOUR);
    must!(t.signal(&run, "go").await, SignalOutcome::Stored { .. });
    assert_eq!(t.head(&run).await.state.wake_at(), Some(timer));
}

/// A wake-up and its lease are one write: the caller that delivers the arrival may drive the run.
pub(super) async fn the_caller_that_delivers_an_arrival_may_drive_the_run(t: &TestStore) {
    for settles in [true, false] {
        let (run, _) = awaiting(t).await;
        let parked = t.write(&run).await.parks().done().await;
        let granted = if settles {
            let request = hapax_engine::store::SettlePromise {
                grant: Some(grant(BOB)),
                ..settlement_of(&run, "payment", "1")
            };
            must!(t.store.settle_promise(request).await.unwrap(), SettleOutcome::Settled { granted, .. } => granted)
        } else {
            let request =
                hapax_engine::store::SendSignal { grant: Some(grant(BOB)), ..signal_to(&run, "go", None) };
            must!(t.store.send_signal(request).await.unwrap(), SignalOutcome::Stored { granted, .. } => granted)
        };
        let granted = granted.expect("the offer is taken");
        assert_eq!((granted.version, granted.fence), (parked.version.next(), parked.fence.next()));
        assert_eq!((granted.arrivals, granted.state.lease().unwrap().owner), (1, BOB));
        assert_eq!(t.head(&run).await, granted);
        assert_eq!(t.history(&run).await.last(), Some(&EventKind::Claimed));
        t.write(&granted).await.does("next").done().await;
    }
}

/// An offer is not used for a run that is driven, paused, not begun, or of another workflow.
pub(super) async fn an_offer_is_taken_only_for_a_waiting_run_that_is_served(t: &TestStore) {
    let driven = t.driven().await;
    let pending = t.pending().await;
    let paused = t.pending().await;
    t.steered(&paused, RunCommand::Pause).await;
    let foreign =
        t.order().offered(grant_for(ANN, [workflow("other", 1)])).workflow("other", 1).start().await;
    let foreign = t.write(&foreign).await.awaits_signal("go").parks().done().await;
    for run in [&driven, &pending, &paused, &foreign] {
        let before = t.head(run).await;
        let request =
            hapax_engine::store::SendSignal { grant: Some(grant(BOB)), ..signal_to(run, "go", None) };
        must!(t.store.send_signal(request).await.unwrap(), SignalOutcome::Stored { seq: 1, granted: None });
        let after = t.head(run).await;
        assert_eq!((after.version, after.fence, after.arrivals), (before.version, before.fence, 1));
    }
    assert_eq!(t.head(&paused).await.state, RunState::Paused, "a paused run stays paused");
    assert_eq!(t.head(&foreign).await.state.wake_at(), Some(t.now()), "a waiting run is woken for others");
}

/// Arrivals during a pause are there when the run resumes.
pub(super) async fn arrivals_during_a_pause_are_kept(t: &TestStore) {
    let (run, _) = awaiting(t).await;
    let parked = t.write(&run).await.parks().done().await;
    t.steered(&parked, RunCommand::Pause).await;
    must!(t.signal(&run, "go").await, SignalOutcome::Stored { .. });
    assert!(t.claim(BOB).await.is_empty());
    t.steered(&run, RunCommand::Resume).await;
    let held = t.claim_one(BOB).await;
    assert_eq!((held.arrivals, t.log(&held).await.signals.len()), (1, 1));
}
