//! Lost acknowledgements: a repeated request finds its own write.

use hapax_engine::model::{RunCommand, RunStatus};
use hapax_engine::store::{CommitOutcome, RunCommandOutcome, SettleOutcome, SignalOutcome, StartOutcome};

use crate::fixture::*;
use crate::must;

/// Lesson 9, invariant 4: a repeated start does not conflict with itself.
pub(super) async fn a_start_sent_again_finds_its_own_run(t: &TestStore) {
    for order in [t.order().key("k").subject("s").granted_to(ANN), t.order()] {
        let run = order.start().await;
        must!(order.send().await, StartOutcome::Created(again) if again == run);
        t.pass(LEASE);
        let moved = t.claim(BOB).await.into_iter().find(|moved| moved.id() == run.id()).unwrap();
        must!(order.send().await, StartOutcome::Created(again) if again == moved);
        assert_eq!(t.events(&run).await.len(), 2);
    }
    assert_eq!(t.list(10, None).await.runs.len(), 2);
}

/// A start repeated after the run has ended does not start it again.
pub(super) async fn a_start_sent_again_after_the_end_finds_the_end(t: &TestStore) {
    let order = t.order().key("k").release_key_on_failure().granted_to(ANN);
    let run = order.start().await;
    let closed = t.write(&run).await.fails("no").done().await;
    let next = t.order().key("k").start().await;
    must!(order.send().await, StartOutcome::Created(again) if again == closed);
    assert_eq!(t.key("k").await.unwrap().run(), Some(next.id()));
}

/// S0.30, invariant 4: a repeated write takes effect once.
pub(super) async fn a_write_sent_again_takes_effect_once(t: &TestStore) {
    let held = t.driven().await;
    let _ = t.signal(&held, "go").await;
    let child = t.child_of(&held, "ship");
    let write =
        t.write(&held).await.does("charge").awaits_promise("payment", None).awaits_child("ship", &child);
    let advance = write.consumes(1).advance();
    must!(t.store.commit_run(advance.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    let after = (t.head(&held).await, format!("{:?}", t.log(&held).await));
    for _ in 0..3 {
        let again = t.store.commit_run(advance.clone()).await.unwrap();
        must!(again, CommitOutcome::Committed { woken, .. } if woken.is_empty());
    }
    assert_eq!((t.head(&held).await, format!("{:?}", t.log(&held).await)), after);
    assert_eq!(t.list(10, None).await.runs.len(), 2);
    t.write(&after.0).await.does("next").done().await;
}

/// A writer's repeated write is recognised even if others have changed the run since.
pub(super) async fn a_write_sent_again_after_others_changed_the_run_is_still_its_own(t: &TestStore) {
    let held = t.driven().await;
    let advance = t.write(&held).await.does("charge").advance();
    must!(t.store.commit_run(advance.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    t.steered(&held, RunCommand::Pause).await;
    let _ = t.signal(&held, "go").await;
    t.renew(ANN, &[&held]).await;
    must!(t.store.commit_run(advance.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    t.pass(LEASE);
    t.claim_one(BOB).await;
    must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Committed { .. });
    assert_eq!(t.log(&held).await.steps.len(), 1);
}

/// Only the last write is recognised. An earlier write is stale, and a write before another holder's is lost.
pub(super) async fn an_older_write_sent_again_is_refused(t: &TestStore) {
    let held = t.driven().await;
    let first = t.write(&held).await.does("charge").advance();
    must!(t.store.commit_run(first.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    let held = t.head(&held).await;
    let second = t.write(&held).await.does("ship").advance();
    must!(t.store.commit_run(second.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    must!(t.store.commit_run(first).await.unwrap(), CommitOutcome::Stale(head) if head == t.head(&held).await);
    t.pass(LEASE);
    let taken = t.claim_one(BOB).await;
    t.write(&taken).await.does("third").done().await;
    must!(t.store.commit_run(second).await.unwrap(), CommitOutcome::LeaseLost);
}

/// A repeated park, release or end is recognised although the lease is gone.
pub(super) async fn a_write_that_gave_the_lease_back_is_known_again(t: &TestStore) {
    for way in 0..4 {
        let held = t.driven().await;
        let write = t.write(&held).await.does("charge");
        let advance = match way {
            0 => write.awaits_signal("go").parks(),
            1 => write.releases(),
            2 => write.completes("1"),
            _ => write.fails("no"),
        };
        let advance = advance.advance();
        must!(t.store.commit_run(advance.clone()).await.unwrap(), CommitOutcome::Committed { .. });
        let after = t.head(&held).await;
        must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Committed { .. });
        assert_eq!(t.head(&held).await, after);
    }
}

/// A repeated end notifies the parent once.
pub(super) async fn an_end_sent_again_is_one_arrival(t: &TestStore) {
    let parent = t.driven().await;
    let order = t.child_of(&parent, "ship").granted_to(BOB);
    let parent = t.write(&parent).await.awaits_child("ship", &order).parks().done().await;
    let child = t.head(&order.start().await).await;
    let end = t.write(&child).await.completes("1").advance();
    must!(t.store.commit_run(end.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    must!(t.store.commit_run(end).await.unwrap(), CommitOutcome::Committed { woken, .. } if woken.is_empty());
    assert_eq!(t.head(&parent).await.arrivals, parent.arrivals + 1);
}

/// A repeated command is acknowledged and changes nothing.
pub(super) async fn a_command_sent_again_changes_nothing(t: &TestStore) {
    let held = t.driven().await;
    for command in [RunCommand::Pause, cancel()] {
        let asked = t.steered(&held, command.clone()).await;
        must!(t.steer(&held, command).await, RunCommandOutcome::Refused(_, head) if head == asked);
        assert_eq!(t.head(&held).await, asked);
    }
    let pending = t.pending().await;
    let closed = t.steered(&pending, cancel()).await;
    assert_eq!(closed.status(), RunStatus::Cancelled);
    must!(t.steer(&pending, cancel()).await, RunCommandOutcome::Refused(_, head) if head == closed);
}

/// Invariants 40, 44: a repeated signal or settlement changes nothing.
pub(super) async fn an_arrival_sent_again_arrives_once(t: &TestStore) {
    let held = t.driven().await;
    let held = t.write(&held).await.awaits_promise("payment", None).done().await;
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Stored { seq: 1, .. });
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Duplicate);
    must!(t.settle(&held, "payment", "1").await, SettleOutcome::Settled { .. });
    must!(t.settle(&held, "payment", "1").await, SettleOutcome::AlreadySettled { same: true, .. });
    assert_eq!(t.head(&held).await.arrivals, 2);
    assert_eq!(t.log(&held).await.signals.len(), 1);
}
