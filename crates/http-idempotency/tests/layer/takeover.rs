//! A process crashes between the begin and the answer. The next caller continues the same operation, or gets 409
//! `request_in_doubt`.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::{Clock, SystemClock};
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{RequestId, Timestamp};
use hapax_http_idempotency::{ByHeader, IdempotencyLayer, OnTakeover, Outcome, Policy, limits};

use crate::world::{Shop, StoreAndClock, World, also, answer, gated_world, memory, pay, until};

const HOLD: Duration = limits::DEFAULT_HOLD;

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(work)
}

/// A process that crashes in the middle: its runtime ends, and with it every task. Returns the operation that it began.
fn crash_in_the_middle(stage: &StoreAndClock) -> RequestId {
    on_runtime(async {
        let world = gated_world(stage, Policy::default());
        world.send_aside(pay("abc", 5));
        world.shop.until_began(1).await;
        world.shop.operations()[0].0.unwrap()
    })
}

/// RELIABILITY 4: an unknown outcome is neither stored nor started as a new operation. The next attempt continues the
/// same one.
#[test]
fn an_outcome_nobody_knows_is_taken_over() {
    let stage = memory();
    on_runtime(async {
        let world = World::new(&stage, Policy::default());
        world.shop.answers(|_| {
            let mut response = answer(503, "{}");
            response.extensions_mut().insert(Outcome::Unknown);
            response
        });
        assert_eq!(world.send(pay("abc", 5)).await.status.as_u16(), 503);
        world.shop.answers_status(201);
        assert_eq!(world.send(pay("abc", 5)).await.status.as_u16(), 201);
        let [(Some(first), false), (Some(second), true)] = world.shop.operations()[..] else {
            panic!("the second takes over")
        };
        assert_eq!(first, second);
    });
}

#[test]
fn a_process_that_takes_over_continues_the_same_operation() {
    let stage = memory();
    let id = crash_in_the_middle(&stage);
    on_runtime(async {
        let world = World::new(&stage, Policy::default());
        let early = world.send(also(pay("abc", 5), "prefer", "wait=0")).await;
        assert_eq!(early.code(), "request_in_progress", "nobody knows yet that it is dead");
        stage.clock.advance(HOLD);
        let other = world.send(pay("abc", 6)).await;
        assert_eq!(other.code(), "idempotency_key_conflict", "another request does not take over");
        let answer = world.send(pay("abc", 5)).await;
        assert_eq!(answer.status, 201);
        assert_eq!(world.shop.operations(), [(Some(id), true)]);
        assert!(world.send(pay("abc", 5)).await.is_replayed());
        let stats = world.layer.stats();
        assert_eq!((stats.new, stats.takeovers), (0, 1));
    });
}

#[test]
fn one_that_waits_takes_over_when_the_hold_runs_out() {
    let stage = memory();
    let id = crash_in_the_middle(&stage);
    on_runtime(async {
        let world = World::new(&stage, Policy::default());
        let waiting = world.send_aside(pay("abc", 5));
        until(|| world.layer.stats().waits == 1).await;
        stage.clock.advance(HOLD);
        assert_eq!(waiting.await.unwrap().status, 201);
        assert_eq!(world.shop.operations(), [(Some(id), true)]);
    });
}

#[test]
fn where_effects_ignore_the_operation_retries_get_request_in_doubt() {
    let stage = memory();
    let id = crash_in_the_middle(&stage);
    stage.clock.advance(HOLD);
    on_runtime(async {
        let world = World::new(&stage, Policy { on_takeover: OnTakeover::Refuse, ..Policy::default() });
        for _ in 0..3 {
            let refused = world.send(also(pay("abc", 5), "prefer", "wait=0")).await;
            assert_eq!((refused.status.as_u16(), refused.code().as_str()), (409, "request_in_doubt"));
            assert_eq!(refused.json()["operationId"], id.to_string());
        }
        assert_eq!(world.shop.charges(), 0);
        assert_eq!(world.layer.stats().doubts, 3);
    });
}

