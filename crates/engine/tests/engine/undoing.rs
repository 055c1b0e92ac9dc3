//! What was done is undone, whenever a cancellation comes.

use std::time::Duration;

use crate::support::{Bench, Log};
use hapax_engine::model::{RunStatus, StepStatus};
use hapax_engine::{Ctx, Failure};
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
