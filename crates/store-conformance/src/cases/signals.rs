//! Signals: stored until consumed, in order, each once.

use std::sync::Arc;

use hapax_engine::limits::MAX_WAITING_SIGNALS;
use hapax_engine::model::RunStatus;
use hapax_engine::store::SignalOutcome;

use crate::fixture::*;
use crate::must;

/// CONTRACT 5: a signal is stored and never dropped, even before a run waits for it.
pub(super) async fn a_signal_is_kept_before_anybody_waits_for_it(t: &TestStore) {
    let run = t.pending().await;
    t.pass(SECOND);
    must!(t.signal_as(&run, "go", "s1").await, SignalOutcome::Stored { seq: 1, granted: None });
    let held = t.claim_one(ANN).await;
    let signals = t.log(&held).await.signals;
    assert_eq!(signals.len(), 1);
    let signal = &signals[0];
    assert_eq!((signal.seq, signal.name.as_str(), signal.at, signal.consumed), (1, "go", t.now(), false));
    assert_eq!(signal.id.as_ref().map(|id| id.as_str()), Some("s1"));
    assert_eq!(signal.payload, json(r#"{"from":"outside"}"#));
}

/// Invariant 44: signals are stored in the order they were committed.
pub(super) async fn signals_are_kept_in_order(t: &TestStore) {
    let run = t.driven().await;
    let run = t.write(&run).await.awaits_promise("payment", None).done().await;
    for (name, seq) in [("b", 1), ("a", 2)] {
        must!(t.signal(&run, name).await, SignalOutcome::Stored { seq: place, .. } if place == seq);
    }
    let _ = t.settle(&run, "payment", "1").await;
    must!(t.signal(&run, "b").await, SignalOutcome::Stored { seq: 4, .. });
    let order: Vec<_> =
        t.log(&run).await.signals.iter().map(|signal| (signal.seq, signal.name.to_string())).collect();
    assert_eq!(order, [(1, "b".into()), (2, "a".into()), (4, "b".into())]);
}

/// Without an id, every send creates a signal.
pub(super) async fn without_an_id_every_sending_is_a_signal(t: &TestStore) {
    let run = t.pending().await;
    let (_, _) = (t.signal(&run, "go").await, t.signal(&run, "go").await);
    assert_eq!(t.log(&run).await.signals.len(), 2);
}

/// CONTRACT 5, S2.45: an id that the run has received is a duplicate, consumed or not, even after the run's end.
pub(super) async fn an_id_that_was_seen_is_a_duplicate_for_ever(t: &TestStore) {
    let held = t.driven().await;
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Stored { .. });
    must!(t.signal_as(&held, "another-name", "s1").await, SignalOutcome::Duplicate);
    let held = t.head(&held).await;
    let held = t.write(&held).await.consumes(1).does("charge").done().await;
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Duplicate);
    t.write(&held).await.completes("1").done().await;
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Duplicate);
    assert_eq!(t.head(&held).await.arrivals, 1);
}

/// Signal ids are scoped to one run.
pub(super) async fn the_same_id_at_two_runs_is_two_signals(t: &TestStore) {
    let (first, second) = (t.pending().await, t.pending().await);
    must!(t.signal_as(&first, "go", "s1").await, SignalOutcome::Stored { .. });
    must!(t.signal_as(&second, "go", "s1").await, SignalOutcome::Stored { .. });
    must!(t.signal_as(&second, "go", "S1").await, SignalOutcome::Stored { .. });
}

/// Invariant 44: a signal to a closed run is refused, not silently lost.
pub(super) async fn a_signal_to_an_ended_run_is_refused(t: &TestStore) {
    let held = t.driven().await;
    let closed = t.write(&held).await.completes("1").done().await;
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Ended(RunStatus::Completed));
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Ended(RunStatus::Completed));
    assert_eq!(t.head(&held).await, closed);
    assert!(t.log(&held).await.signals.is_empty());
}

/// Invariant 44: a signal is delivered to one step, in the write that records the step.
pub(super) async fn a_consumed_signal_is_gone_and_the_others_stay(t: &TestStore) {
    let held = t.driven().await;
    for name in ["a", "b", "c"] {
        let _ = t.signal(&held, name).await;
    }
    let held = t.head(&held).await;
    t.write(&held).await.awaits_signal("b").gets("b").consumes(2).done().await;
    let left: Vec<_> = t.log(&held).await.signals.iter().map(|signal| signal.seq).collect();
    assert_eq!(left, [1, 3]);
}

/// A run holds a limited number of unconsumed signals.
pub(super) async fn a_run_holds_only_so_many_signals(t: &TestStore) {
    let held = t.driven().await;
    for _ in 0..MAX_WAITING_SIGNALS / 500 {
        let batch: Vec<_> = (0..500)
            .map(|_| {
                let (store, signal) = (Arc::clone(&t.store), signal_to(&held, "go", None));
                tokio::spawn(async move { store.send_signal(signal).await.unwrap() })
            })
            .collect();
        for sent in batch {
            must!(sent.await.unwrap(), SignalOutcome::Stored { .. });
        }
    }
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::TooMany);
    assert_eq!(t.head(&held).await.arrivals, MAX_WAITING_SIGNALS);
    let held = t.head(&held).await;
    t.write(&held).await.does("charge").consumes(7).done().await;
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Stored { .. });
}
