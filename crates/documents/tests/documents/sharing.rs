//! Several engines on one store run documents as a single engine would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{World, steps};
use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::{Engine, EngineOptions};
use serde_json::json;

/// S3.22, S0.20, S0.21, S0.26, S0.27, S0.39: whichever engine picks up a run, each step runs once, and the losers
/// change nothing.
#[tokio::test]
async fn two_engines_run_each_step_once() {
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let world = World::default();
    let document = steps(json!([
        { "name": "one", "type": "task", "task": "one", "input": { "a": "{{ input.n }}" } },
        { "name": "pause", "type": "wait", "for": "1s" },
        { "name": "both", "type": "parallel", "branches": [
            [{ "name": "two", "type": "task", "task": "two", "effect": "claimed" }],
            [{ "name": "three", "type": "http", "method": "POST", "url": "https://x/three" }],
        ] },
    ]));
    let launch = || {
        // Neither engine has room for all runs at once.
        let options = EngineOptions { max_active: 5, ..EngineOptions::default() };
        let engine = Engine::launch(store.clone(), clock.clone(), options).unwrap();
        hapax_documents::register(&engine, document.clone(), world.echo()).unwrap();
        engine
    };
    let engines = [launch(), launch()];
    let mut runs = Vec::new();
    for n in 0..20 {
        // Delayed, so that either engine may claim it.
        let start = engines[n % 2].start("tried", &json!({ "n": n })).delay(Duration::from_millis(10));
        runs.push(start.await.unwrap());
    }
    let mut is_open = true;
    for _ in 0..2_000 {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_millis(100));
        is_open = false;
        for run in &runs {
            is_open |= !run.view().await.unwrap().head.status().is_closed();
        }
        if !is_open {
            break;
        }
    }
    assert!(!is_open, "all runs end");
    let mut by_key: BTreeMap<String, usize> = BTreeMap::new();
    for asked in world.asked() {
        *by_key.entry(asked.key).or_default() += 1;
    }
    assert_eq!(by_key.len(), 60);
    assert!(by_key.values().all(|times| *times == 1), "{by_key:?}");
    let taken: Vec<u64> = engines.iter().map(|engine| engine.stats().effects).collect();
    assert!(taken.iter().all(|effects| *effects > 0), "both took part: {taken:?}");
    let report = hapax_engine::fsck::fsck(&*store).await.unwrap();
    assert!(report.is_clean(), "{:#?}", report.violations);
}
