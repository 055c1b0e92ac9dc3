//! Store failures: before the operation begins, during it, and when the answer is stored. Time is tokio's paused clock.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::RequestState;
use hapax_engine::store::RequestKeyStore;
use hapax_http_idempotency::{IdempotencyLayer, LayerError, Policy};

use crate::faulty_store::{Fault, FaultyStore, Verb};
use crate::world::{World, also, anna, key, memory, pay, until};

fn world() -> (World, Arc<FaultyStore>) {
    let store = FaultyStore::over(memory().store);
    (World::over(store.clone(), Policy::default()), store)
}

async fn is_free(store: &FaultyStore) -> bool {
    store.find_request(&anna(), &key("abc")).await.unwrap().is_none()
}

/// S2.30: nothing runs while the store is unreachable.
#[tokio::test(start_paused = true)]
async fn with_the_store_away_nothing_begins_and_the_caller_may_try_again() {
    let (world, store) = world();
    store.plan(Verb::Begin, [Fault::Away]);
    let refused = world.send(pay("abc", 5)).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "store_unavailable"));
    assert_eq!(refused.headers["retry-after"], "2");
    assert_eq!(world.shop.charges(), 0);
    assert_eq!(world.send(pay("abc", 5)).await.status, 201);
    assert_eq!(world.layer.stats().store_away, 1);
}

#[tokio::test(start_paused = true)]
async fn with_the_store_away_a_late_request_is_not_run_either() {
    let (world, store) = world();
    store.plan(Verb::Find, [Fault::Away]);
    let late = also(pay("abc", 5), "idempotency-first-sent", "Mon, 01 Dec 2025 12:00:00 GMT");
    assert_eq!(world.send(late).await.code(), "store_unavailable");
    assert_eq!(world.shop.charges(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_beginning_whose_outcome_is_unknown_is_sent_again_and_runs_once() {
    for fault in [Fault::LostBefore, Fault::LostAfter, Fault::Silent] {
        let (world, store) = world();
        store.plan(Verb::Begin, [fault]);
        let answer = world.send(pay("abc", 5)).await;
        assert_eq!(answer.status, 201, "{fault:?}");
        assert_eq!(world.shop.charges(), 1);
        assert_eq!(world.layer.stats().takeovers, 0);
        assert!(world.send(pay("abc", 5)).await.is_replayed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_beginning_that_stays_unknown_is_refused_and_given_back() {
    for lost in [[Fault::LostAfter; 2], [Fault::LostAfter, Fault::LostBefore], [Fault::Silent; 2]] {
        let (world, store) = world();
        store.plan(Verb::Begin, lost);
        store.plan(Verb::Find, [Fault::Away]);
        assert_eq!(world.send(pay("abc", 5)).await.code(), "store_unavailable");
        assert_eq!(world.shop.charges(), 0);
        // The first lookup fails; the second finds the hold and releases it.
        until(|| store.calls(Verb::Find) >= 1).await;
        let freed = async {
            while !is_free(&store).await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), freed).await.expect("it is given back");
        let retried = world.send(also(pay("abc", 5), "prefer", "wait=0")).await;
        assert_eq!(retried.status, 201, "{lost:?}: nobody holds the key");
        assert_eq!(world.shop.operations().len(), 1);
        assert!(!world.shop.operations()[0].1, "nothing had begun, so nothing is in doubt");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_written_at_a_later_try_is_stored() {
    for faults in [vec![Fault::Away], vec![Fault::LostBefore, Fault::Away], vec![Fault::LostAfter]] {
        let (world, store) = world();
        store.plan(Verb::Finish, faults.clone());
        let answer = world.send(pay("abc", 5)).await;
        assert_eq!(answer.status, 201);
        assert!(!answer.headers.contains_key("idempotency-stored"), "{faults:?}");
        assert!(!answer.is_replayed());
        assert_eq!(world.send(pay("abc", 5)).await.body, answer.body);
        assert_eq!(world.layer.stats().stored, 1);
        assert_eq!(world.shop.charges(), 1);
    }
}

/// The answer is still sent, and marked as not stored.
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_stored_goes_out_marked_and_is_stored_when_the_store_is_back() {
    let (world, store) = world();
    store.plan(Verb::Finish, [Fault::Away; 5]);
    let answer = world.send(pay("abc", 5)).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.headers["idempotency-stored"], "false");
    assert_eq!(world.layer.stats().unsaved, 1);
    // A retry waits for the end to be recorded, and gets it.
    let again = world.send(pay("abc", 5)).await;
    assert!(again.is_replayed());
    assert_eq!(again.body, answer.body);
    assert_eq!(world.shop.charges(), 1);
    assert_eq!(world.layer.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_never_written_leaves_a_hold_that_runs_out() {
    let (world, store) = world();
    store.plan(Verb::Finish, [Fault::Away; 1_000]);
    let answer = world.send(pay("abc", 5)).await;
    assert_eq!(answer.headers["idempotency-stored"], "false");
    world.layer.drain().await.unwrap();
    let record = store.find_request(&anna(), &key("abc")).await.unwrap().unwrap();
    assert!(matches!(record.state, RequestState::InFlight { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_cannot_be_written_at_once_is_written_later() {
    let (world, store) = world();
    world.shop.answers_status(429);
    store.plan(Verb::Finish, [Fault::Away; 5]);
    assert_eq!(world.send(pay("abc", 5)).await.status, 429);
    world.layer.drain().await.unwrap();
    assert!(is_free(&store).await);
}

#[test]
fn a_store_without_keys_and_a_policy_that_cannot_be_kept_are_refused() {
    let store = FaultyStore::without_keys(memory().store);
    let refused = IdempotencyLayer::new(store, Policy::default()).unwrap_err();
    assert_eq!(refused, LayerError::NoKeyBook);
    let hasty = Policy { keep_for: Duration::from_secs(60), ..Policy::default() };
    let refused = IdempotencyLayer::new(memory().store, hasty).unwrap_err();
    assert!(refused.to_string().contains("keeping_less_than_a_day"), "{refused}");
}
