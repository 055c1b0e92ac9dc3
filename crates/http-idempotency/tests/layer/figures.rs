//! Benchmarks of the layer, to run by hand: `cargo test -p hapax-http-idempotency --release -- --ignored --nocapture
//! figures`.

use std::sync::Arc;
use std::time::Instant;

use hapax_engine::clock::SystemClock;
use hapax_engine::memory::MemoryStore;
use hapax_http_idempotency::Policy;

use crate::world::{World, pay, with_headers};

const REQUESTS: usize = 20_000;

#[tokio::test]
#[ignore = "prints figures and asserts nothing about them"]
async fn new_requests_replays_and_passed_ones_per_second() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let world = World::over(store, Policy::default());
    for (what, is_keyed) in [("without a key", false), ("new", true), ("replayed", true)] {
        let began = Instant::now();
        for n in 0..REQUESTS {
            let answer = match is_keyed {
                true => world.send(pay(&format!("key-{n}"), 5)).await,
                false => world.send(with_headers("POST", "/payments", &[], "{\"amount\":5}")).await,
            };
            assert_eq!(answer.status, 201);
        }
        println!("{what}: {:.0} requests per second", REQUESTS as f64 / began.elapsed().as_secs_f64());
    }
    assert_eq!(world.layer.stats().replays, REQUESTS as u64);
}