/// A secret response of a first try cannot be replayed or created again.
#[test]
fn confidential_operations_are_not_taken_over() {
    let stage = memory();
    let id = crash_in_the_middle(&stage);
    stage.clock.advance(HOLD);
    on_runtime(async {
        let layer = IdempotencyLayer::new(stage.store.clone(), Policy::default()).unwrap();
        let layer = layer.identified_by(ByHeader::authorization()).confidential();
        let world = World::with(layer, Arc::new(Shop::open()));
        for _ in 0..2 {
            let refused = world.send(also(pay("abc", 5), "prefer", "wait=0")).await;
            assert_eq!((refused.status.as_u16(), refused.code().as_str()), (409, "request_in_doubt"));
            assert_eq!(refused.json()["operationId"], id.to_string());
        }
        assert_eq!(world.shop.charges(), 0);
    });
}

/// A refusal never deletes an operation that may have begun: the next attempt finds it.
#[test]
fn a_takeover_that_is_refused_keeps_its_operation() {
    let stage = memory();
    let id = crash_in_the_middle(&stage);
    stage.clock.advance(HOLD);
    on_runtime(async {
        let world = World::new(&stage, Policy::default());
        world.shop.answers_status(429);
        assert_eq!(world.send(pay("abc", 5)).await.status, 429);
        world.shop.answers_status(200);
        assert_eq!(world.send(also(pay("abc", 5), "prefer", "wait=0")).await.status, 200);
        assert_eq!(world.shop.operations(), [(Some(id), true), (Some(id), true)]);
    });
}

/// A hold is renewed while the handler runs, so a slow handler is not taken for a crashed one.
#[tokio::test(start_paused = true)]
async fn a_slow_handler_is_not_taken_for_a_dead_one() {
    let clock = Arc::new(SystemClock::following_tokio(Timestamp::from_millis(1_767_268_800_000)));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let layer = IdempotencyLayer::new(store.clone(), Policy::default()).unwrap();
    let world = World::with(layer.identified_by(ByHeader::authorization()), Arc::new(Shop::gated()));
    let other = world.other_node(store, Policy::default());
    let began_at = clock.now();
    let first = world.send_aside(pay("abc", 5));
    world.shop.until_began(1).await;
    // Each attempt waits ten seconds of paused time.
    while clock.now().since(began_at) < 5 * HOLD {
        assert_eq!(other.send(pay("abc", 5)).await.code(), "request_in_progress");
    }
    world.shop.gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 201);
    assert_eq!(world.shop.charges(), 1);
}

/// A paused process wakes up late: it can store nothing, and its caller gets the stored answer.
#[tokio::test(start_paused = true)]
async fn a_process_that_lost_its_hold_returns_the_stored_answer() {
    let stage = memory();
    let slow = gated_world(&stage, Policy::default());
    slow.shop.answers(|_| answer(200, "late"));
    let first = slow.send_aside(pay("abc", 5));
    slow.shop.until_began(1).await;
    // No renewal happens in between, as if the process had been stopped.
    stage.clock.advance(HOLD);
    let quick = World::new(&stage, Policy::default());
    let taken_over = quick.send(pay("abc", 5)).await;
    assert_eq!(taken_over.status, 201);
    assert_eq!(slow.shop.operations()[0].0, quick.shop.operations()[0].0);
    slow.shop.gate.add_permits(1);
    let late = first.await.unwrap();
    assert_eq!((late.status, &late.body), (taken_over.status, &taken_over.body));
    assert!(late.is_replayed());
    assert_eq!(slow.layer.stats().unsaved, 1);
}

/// If the process that took over has not finished, the late one reports that its answer is not stored.
#[tokio::test(start_paused = true)]
async fn a_process_that_lost_its_hold_to_a_running_one_says_so() {
    let stage = memory();
    let slow = gated_world(&stage, Policy::default());
    let first = slow.send_aside(pay("abc", 5));
    slow.shop.until_began(1).await;
    stage.clock.advance(HOLD);
    let other = gated_world(&stage, Policy::default());
    let second = other.send_aside(pay("abc", 5));
    other.shop.until_began(1).await;
    slow.shop.gate.add_permits(1);
    let late = first.await.unwrap();
    assert_eq!(late.headers["idempotency-stored"], "false");
    other.shop.gate.add_permits(1);
    assert!(!second.await.unwrap().headers.contains_key("idempotency-stored"));
}
