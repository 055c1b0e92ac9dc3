//! Continue-as-new: a new generation with a new input and no records.

use hapax_engine::model::{EventKind, Generation, Promise, PromiseId, StepId, Timestamp, WorkspaceId};
use hapax_engine::store::{CommitOutcome, SettleOutcome, SignalOutcome, StartOutcome};

use crate::fixture::*;
use crate::must;

/// The run keeps its id, key, lease and event history, and has no records.
pub(super) async fn a_run_continues_with_a_new_input_and_no_records(t: &TestStore) {
    let held = t.order().key("k").input(r#"{"item":1}"#).granted_to(ANN).start().await;
    let held = t.write(&held).await.does("charge").awaits_promise("payment", None).done().await;
    let next = t.write(&held).await.continues_with(r#"{"item":2}"#).done().await;
    assert_eq!((next.generation, next.fence, next.state), (Generation::new(1), held.fence, held.state));
    assert_eq!(next.version, held.version.next());
    let log = t.log(&next).await;
    assert!(log.steps.is_empty() && log.promises.is_empty(), "{log:?}");
    assert_eq!(log.input, json(r#"{"item":2}"#));
    assert_eq!(t.view(&next).await.input, json(r#"{"item":2}"#));
    assert_eq!(t.history(&next).await, [EventKind::Started, EventKind::ContinuedAsNew]);
    must!(t.settle(&held, "payment", "1").await, SettleOutcome::NoSuchPromise);
    must!(t.order().key("k").input(r#"{"item":1}"#).send().await, StartOutcome::Existing(run) if run == next);
    let next = t.write(&next).await.does("charge").done().await;
    assert_eq!(t.log(&next).await.steps.len(), 1, "step ids begin afresh");
}

/// Records of the ending generation are deleted, including those in the same write. Records of the next generation
/// stay.
pub(super) async fn records_of_one_write_fall_to_their_generations(t: &TestStore) {
    let held = t.driven().await;
    let held = t.write(&held).await.begins("charge").done().await;
    let write = t.write(&held).await.does("charge").does("pack").continues_with("2");
    let next = write.does("pack").awaits_signal("go").parks().done().await;
    let left: Vec<_> = t.log(&next).await.steps.iter().map(|step| step.id.to_string()).collect();
    assert_eq!(left, ["pack", "go"]);
}

/// A promise opened in the same write belongs to the next generation.
pub(super) async fn a_promise_opened_while_continuing_stays(t: &TestStore) {
    let held = t.driven().await;
    let held = t.write(&held).await.awaits_promise("payment", None).done().await;
    let write = t.write(&held).await.gives_up("payment").continues_with("2").awaits_promise("payment", None);
    let next = write.parks().done().await;
    let promises = t.log(&next).await.promises;
    assert_eq!(promises.len(), 1);
    assert_eq!(promises[0].id, promise_of(&next, "payment"));
    assert_ne!(promises[0].id, promise_of(&held, "payment"));
    must!(t.settle(&held, "payment", "1").await, SettleOutcome::NoSuchPromise);
    must!(t.settle(&next, "payment", "1").await, SettleOutcome::Settled { .. });
}

/// Unconsumed signals wait for the next generation. Signal ids stay known.
pub(super) async fn unconsumed_signals_wait_for_the_next_generation(t: &TestStore) {
    let held = t.driven().await;
    for (name, id) in [("a", "s1"), ("b", "s2"), ("c", "s3")] {
        must!(t.signal_as(&held, name, id).await, SignalOutcome::Stored { .. });
    }
    let held = t.head(&held).await;
    let held = t.write(&held).await.consumes(1).does("a").done().await;
    let next = t.write(&held).await.does("c").consumes(3).continues_with("2").done().await;
    let left: Vec<_> = t.log(&next).await.signals.iter().map(|signal| signal.seq).collect();
    assert_eq!((left, next.arrivals), (vec![2], 3));
    for id in ["s1", "s2", "s3"] {
        must!(t.signal_as(&next, "a", id).await, SignalOutcome::Duplicate);
    }
}

/// A run may continue and end, or continue and park, in one write.
pub(super) async fn a_run_may_continue_and_park_in_one_write(t: &TestStore) {
    let held = t.driven().await;
    let until = t.now().plus(HOUR);
    let parked =
        t.write(&held).await.continues_with("2").sleeps("nap", until).parks_until(Some(until)).done().await;
    assert_eq!(parked.state.wake_at(), Some(until));
    t.pass(HOUR);
    let held = t.claim_one(BOB).await;
    let closed = t.write(&held).await.gets("nap").continues_with("3").completes("1").done().await;
    assert_eq!((closed.generation, t.view(&closed).await.input), (Generation::new(2), json("3")));
    assert!(t.log(&closed).await.steps.is_empty());
}

/// Invariant 3: a refused continuation deletes nothing.
pub(super) async fn a_refused_continuation_deletes_nothing(t: &TestStore) {
    let late = t.driven().await;
    let late = t.write(&late).await.does("charge").awaits_promise("payment", None).done().await;
    t.pass(LEASE);
    t.claim_one(BOB).await;
    must!(t.write(&late).await.continues_with("2").send().await, CommitOutcome::LeaseLost);
    let log = t.log(&late).await;
    assert_eq!((log.steps.len(), log.promises.len(), log.head.generation), (2, 1, Generation::default()));
    let id = PromiseId::for_step(late.id(), late.generation, &StepId::from_stored("payment"));
    let promise = Promise::pending(id.clone(), late.id(), Timestamp::EPOCH, None);
    assert_eq!(t.store.find_promise(&WorkspaceId::default(), &id).await.unwrap(), Some(promise));
}
