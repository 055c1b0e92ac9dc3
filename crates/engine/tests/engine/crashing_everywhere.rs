//! The testing module reports what crashes do to a workflow.

use std::time::Duration;

use hapax_engine::model::{EffectClass, RunStatus};
use hapax_engine::testing::{CrashEverywhere, Expect, TestEnvironment, crash_everywhere, replay};
use hapax_engine::{Ctx, Failure, effects};

async fn unprotected(ctx: Ctx, cents: u64) -> Result<u64, Failure> {
    ctx.step("reserve", |attempt| {
        let key = attempt.idempotency_key().to_string();
        async move { Ok::<_, Failure>(key) }
    })
    .await?;
    ctx.step("wire", move |_| async move { Ok::<_, Failure>(cents) }).await?;
    ctx.step("mail", |attempt| {
        let key = attempt.idempotency_key().to_string();
        async move { Ok::<_, Failure>(key) }
    })
    .await?;
    Ok(cents)
}

async fn repaired(ctx: Ctx, cents: u64) -> Result<u64, Failure> {
    ctx.step("wire", move |_| async move { Ok::<_, Failure>(cents) }).claimed().await?;
    ctx.step("mail", |attempt| {
        let key = attempt.idempotency_key().to_string();
        async move { Ok::<_, Failure>(key) }
    })
    .await?;
    Ok(cents)
}

#[tokio::test]
async fn the_planted_bug_is_found_and_told_in_one_line() {
    let report = CrashEverywhere::new(unprotected, &500).run().await;
    let finding = report.findings.first().expect("the wire is not protected").to_string();
    assert_eq!(
        finding,
        "crash after `wire` ran and before it was recorded → `wire` ran twice; declare it claimed, give it a \
         probe, or make it idempotent by key"
    );
    assert!(report.effect("wire").can_happen_twice);
    assert!(!report.effect("mail").can_happen_twice, "its code asks for its key");
    assert_eq!(report.effect("mail").most, 2);
    assert!(report.findings.iter().all(|finding| finding.outcome.contains("wire")), "{:?}", report.findings);
}

#[tokio::test]
#[should_panic(expected = "`wire` ran twice")]
async fn a_test_of_a_workflow_that_is_not_safe_fails() {
    crash_everywhere(unprotected, &500).await;
}

#[tokio::test]
async fn the_repaired_workflow_passes() {
    let report = crash_everywhere(repaired, &500).await;
    effects!(report, "wire" => Expect::AtMostOnce, "mail" => Expect::AtLeastOnce);
    let wire = report.effect("wire");
    assert_eq!((wire.class, wire.usual, wire.most), (EffectClass::Claimed, 1, 1));
    assert!(wire.can_be_in_doubt, "that is the price, and it is shown");
    assert!(report.crashes > 8 && report.zombies > 3, "{report}");
    assert_eq!(report.usual_end, Some(RunStatus::Completed));
}

#[tokio::test]
#[should_panic(expected = "is not ExactlyOnce")]
async fn an_expectation_that_does_not_hold_fails() {
    let report = crash_everywhere(repaired, &500).await;
    effects!(report, "wire" => Expect::ExactlyOnce);
}

/// Contract: twenty steps are covered at every point. The benchmark measures how long it takes.
#[tokio::test]
async fn twenty_steps_are_crashed_at_every_point() {
    let workflow = |ctx: Ctx, (): ()| async move {
        for n in 0..20 {
            let name = format!("step-{n}");
            let step = ctx.step(&name, |attempt| {
                let key = attempt.idempotency_key().len();
                async move { Ok::<_, Failure>(key) }
            });
            match n % 2 {
                0 => step.await?,
                _ => step.claimed().await?,
            };
        }
        Ok::<_, Failure>(())
    };
    let report = crash_everywhere(workflow, &()).await;
    assert_eq!(report.effects.len(), 20);
    assert!(report.crashes >= 20 * 4, "{}", report.crashes);
}

