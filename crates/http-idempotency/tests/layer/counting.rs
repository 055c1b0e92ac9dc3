//! Uses of keys are counted in the store.

use std::time::Duration;

use hapax_engine::store::{KeyRef, KeyUsage, RequestKeyStore};
use hapax_http_idempotency::Policy;

use crate::faulty_store::{Fault, FaultyStore, Verb};
use crate::world::{World, anna, key, memory, pay, until};

fn place(text: &str) -> KeyRef {
    KeyRef::Request { scope: anna(), key: key(text) }
}

/// S2.35, S2.36: replays cost no write of their own, and are counted once a second.
#[tokio::test(start_paused = true)]
async fn replays_and_conflicts_are_counted_together_once_a_second() {
    let store = FaultyStore::over(memory().store);
    let world = World::over(store.clone(), Policy::default());
    for _ in 0..5 {
        world.send(pay("abc", 5)).await;
    }
    world.send(pay("abc", 6)).await;
    assert_eq!(store.calls(Verb::Count), 0);
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    assert_eq!(store.calls(Verb::Count), 1);
    assert_eq!(store.find_key_usage(&place("abc")).await.unwrap(), KeyUsage { replays: 4, conflicts: 1 });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(store.calls(Verb::Count), 1, "an idle layer writes nothing");
}

#[tokio::test(start_paused = true)]
async fn counts_wait_for_a_store_that_is_away() {
    let store = FaultyStore::over(memory().store);
    let world = World::over(store.clone(), Policy::default());
    store.plan(Verb::Count, [Fault::Away, Fault::Away]);
    world.send(pay("abc", 5)).await;
    world.send(pay("abc", 5)).await;
    assert!(world.layer.flush().await.is_err());
    world.send(pay("abc", 5)).await;
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(store.find_key_usage(&place("abc")).await.unwrap(), KeyUsage { replays: 2, conflicts: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_thousand_keys_are_counted_without_waiting_for_the_second() {
    let store = FaultyStore::over(memory().store);
    let world = World::over(store.clone(), Policy::default());
    for n in 0..1_000 {
        let key = format!("key-{n}");
        world.send(pay(&key, 5)).await;
        world.send(pay(&key, 5)).await;
    }
    until(|| store.calls(Verb::Count) == 1).await;
    world.layer.flush().await.unwrap();
    assert_eq!(store.find_key_usage(&place("key-999")).await.unwrap(), KeyUsage { replays: 1, conflicts: 0 });
}
