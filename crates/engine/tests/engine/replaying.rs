//! A run rebuilt from its records has the same state, whatever has arrived since.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::Bench;
use hapax_engine::ctx::StepFuture;
use hapax_engine::model::{RunStatus, StepStatus};
use hapax_engine::{Ctx, Failure};

/// A promise against a timer, and another wait after it.
async fn race(ctx: Ctx, _: ()) -> Result<(usize, String), Failure> {
    let promise = ctx.create_promise::<String>("answer");
    let branches: Vec<StepFuture<'_, String>> = vec![
        Box::pin(async { promise.await }),
        Box::pin(async { ctx.sleep(Duration::from_secs(600)).await.map(|()| "late".to_string()) }),
    ];
    let (first, value) = ctx.select(branches).await?;
    ctx.create_promise::<()>("hold").await?;
    Ok((first, value?))
}

#[tokio::test]
async fn a_choice_that_falls_while_nobody_holds_the_run_is_made_after_the_replay() {
    let bench = Bench::new();
    bench.engine.register("race", race).unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.resolve_promise(&format!("{}:answer", run.id()), "yes").await.unwrap();
    second.register("race", race).unwrap();
    bench.until_promise(&format!("{}:hold", run.id())).await;
    second.resolve_promise(&format!("{}:hold", run.id()), &()).await.unwrap();
    let outcome = second.run(run.id()).await.unwrap().result::<(usize, String)>().await.unwrap();
    assert_eq!(outcome, (0, "yes".to_string()));
    bench.check().await;
}

#[tokio::test]
async fn a_choice_of_an_earlier_branch_is_replayed_past_what_the_later_ones_have_on_record() {
    let bench = Bench::new();
    bench.engine.register("race", race).unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.resolve_promise(&format!("{}:answer", run.id()), "yes").await.unwrap();
    bench.until_promise(&format!("{}:hold", run.id())).await;
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("race", race).unwrap();
    second.resolve_promise(&format!("{}:hold", run.id()), &()).await.unwrap();
    let outcome = second.run(run.id()).await.unwrap().result::<(usize, String)>().await.unwrap();
    assert_eq!(outcome, (0, "yes".to_string()));
    bench.check().await;
}

/// The branch after one that finishes at once never began, so its sleep is not the recorded one.
#[tokio::test]
async fn a_branch_that_never_had_a_turn_does_not_get_one_in_a_replay() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        let branches: Vec<StepFuture<'_, u32>> = vec![
            Box::pin(async { ctx.step("at-once", |_| async { Ok::<_, Failure>(1) }).await }),
            Box::pin(async { ctx.sleep(Duration::from_secs(600)).await.map(|()| 2) }),
        ];
        let (_, value) = ctx.select(branches).await?;
        ctx.sleep(Duration::from_secs(5)).await?;
        value
    };
    bench.engine.register("race", workflow).unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("race", workflow).unwrap();
    assert_eq!(second.run(run.id()).await.unwrap().result::<u32>().await.unwrap(), 1);
    bench.check().await;
}

#[tokio::test]
async fn changed_code_starts_no_child_before_it_is_found_out() {
    let bench = Bench::new();
    let before = |ctx: Ctx, _: ()| async move { ctx.signal::<()>("go").await };
    let after = |ctx: Ctx, _: ()| async move { ctx.child::<_, ()>("other", &()).await };
    bench.engine.register("order", before).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("other", before).unwrap();
    second.register("order", after).unwrap();
    second.signal(run.id(), "go", &(), None).await.unwrap();
    let error = second.run(run.id()).await.unwrap().result::<()>().await.unwrap_err().to_string();
    assert!(error.contains("DeterminismViolation"), "{error}");
    assert_eq!(bench.count_runs().await, 1, "nothing of what the changed code wanted was written");
    bench.check().await;
}

/// The code handles the failure of the first step. The last step fails the run until it is repaired.
#[tokio::test]
async fn a_retry_leaves_alone_a_failure_that_was_dealt_with() {
    let bench = Bench::new();
    let broken = Arc::new(AtomicBool::new(true));
    let seen = broken.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let broken = seen.clone();
        async move {
            let tried = ctx.step("try", |_| async { Err::<u32, _>(Failure::permanent("no")) }).await;
            let stood_in = ctx.step("stand-in", |_| async { Ok::<_, Failure>(1) }).await?;
            let is_broken = broken.load(Ordering::SeqCst);
            let last = ctx.step("last", |_| async move {
                if is_broken { Err(Failure::permanent("not yet")) } else { Ok(2) }
            });
            Ok::<_, Failure>((tried.is_err(), stood_in, last.await?))
        }
    };
    bench.engine.register("careful", workflow).unwrap();
    let run = bench.engine.start("careful", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    broken.store(false, Ordering::SeqCst);
    run.retry(None).await.unwrap();
    assert_eq!(run.result::<(bool, u32, u32)>().await.unwrap(), (true, 1, 2));
    bench.check().await;
}