#[tokio::test]
async fn waits_retries_and_people_are_part_of_it() {
    let workflow = |ctx: Ctx, (): ()| async move {
        ctx.sleep(Duration::from_secs(3 * 24 * 3600)).await?;
        let answer: u32 = ctx.create_promise("answer").await?;
        let tried = ctx.step("call", |attempt| {
            let (key, number) = (attempt.idempotency_key().len(), attempt.number());
            async move { if number == 1 { Err(Failure::retryable("busy")) } else { Ok(key) } }
        });
        tried.await?;
        Ok::<_, Failure>(answer)
    };
    let report = CrashEverywhere::new(workflow, &())
        .outside(|engine, run| async move {
            let promise = format!("{run}:answer");
            while engine.resolve_promise(&promise, &7).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .run()
        .await;
    report.assert_safe();
    assert_eq!(report.usual_end, Some(RunStatus::Completed), "{report}");
    assert_eq!(report.effect("call").usual, 2);
}

/// A workflow that never completes proves nothing, so its test fails unless it states what it expects.
#[tokio::test]
async fn a_run_that_does_not_complete_without_a_crash_fails_the_test() {
    let first = |report: hapax_engine::testing::CrashReport| report.findings.first().map(ToString::to_string);
    let unsettled = |ctx: Ctx, (): ()| async move { ctx.create_promise::<u32>("answer").await };
    let told = first(CrashEverywhere::new(unsettled, &()).run().await).unwrap();
    assert!(
        told.starts_with("without a crash → the run is WAITING: it waits for answer (promise)"),
        "{told}"
    );
    assert!(told.contains(".expect_waiting()"), "{told}");
    assert_eq!(first(CrashEverywhere::new(unsettled, &()).expect_waiting().run().await), None);

    let childless = |ctx: Ctx, (): ()| async move { ctx.child::<_, u32>("nobody", &()).await };
    let told = first(CrashEverywhere::new(childless, &()).run().await).unwrap();
    assert!(told.starts_with("without a crash → the run is "), "{told}");

    let failing = |_: Ctx, (): ()| async move { Err::<(), _>(Failure::permanent("no stock")) };
    let told = first(CrashEverywhere::new(failing, &()).run().await).unwrap();
    assert!(told.starts_with("without a crash → the run is FAILED: no stock"), "{told}");
    assert_eq!(first(CrashEverywhere::new(failing, &()).expect_failure().run().await), None);
    let told = first(CrashEverywhere::new(failing, &()).expect_waiting().run().await).unwrap();
    assert!(told.contains("leave `.expect_waiting()` out"), "{told}");
}

#[tokio::test]
#[should_panic(expected = "without a crash → the run is WAITING")]
async fn the_short_form_fails_for_a_run_that_never_completes() {
    crash_everywhere(|ctx: Ctx, (): ()| async move { ctx.create_promise::<u32>("answer").await }, &()).await;
}

#[tokio::test]
async fn non_determinism_is_named_as_the_cause() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let workflow = move |ctx: Ctx, (): ()| {
        let name = format!("step-{}", calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        async move {
            let step = |attempt: hapax_engine::ctx::Attempt| {
                let key = attempt.idempotency_key().len();
                async move { Ok::<_, Failure>(key) }
            };
            ctx.step(&name, step).await?;
            ctx.step("last", step).await
        }
    };
    let report = CrashEverywhere::new(workflow, &()).run().await;
    let named = |finding: &&hapax_engine::testing::CrashFinding| {
        finding.outcome.contains("not deterministic: DeterminismViolation")
    };
    assert!(report.findings.iter().any(|finding| named(&finding)), "{:?}", report.findings);
}

#[tokio::test]
async fn an_effect_that_may_be_repeated_can_be_named() {
    let workflow =
        |ctx: Ctx, (): ()| async move { ctx.step("set", |_| async { Ok::<_, Failure>(()) }).await };
    assert!(!CrashEverywhere::new(workflow, &()).run().await.findings.is_empty());
    CrashEverywhere::new(workflow, &()).repeatable("set").run().await.assert_safe();
}

#[tokio::test]
async fn time_travels_in_a_lab() {
    let mut lab = TestEnvironment::new();
    let workflow = |ctx: Ctx, (): ()| async move { ctx.sleep(Duration::from_secs(3 * 24 * 3600)).await };
    lab.engine().register("wait", workflow).unwrap();
    let run = lab.engine().start("wait", &()).await.unwrap();
    lab.advance(Duration::from_secs(2 * 24 * 3600)).await;
    assert_eq!(lab.engine().get(run.id()).await.unwrap().head.status(), RunStatus::Waiting);
    lab.crash();
    lab.engine().register("wait", workflow).unwrap();
    lab.advance(Duration::from_secs(24 * 3600)).await;
    assert_eq!(lab.engine().get(run.id()).await.unwrap().head.status(), RunStatus::Completed);
}

/// A run that makes progress is not stuck, however often it waits.
#[tokio::test]
async fn a_lab_has_time_for_many_waits() {
    let lab = TestEnvironment::new();
    let workflow = |ctx: Ctx, (): ()| async move {
        for _ in 0..100 {
            ctx.sleep(Duration::from_secs(5)).await?;
        }
        Ok::<_, Failure>(())
    };
    lab.engine().register("waits", workflow).unwrap();
    let run = lab.engine().start("waits", &()).await.unwrap();
    assert_eq!(lab.settle(run.id()).await.unwrap(), RunStatus::Completed);
}

#[tokio::test]
async fn changed_code_is_held_against_a_recorded_history() {
    let lab = TestEnvironment::new();
    let asks = |names: &'static [&'static str]| {
        move |ctx: Ctx, (): ()| async move {
            for name in names {
                ctx.step(name, |_| async { Ok::<_, Failure>(()) }).await?;
            }
            ctx.signal::<()>("go").await
        }
    };
    lab.engine().register("order", asks(&["charge", "ship"])).unwrap();
    let run = lab.engine().start("order", &()).await.unwrap();
    lab.settle(run.id()).await.unwrap();
    let history = lab.engine().get_log(run.id()).await.unwrap();
    replay(history.clone(), asks(&["charge", "ship"])).await.unwrap();
    replay(history.clone(), asks(&["charge", "ship", "thank"])).await.unwrap_err();
    let failure = replay(history, asks(&["ship"])).await.unwrap_err();
    assert!(failure.message().contains("charge"), "{failure}");
}
