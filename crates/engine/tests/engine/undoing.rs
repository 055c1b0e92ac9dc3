//! What was done is undone, whenever a cancellation comes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::support::cut_off::CutOff;
use crate::support::{Bench, Log};
use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{Asked, RunStatus, StepStatus};
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
use tokio::sync::watch;

/// Books `name`, and says so when that is undone; the undoing waits at the gate.
async fn book(ctx: &Ctx, log: &Log, name: &str, gate: &watch::Receiver<bool>) -> Result<String, Failure> {
    let (undo, gate) = (log.clone(), gate.clone());
    log.step(ctx, name)
        .compensate(move |_, booked: String| {
            undo.add(format!("undo {booked}"));
            let mut gate = gate.clone();
            async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
        })
        .await
}

#[tokio::test]
async fn a_run_that_fails_while_it_is_asked_to_cancel_is_undone() {
    let bench = Bench::new();
    let log = Log::default();
    let (open, gate) = watch::channel(false);
    let kept = log.clone();
    bench
        .engine
        .register("trip", move |ctx: Ctx, _: ()| {
            let (log, gate) = (kept.clone(), gate.clone());
            async move {
                book(&ctx, &log, "flight", &gate).await?;
                let wait = |_| {
                    let mut gate = gate.clone();
                    async move {
                        let _ = gate.wait_for(|open| *open).await;
                        Err::<(), _>(Failure::permanent("sold out"))
                    }
                };
                ctx.step("hotel", wait).await
            }
        })
        .unwrap();
    let run = bench.engine.start("trip", &()).await.unwrap();
    bench.until_step(run.id(), "hotel", StepStatus::Running).await;
    run.cancel("changed my mind").await.unwrap();
    for _ in 0..100 {
        // The driver must have heard of it before the step ends.
        tokio::task::yield_now().await;
    }
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    assert_eq!(log.read(), ["do flight", "undo flight"]);
    bench.check().await;
}

#[tokio::test]
async fn a_cancellation_in_the_middle_of_undoing_a_scope_undoes_the_rest() {
    let bench = Bench::new();
    let log = Log::default();
    let (open, gate) = watch::channel(false);
    let kept = log.clone();
    bench
        .engine
        .register("trip", move |ctx: Ctx, _: ()| {
            let (log, gate) = (kept.clone(), gate.clone());
            async move {
                let (log, gate) = (&log, &gate);
                let scope = ctx.scope(|ctx| async move {
                    book(&ctx, log, "flight", gate).await?;
                    book(&ctx, log, "hotel", gate).await?;
                    Err::<(), _>(Failure::permanent("no car"))
                });
                let _ = scope.await;
                ctx.sleep(Duration::from_secs(3600)).await
            }
        })
        .unwrap();
    let run = bench.engine.start("trip", &()).await.unwrap();
    bench.until_step(run.id(), "hotel~undo", StepStatus::Running).await;
    run.cancel("changed my mind").await.unwrap();
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    assert_eq!(log.read(), ["do flight", "do hotel", "undo hotel", "undo flight"]);
    bench.check().await;
}

/// Invariant 45: a cancellation once acknowledged is not forgotten, whatever was asked before it.
#[tokio::test]
async fn a_cancellation_that_follows_a_pause_is_carried_out() {
    let bench = Bench::new();
    let (open, gate) = watch::channel(false);
    let workflow = move |ctx: Ctx, _: ()| {
        let gate = gate.clone();
        async move {
            let wait = |_| {
                let mut gate = gate.clone();
                async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
            };
            ctx.step("slow", wait).await?;
            ctx.sleep(Duration::from_secs(3600)).await
        }
    };
    bench.engine.register("slow", workflow).unwrap();
    let run = bench.engine.start("slow", &()).await.unwrap();
    bench.until_step(run.id(), "slow", StepStatus::Running).await;
    for wish in ["pause", "cancel"] {
        match wish {
            "pause" => run.pause().await.unwrap(),
            _ => run.cancel("enough").await.unwrap(),
        };
        for _ in 0..100 {
            // The driver must have heard of the one before the other comes.
            tokio::task::yield_now().await;
        }
    }
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    bench.check().await;
}

/// What a step waits at until a test lets it go on.
fn gated(gate: &watch::Receiver<bool>) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
    let mut gate = gate.clone();
    async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
}