/// A retry drops the record that a losing branch waited for a child. The branch must not start another.
#[tokio::test]
async fn a_branch_that_lost_starts_nothing_in_a_replay() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        let branches: Vec<StepFuture<'_, ()>> = vec![
            Box::pin(async { ctx.child::<_, ()>("idle", &()).await }),
            Box::pin(async { ctx.sleep(Duration::from_secs(1)).await }),
        ];
        ctx.select(branches).await?.1?;
        Err::<(), _>(Failure::permanent("no"))
    };
    bench.engine.register("race", workflow).unwrap();
    bench.engine.register("idle", |ctx: Ctx, _: ()| async move { ctx.signal::<()>("never").await }).unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.clock.advance(Duration::from_secs(2));
    bench.until(run.id(), RunStatus::Failed).await;
    run.retry(None).await.unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    assert_eq!(bench.count_runs().await, 2, "the run and its one child");
    bench.check().await;
}

/// The losing wait is shown as cancelled, and its arrivals do not count as lost wake-ups.
#[tokio::test]
async fn a_losing_branch_gives_up_its_wait() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        let promise = ctx.create_promise::<()>("answer");
        let branches: Vec<StepFuture<'_, ()>> = vec![
            Box::pin(async {
                let _ = promise.await;
                // The losing branch never gets here, not even in a replay.
                ctx.sleep(Duration::from_secs(1)).await
            }),
            Box::pin(async { ctx.sleep(Duration::from_secs(5)).await }),
        ];
        ctx.select(branches).await?.1?;
        ctx.sleep(Duration::from_secs(600)).await
    };
    bench.engine.register("race", workflow).unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.clock.advance(Duration::from_secs(6));
    bench.until_step(run.id(), "answer", StepStatus::Cancelled).await;
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.resolve_promise(&format!("{}:answer", run.id()), &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.check().await;

    bench.engine.kill();
    let second = bench.restart();
    second.register("race", workflow).unwrap();
    bench.clock.advance(Duration::from_secs(600));
    second.run(run.id()).await.unwrap().result::<()>().await.unwrap();
    bench.check().await;
}

/// Branches that share every name and progress at their own pace, under a combinator without support for
/// replays.
#[tokio::test]
async fn side_by_side_each_branch_finds_what_is_its_own() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        let branch = async |mine: u64| {
            // The second branch overtakes the first here.
            ctx.create_promise::<()>(&format!("open-{mine}")).await?;
            let began = ctx.now().await?;
            let done = ctx.step("work", move |_| async move { Ok::<_, Failure>(mine) }).await?;
            ctx.sleep(Duration::from_secs(mine)).await?;
            let slept = ctx.now().await?.since(began).as_secs();
            Ok::<_, Failure>((done, slept >= mine))
        };
        let (first, second) = tokio::join!(branch(3_600), branch(60));
        ctx.create_promise::<()>("hold").await?;
        Ok::<_, Failure>((first?, second?))
    };
    bench.engine.register("both", workflow).unwrap();
    let run = bench.engine.start("both", &()).await.unwrap();
    let promise = |name: &str| format!("{}:{name}", run.id());
    bench.until_promise(&promise("open-60")).await;
    bench.engine.resolve_promise(&promise("open-60"), &()).await.unwrap();
    bench.until_step(run.id(), "sleep", StepStatus::Waiting).await;
    bench.engine.resolve_promise(&promise("open-3600"), &()).await.unwrap();
    bench.until_step(run.id(), "sleep#2", StepStatus::Waiting).await;
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("both", workflow).unwrap();
    bench.clock.advance(Duration::from_secs(60));
    bench.until_step(run.id(), "sleep", StepStatus::Completed).await;
    bench.clock.advance(Duration::from_secs(3_600));
    bench.until_promise(&promise("hold")).await;
    second.kill();
    let third = bench.restart();
    third.register("both", workflow).unwrap();
    third.resolve_promise(&promise("hold"), &()).await.unwrap();
    let outcome = third.run(run.id()).await.unwrap().result::<((u64, bool), (u64, bool))>().await.unwrap();
    assert_eq!(outcome, ((3_600, true), (60, true)));
    bench.check().await;
}

