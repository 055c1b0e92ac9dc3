//! Callers that disconnect: while the service works, while they wait, and while the store is asked.

use hapax_engine::store::RequestKeyStore;
use hapax_http_idempotency::Policy;

use crate::faulty_store::{Fault, FaultyStore, Verb};
use crate::world::{StoreAndClock, World, anna, gated_world, key, memory, on_every_store, pay, until};

on_every_store!(
    a_caller_that_goes_away_stops_nothing_and_gets_the_answer_when_it_comes_back,
    one_that_stops_waiting_takes_nothing_with_it,
    a_server_that_stops_waits_for_what_is_in_flight,
);

/// S2.1.
async fn a_caller_that_goes_away_stops_nothing_and_gets_the_answer_when_it_comes_back(stage: StoreAndClock) {
    let world = gated_world(&stage, Policy::default());
    let first = world.send_aside(pay("abc", 5));
    world.shop.until_began(1).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let again = world.send_aside(pay("abc", 5));
    until(|| world.layer.stats().waits == 1).await;
    world.shop.gate.add_permits(1);
    let again = again.await.unwrap();
    assert_eq!(again.json()["charge"], 1);
    assert!(again.is_replayed());
    assert_eq!(world.shop.charges(), 1);
}

async fn one_that_stops_waiting_takes_nothing_with_it(stage: StoreAndClock) {
    let world = gated_world(&stage, Policy::default());
    let first = world.send_aside(pay("abc", 5));
    world.shop.until_began(1).await;
    let waiting = world.send_aside(pay("abc", 5));
    until(|| world.layer.stats().waits == 1).await;
    waiting.abort();
    world.shop.gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 201);
}

async fn a_server_that_stops_waits_for_what_is_in_flight(stage: StoreAndClock) {
    let world = gated_world(&stage, Policy::default());
    world.send_aside(pay("abc", 5)).abort();
    let first = world.send_aside(pay("def", 5));
    world.shop.until_began(1).await;
    first.abort();
    assert!(world.layer.in_flight() >= 1);
    let draining = tokio::spawn({
        let layer = world.layer.clone();
        async move { layer.drain().await }
    });
    world.shop.gate.add_permits(10);
    draining.await.unwrap().unwrap();
    assert_eq!(world.layer.in_flight(), 0);
    assert!(world.send(pay("def", 5)).await.is_replayed());
}

/// An abandoned hold would make the retry wait for nothing.
#[tokio::test(start_paused = true)]
async fn one_that_goes_away_before_anything_began_leaves_the_key_free() {
    let store = FaultyStore::over(memory().store);
    let world = World::over(store.clone(), Policy::default());
    store.plan(Verb::Begin, [Fault::Gated]);
    let first = world.send_aside(pay("abc", 5));
    until(|| store.calls(Verb::Begin) == 1).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    store.gate.add_permits(1);
    until(|| store.calls(Verb::Finish) == 1).await;
    tokio::task::yield_now().await;
    assert_eq!(store.find_request(&anna(), &key("abc")).await.unwrap(), None);
    assert_eq!(world.shop.charges(), 0);
    assert_eq!(world.send(pay("abc", 5)).await.json()["charge"], 1);
}
