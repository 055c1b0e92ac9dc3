//! Runs that wait go on when what they wait for is there: not without end before, and not never after.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hapax_engine::clock::{Clock, ManualClock};
use hapax_engine::model::RunStatus;
use hapax_engine::runtime::{Point, PointWatcher};
use hapax_engine::{Ctx, Engine, EngineOptions};
use support::Bench;

/// Invariant 48: a node whose wall clock is wrong neither asks the store without end nor oversleeps.
#[tokio::test]
async fn a_wrong_wall_clock_on_a_node_changes_nothing() {
    let hour = Duration::from_secs(3600);
    let bench = Bench::new();
    let ahead = Arc::new(ManualClock::new(bench.clock.now().plus(hour)));
    let claims = Arc::new(AtomicU32::new(0));
    let counted = claims.clone();
    let watcher = PointWatcher::new(move |point| {
        counted.fetch_add(u32::from(*point == Point::BeforeClaim), Ordering::SeqCst);
    });
    let options = EngineOptions { watcher: Some(watcher), ..EngineOptions::default() };
    let engine = Engine::launch(bench.store.clone(), ahead.clone(), options).unwrap();
    let sleeper = |ctx: Ctx, _: ()| async move { ctx.sleep(Duration::from_secs(60)).await };
    engine.register("sleeper", sleeper).unwrap();
    let run = engine.start("sleeper", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;

    let before = claims.load(Ordering::SeqCst);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let asked = claims.load(Ordering::SeqCst) - before;
    assert!(asked < 10, "asked {asked} times while the timer was a minute away");

    bench.clock.advance(Duration::from_secs(61));
    ahead.advance(Duration::from_secs(61));
    bench.until(run.id(), RunStatus::Completed).await;
    bench.check().await;
}

/// Killed before its loops had their first turn, an engine still leaves nothing behind.
#[tokio::test]
async fn a_killed_engine_leaves_nothing_running() {
    let bench = Bench::new();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let engine = bench.restart();
    assert!(alive() > before);
    engine.kill();
    bench.eventually("its tasks are gone", async || (alive() == before).then_some(())).await;
}

/// A promise that timed out stays so: the retried run fails again, and does not write the same for ever.
#[tokio::test]
async fn a_retried_run_whose_promise_timed_out_comes_to_an_end() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        ctx.create_promise::<()>("answer").timeout(Duration::from_secs(1)).await
    };
    bench.engine.register("waits", workflow).unwrap();
    let run = bench.engine.start("waits", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.clock.advance(Duration::from_secs(2));
    bench.until(run.id(), RunStatus::Failed).await;
    run.retry(None).await.unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    bench.check().await;
}