/// If a step returned its outcome in the turn of its request, a replay could not distinguish it from a later
/// one.
#[tokio::test]
async fn a_signal_that_was_there_before_is_taken_in_its_order() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        let early = async {
            ctx.signal::<()>("early").await?;
            ctx.step("work", |_| async { Ok::<_, Failure>(1) }).await
        };
        let late = async { ctx.step("work", |_| async { Ok::<_, Failure>(2) }).await };
        let (early, late) = tokio::join!(early, late);
        ctx.create_promise::<()>("hold").await?;
        Ok::<_, Failure>((early?, late?))
    };
    bench.engine.register("mail", workflow).unwrap();
    let run = bench.engine.start("mail", &()).delay(Duration::from_secs(5)).await.unwrap();
    bench.engine.signal(run.id(), "early", &(), None).await.unwrap();
    bench.clock.advance(Duration::from_secs(6));
    bench.until_promise(&format!("{}:hold", run.id())).await;
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("mail", workflow).unwrap();
    second.resolve_promise(&format!("{}:hold", run.id()), &()).await.unwrap();
    let outcome = second.run(run.id()).await.unwrap().result::<(u32, u32)>().await.unwrap();
    assert_eq!(outcome, (1, 2));
    bench.check().await;
}

#[tokio::test]
async fn code_that_asks_in_another_order_is_found_out() {
    let bench = Bench::new();
    let asks = |names: [&'static str; 2]| {
        move |ctx: Ctx, _: ()| async move {
            for name in names {
                ctx.step(name, |_| async { Ok::<_, Failure>(()) }).await?;
            }
            ctx.signal::<()>("never").await
        }
    };
    bench.engine.register("order", asks(["charge", "ship"])).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("order", asks(["ship", "charge"])).unwrap();
    second.signal(run.id(), "never", &(), None).await.unwrap();
    let error = second.run(run.id()).await.unwrap().result::<()>().await.unwrap_err().to_string();
    assert!(error.contains("DeterminismViolation") && error.contains("charge"), "{error}");
    bench.check().await;
}

/// Another step handles the failure of the first. Then the code itself fails the run.
#[tokio::test]
async fn a_retry_of_a_run_that_failed_by_its_own_code_keeps_its_steps() {
    let bench = Bench::new();
    let broken = Arc::new(AtomicBool::new(true));
    let seen = broken.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let broken = seen.clone();
        async move {
            let tried = ctx.step("try", |_| async { Err::<u32, _>(Failure::permanent("no")) }).await;
            ctx.sleep(Duration::from_secs(1)).await?;
            let stood_in = ctx.step("stand-in", |_| async { Ok::<_, Failure>(1) }).await?;
            match broken.load(Ordering::SeqCst) {
                true => Err(Failure::permanent("a fault in the code")),
                false => Ok((tried.is_err(), stood_in)),
            }
        }
    };
    bench.engine.register("careful", workflow).unwrap();
    let run = bench.engine.start("careful", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.clock.advance(Duration::from_secs(2));
    bench.until(run.id(), RunStatus::Failed).await;
    broken.store(false, Ordering::SeqCst);
    run.retry(None).await.unwrap();
    assert_eq!(run.result::<(bool, u32)>().await.unwrap(), (true, 1));
    bench.check().await;
}

/// A set of futures polls itself again after all of them were woken, and a timer that is due wakes all of them. In a replay
/// nothing can act on it before the code has asked for every record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_of_many_branches_ends_while_the_retry_of_one_is_due() {
    use futures_util::StreamExt;
    use futures_util::stream::FuturesUnordered;

    let bench = Bench::new();
    let broken = Arc::new(AtomicBool::new(true));
    let seen = broken.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let broken = seen.clone();
        async move {
            let wait = Duration::from_secs(30);
            let policy = hapax_engine::model::RetryPolicy::default().first_wait(wait).factor(1.0);
            let branches: FuturesUnordered<_> = (0..40u32)
                .map(|n| {
                    let broken = broken.clone();
                    let step = ctx.step(&format!("step-{n}"), move |_| {
                        let fails = n == 20 && broken.load(Ordering::SeqCst);
                        async move { if fails { Err(Failure::retryable("busy")) } else { Ok(n) } }
                    });
                    step.retry(policy.clone()).into_future()
                })
                .collect();
            let done: Vec<Result<u32, Failure>> = branches.collect().await;
            done.into_iter().sum::<Result<u32, Failure>>()
        }
    };
    bench.engine.register("many", workflow.clone()).unwrap();
    let run = bench.engine.start("many", &()).await.unwrap();
    bench.until_step(run.id(), "step-20", StepStatus::Pending).await;
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    broken.store(false, Ordering::SeqCst);
    bench.clock.advance(Duration::from_secs(60));
    let second = bench.restart();
    second.register("many", workflow).unwrap();
    let handle = second.run(run.id()).await.unwrap();
    let sum = handle.result::<u32>();
    let sum = tokio::time::timeout(Duration::from_secs(20), sum).await.expect("the replay ends").unwrap();
    assert_eq!(sum, (0..40).sum::<u32>());
    bench.check().await;
}
