//! Waiting runs continue exactly when their event arrives: no busy polling before, no lost wake-up after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::Bench;
use hapax_engine::clock::{Clock, ManualClock, SystemClock};
use hapax_engine::ctx::StepFuture;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{RunStatus, StepStatus, Timestamp};
use hapax_engine::runtime::{CrashPoint, CrashPointWatcher};
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};

/// Invariant 48: a node with a wrong wall clock neither polls the store without end nor oversleeps.
#[tokio::test]
async fn a_wrong_wall_clock_on_a_node_changes_nothing() {
    let hour = Duration::from_secs(3600);
    let bench = Bench::new();
    let ahead = Arc::new(ManualClock::new(bench.clock.now().plus(hour)));
    let claims = Arc::new(AtomicU32::new(0));
    let counted = claims.clone();
    let watcher = CrashPointWatcher::new(move |point| {
        counted.fetch_add(u32::from(*point == CrashPoint::BeforeClaim), Ordering::SeqCst);
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

/// An engine that is killed before the first turn of its loops leaves nothing behind.
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

/// A promise that timed out stays so: the retried run fails again and does not write the same record in a
/// loop.
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

/// Operators see that a step is running, whichever attempt it is. An attempt that was shown counts if it
/// crashes.
#[tokio::test]
async fn a_second_try_that_takes_long_is_seen_running() {
    let bench = Bench::new();
    let (open, gate) = tokio::sync::watch::channel(false);
    let workflow = move |ctx: Ctx, _: ()| {
        let gate = gate.clone();
        async move {
            ctx.step("slow", |attempt| {
                let mut gate = gate.clone();
                async move {
                    if attempt.number() == 1 {
                        return Err(Failure::retryable("not yet"));
                    }
                    gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable)
                }
            })
            .await
        }
    };
    bench.engine.register("slow", workflow).unwrap();
    let run = bench.engine.start("slow", &()).await.unwrap();
    bench.until_step(run.id(), "slow", StepStatus::Running).await;
    assert_eq!(bench.engine.get_log(run.id()).await.unwrap().steps[0].attempts, 2);
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    bench.check().await;
}

/// A shielded run past its deadline waits for its own timers, not for the past deadline.
#[tokio::test]
async fn a_shielded_run_past_its_deadline_sleeps_in_peace() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move { ctx.shield(ctx.sleep(Duration::from_secs(60))).await };
    bench.engine.register("shielded", workflow).unwrap();
    let run = bench.engine.start("shielded", &()).deadline(Duration::from_secs(1)).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.clock.advance(Duration::from_secs(2));
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let version = run.view().await.unwrap().head.version.get();
    assert!(version < 20, "it was driven on again and again, up to version {version}");
    bench.clock.advance(Duration::from_secs(60));
    bench
        .eventually("it has ended", async || {
            run.view().await.unwrap().head.status().is_closed().then_some(())
        })
        .await;
    bench.check().await;
}

/// While one branch works for long, the timer of another still fires.
#[tokio::test(start_paused = true)]
async fn a_branch_wakes_on_time_while_another_tries_again() {
    let clock = Arc::new(SystemClock::following_tokio(Timestamp::EPOCH));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    // Neither a recorded start nor a renewal wakes the driver.
    let hour = Duration::from_secs(3600);
    let options = EngineOptions { mark_after: hour, lease_for: hour, ..EngineOptions::default() };
    let engine = Engine::launch(store, clock.clone(), options).unwrap();
    let workflow = move |ctx: Ctx, _: ()| async move {
        let slow = async {
            let tries = ctx.step("slow", |attempt| async move {
                if attempt.number() == 1 {
                    return Err(Failure::retryable("not yet").retry_after(Duration::from_secs(1)));
                }
                tokio::time::sleep(Duration::from_secs(600)).await;
                Ok(0)
            });
            tries.await
        };
        let prompt = async {
            ctx.sleep(Duration::from_secs(5)).await?;
            Ok(ctx.now().await?.as_millis())
        };
        let branches: Vec<StepFuture<'_, i64>> = vec![Box::pin(slow), Box::pin(prompt)];
        ctx.join_all(branches).await.pop().expect("two branches")
    };
    engine.register("branches", workflow).unwrap();
    let woke_at: i64 = engine.start("branches", &()).await.unwrap().result().await.unwrap();
    assert!((5_000..6_000).contains(&woke_at), "the sleep of 5 s ended at {woke_at} ms");
}

/// Invariant 41: an arrival during a shutdown wakes its run later.
#[tokio::test]
async fn a_signal_that_comes_while_the_engine_shuts_down_wakes_its_run() {
    let bench = Bench::new();
    let (open, gate) = tokio::sync::watch::channel(false);
    let workflow = move |ctx: Ctx, _: ()| {
        let gate = gate.clone();
        async move {
            let work = async {
                let wait = |_| {
                    let mut gate = gate.clone();
                    async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
                };
                ctx.step("work", wait).await
            };
            let signal = async { ctx.signal::<()>("go").await };
            let branches: Vec<StepFuture<'_, ()>> = vec![Box::pin(work), Box::pin(signal)];
            ctx.join_all(branches).await.into_iter().collect::<Result<(), Failure>>()
        }
    };
    bench.engine.register("both", workflow.clone()).unwrap();
    let run = bench.engine.start("both", &()).await.unwrap();
    bench.until_step(run.id(), "work", StepStatus::Running).await;
    let stopping = bench.engine.clone();
    let stopped = tokio::spawn(async move { stopping.shutdown(Duration::from_secs(60)).await });
    tokio::task::yield_now().await;
    run.signal("go", &(), None).await.unwrap();
    tokio::task::yield_now().await;
    open.send(true).unwrap();
    stopped.await.unwrap().unwrap();
    bench.check().await;

    let second = bench.restart();
    second.register("both", workflow).unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    bench.check().await;
}

/// Regression: a caller that stopped waiting for a run that ended elsewhere stayed registered.
#[tokio::test]
async fn a_caller_that_stops_waiting_for_a_run_leaves_nothing_behind() {
    let bench = Bench::new();
    let asleep = |ctx: Ctx, ()| async move {
        ctx.sleep(Duration::from_secs(3600)).await?;
        Ok::<_, Failure>(())
    };
    bench.engine.register("asleep", asleep).unwrap();
    let run = bench.engine.start("asleep", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    for _ in 0..3 {
        tokio::select! {
            biased;
            ended = run.wait_for_end() => panic!("{ended:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(bench.engine.awaited_runs(), 0);
}
