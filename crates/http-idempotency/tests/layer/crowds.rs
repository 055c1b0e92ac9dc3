//! Concurrent requests.

use std::collections::BTreeMap;

use hapax_http_idempotency::Policy;

use crate::world::{StoreAndClock, World, gated_world, memory, on_every_store, pay, until};

const CROWD: usize = 1_000;

on_every_store!(
    a_thousand_at_once_charge_once_and_get_identical_bodies,
    a_thousand_after_a_refusal_still_charge_once,
);

/// S2.33, S2.1: with one request key, identical bodies.
async fn a_thousand_at_once_charge_once_and_get_identical_bodies(stage: StoreAndClock) {
    let world = gated_world(&stage, Policy::default());
    let nodes = [world.other_node(stage.store.clone(), Policy::default()), world];
    let all: Vec<_> = (0..CROWD).map(|n| nodes[n % 2].send_aside(pay("abc", 5))).collect();
    let waits = || nodes.iter().map(|node| node.layer.stats().waits).sum::<u64>();
    until(|| waits() == CROWD as u64 - 1).await;
    nodes[0].shop.gate.add_permits(1);
    let mut fresh = 0;
    let mut body = None;
    for answer in all {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 201);
        fresh += usize::from(!answer.is_replayed());
        assert_eq!(body.get_or_insert(answer.body.clone()), &answer.body);
    }
    assert_eq!(fresh, 1);
    assert_eq!(nodes[0].shop.charges(), 1);
}

/// S2.27: the first to commit wins. The refused one leaves the key to the others.
async fn a_thousand_after_a_refusal_still_charge_once(stage: StoreAndClock) {
    let world = gated_world(&stage, Policy::default());
    world.shop.answers(|number| match number {
        1 => crate::world::answer(429, "{}"),
        _ => crate::world::answer(201, &format!("{{\"charge\":{number}}}")),
    });
    let all: Vec<_> = (0..CROWD).map(|_| world.send_aside(pay("abc", 5))).collect();
    until(|| world.layer.stats().waits == CROWD as u64 - 1).await;
    world.shop.gate.add_permits(2);
    let mut statuses = BTreeMap::<u16, usize>::new();
    for answer in all {
        *statuses.entry(answer.await.unwrap().status.as_u16()).or_default() += 1;
    }
    assert_eq!(statuses, [(201, CROWD - 1), (429, 1)].into());
    assert_eq!(world.shop.charges(), 2);
}

/// The same on several threads, with handlers that do not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_keys_by_many_callers_on_many_threads_charge_once_each() {
    let stage = memory();
    let world = World::new(&stage, Policy::default());
    let nodes = [world.other_node(stage.store.clone(), Policy::default()), world];
    let all: Vec<_> =
        (0..CROWD).map(|n| nodes[n % 2].send_aside(pay(&format!("key-{}", n % 50), 5))).collect();
    let mut bodies = BTreeMap::new();
    for (n, answer) in all.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 201);
        assert_eq!(bodies.entry(n % 50).or_insert(answer.body.clone()), &answer.body);
    }
    assert_eq!(nodes[0].shop.charges(), 50);
}