/// Lets the driver hear of what was just asked.
async fn let_it_hear() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Issue 16 C: the run paused after its resume was acknowledged, and stayed so.
#[tokio::test]
async fn a_resume_that_follows_a_pause_in_the_middle_of_a_step_is_carried_out() {
    for hears_the_pause in [true, false] {
        let bench = Bench::new();
        let (open, gate) = watch::channel(false);
        let workflow = move |ctx: Ctx, _: ()| {
            let gate = gate.clone();
            async move {
                ctx.step("slow", |_| gated(&gate)).await?;
                ctx.step("next", |_| async { Ok::<_, Failure>(()) }).await
            }
        };
        bench.engine.register("slow", workflow).unwrap();
        let run = bench.engine.start("slow", &()).await.unwrap();
        bench.until_step(run.id(), "slow", StepStatus::Running).await;
        run.pause().await.unwrap();
        if hears_the_pause {
            let_it_hear().await;
        }
        let resumed = run.resume().await.unwrap();
        assert_eq!(resumed.asked, Asked::Nothing, "the answer says that no pause is pending");
        open.send(true).unwrap();
        bench.until(run.id(), RunStatus::Completed).await;
        bench.check().await;
    }
}

/// Issue 16 C: the last step is in flight when the cancellation is acknowledged.
#[tokio::test]
async fn a_cancellation_during_the_last_step_undoes_what_was_done() {
    for hears_it in [true, false] {
        let bench = Bench::new();
        let log = Log::default();
        let (open, gate) = watch::channel(false);
        let kept = log.clone();
        bench
            .engine
            .register("trip", move |ctx: Ctx, _: ()| {
                let (log, gate, open) = (kept.clone(), gate.clone(), watch::channel(true).1);
                async move {
                    book(&ctx, &log, "flight", &open).await?;
                    let undo = log.clone();
                    ctx.step("hotel", |_| gated(&gate))
                        .compensate(move |_, ()| {
                            undo.add("undo hotel".into());
                            async { Ok::<_, Failure>(()) }
                        })
                        .await
                }
            })
            .unwrap();
        let run = bench.engine.start("trip", &()).await.unwrap();
        bench.until_step(run.id(), "hotel", StepStatus::Running).await;
        let asked = run.cancel("changed my mind").await.unwrap();
        assert_eq!(asked.asked, Asked::Cancel);
        if hears_it {
            let_it_hear().await;
        }
        open.send(true).unwrap();
        bench.until(run.id(), RunStatus::Cancelled).await;
        assert_eq!(log.read(), ["do flight", "undo hotel", "undo flight"]);
        bench.check().await;
    }
}

/// The write that completes the run is on its way when another node acknowledges the cancellation.
#[tokio::test]
async fn a_cancellation_that_commits_before_the_completion_wins() {
    for continues in [false, true] {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let line = CutOff::new(store.clone());
        let engine = Engine::launch(line.clone(), clock.clone(), EngineOptions::default()).unwrap();
        let bench = Bench { engine, clock: clock.clone(), store: store.clone() };
        let log = Log::default();
        let kept = log.clone();
        let (reached, at_end) = watch::channel(false);
        let cut = line.clone();
        bench
            .engine
            .register("trip", move |ctx: Ctx, again: bool| {
                let (log, reached, cut) = (kept.clone(), reached.clone(), cut.clone());
                async move {
                    book(&ctx, &log, "flight", &watch::channel(true).1).await?;
                    cut.hold(true);
                    reached.send_replace(true);
                    match again {
                        true => ctx.continue_as_new(&false),
                        false => Ok(()),
                    }
                }
            })
            .unwrap();
        let other = Engine::launch(store.clone(), clock, EngineOptions::default()).unwrap();
        let run = bench.engine.start("trip", &continues).await.unwrap();
        at_end.clone().wait_for(|reached| *reached).await.unwrap();
        let_it_hear().await;
        let asked = other.cancel(run.id(), "changed my mind").await.unwrap();
        assert_eq!(asked.status(), RunStatus::Running, "it came before the completion");
        line.hold(false);
        bench.until(run.id(), RunStatus::Cancelled).await;
        assert_eq!(log.read(), ["do flight", "undo flight"]);
        bench.check().await;
    }
}

/// A pause that was acknowledged before the end is not dropped either: the run ends after it is resumed.
#[tokio::test]
async fn a_pause_during_the_last_step_holds_the_end_back() {
    let bench = Bench::new();
    let (open, gate) = watch::channel(false);
    let workflow = move |ctx: Ctx, _: ()| {
        let gate = gate.clone();
        async move { ctx.step("slow", |_| gated(&gate)).await }
    };
    bench.engine.register("slow", workflow).unwrap();
    let run = bench.engine.start("slow", &()).await.unwrap();
    bench.until_step(run.id(), "slow", StepStatus::Running).await;
    run.pause().await.unwrap();
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Paused).await;
    bench.until_step(run.id(), "slow", StepStatus::Completed).await;
    run.resume().await.unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    bench.check().await;
}
