//! Claimed effects run at most once, and are in doubt when their outcome is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Bench, Log};
use hapax_engine::ctx::StepFuture;
use hapax_engine::model::{
    Actor, EffectClass, JournalEvent, OnDoubt, ProbeAnswer, Resolution, Role, Ruling, RunId, RunStatus,
    StepStatus,
};
use hapax_engine::runtime::{CrashPoint, CrashPointWatcher, Doubt, WorkflowOptions};
use hapax_engine::{Ctx, Engine, EngineOptions, Error, Failure};
use serde_json::json;

fn ruling(resolution: Resolution) -> Ruling {
    let by = Actor::new("ada", Role::Manager);
    Ruling { resolution, by, seconded_by: None, reason: "the bank says so".into() }
}

async fn the_doubt(bench: &Bench, engine: &Engine) -> Doubt {
    let doubt = bench.eventually("a doubt", async || {
        engine.list_doubts(None, 10).await.unwrap().doubts.into_iter().next()
    });
    doubt.await
}

/// Waits for the next node to take over from a paused one. The pause has moved the clock past the lease. The
/// scheduler may have looked just before that: the clock moves a little more, so that it looks again.
async fn taken_over<T>(bench: &Bench, what: &str, check: impl AsyncFn() -> Option<T>) -> T {
    let begun = std::time::Instant::now();
    for turn in 1_u64.. {
        if let Some(found) = check().await {
            return found;
        }
        if turn.is_multiple_of(10_000) {
            assert!(begun.elapsed() < Duration::from_secs(60), "never happened: {what}");
            bench.clock.advance(Duration::from_millis(100));
        }
        tokio::task::yield_now().await;
    }
    unreachable!()
}

/// Wire transfer that never returns on its first execution, and returns its attempt number afterwards.
fn wire(log: &Log) -> impl Fn(Ctx, ()) -> StepFuture<'static, u32> + Clone + Send + Sync + 'static {
    let log = log.clone();
    move |ctx: Ctx, ()| {
        let log = log.clone();
        Box::pin(async move {
            let step = ctx.step("wire", |attempt| {
                log.add(format!("wire {}", attempt.idempotency_key().rsplit(':').next().unwrap()));
                async move {
                    match attempt.number() {
                        1 => std::future::pending().await,
                        number => Ok::<_, Failure>(number),
                    }
                }
            });
            step.claimed().await
        })
    }
}

/// Crashes in the middle of the wire and continues with another engine.
async fn crashed(bench: &Bench, log: &Log) -> (Engine, RunId) {
    bench.engine.register("pay", wire(log)).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap().id();
    bench.eventually("it is in its step", async || (!log.read().is_empty()).then_some(())).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("pay", wire(log)).unwrap();
    (second, run)
}

/// Contract §6: the claim is durable before the effect begins.
#[tokio::test]
async fn a_claim_is_on_record_before_the_effect_begins() {
    let bench = Bench::new();
    let store = bench.store.clone();
    bench
        .engine
        .register("pay", move |ctx: Ctx, (): ()| {
            let store = store.clone();
            async move {
                let (run, seen) = (ctx.run_id(), store.clone());
                ctx.step("wire", move |_| {
                    let store = seen.clone();
                    async move {
                        use hapax_engine::store::Store;
                        let log = store.find_log(&Default::default(), run).await?.expect("it is there");
                        Ok::<_, Failure>(log.steps[0].state.status() == StepStatus::Running)
                    }
                })
                .claimed()
                .await
            }
        })
        .unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    assert!(run.result::<bool>().await.unwrap());
    bench.check().await;
}

#[tokio::test]
async fn after_a_crash_it_is_in_doubt_and_people_see_all_they_need() {
    let bench = Bench::new();
    let log = Log::default();
    let owner = bench.engine.owner().to_string();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    assert_eq!((doubt.run, doubt.step.as_str(), doubt.attempts), (run, "wire", 1));
    assert_eq!(doubt.key.as_str(), format!("{run}:wire"));
    assert_eq!(doubt.owner, Some(owner), "the engine that vanished");
    assert!(doubt.failure.message().contains("vanished"), "{}", doubt.failure);
    bench.until(run, RunStatus::Waiting).await;
    bench.clock.advance(Duration::from_secs(7 * 24 * 3600));
    bench.until(run, RunStatus::Waiting).await;
    assert_eq!(log.read(), ["wire wire"], "it is never run again by itself");
    bench.check().await;
}

#[tokio::test]
async fn people_say_that_it_happened() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    let happened = ruling(Resolution::Happened { output: json!(42) });
    second.resolve_doubt(&doubt.as_seen(), happened.clone()).await.unwrap();
    assert_eq!(second.run(run).await.unwrap().result::<u32>().await.unwrap(), 42);
    assert_eq!(log.read().len(), 1);
    let again = second.resolve_doubt(&doubt.as_seen(), happened).await.unwrap_err();
    assert!(matches!(again, Error::NoSuchDoubt { .. } | Error::DoubtResolved { .. }), "{again}");
    let audit = second.list_audit(0, 10).await.unwrap();
    assert_eq!(
        (audit.len(), audit[0].by.name.as_str(), audit[0].run.clone()),
        (1, "ada", Some(run.to_string()))
    );
    assert!(second.list_doubts(None, 10).await.unwrap().doubts.is_empty());
    bench.check().await;
}

#[tokio::test]
async fn people_say_that_it_did_not_happen() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    second.resolve_doubt(&doubt.as_seen(), ruling(Resolution::DidNotHappen)).await.unwrap();
    let run = second.run(run).await.unwrap();
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 2);
    assert_eq!(log.read(), ["wire wire", "wire wire"]);
    bench.check().await;
}

#[tokio::test]
async fn people_give_it_up() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    second.resolve_doubt(&doubt.as_seen(), ruling(Resolution::Abandon)).await.unwrap();
    let error = second.run(run).await.unwrap().result::<u32>().await.unwrap_err().to_string();
    assert!(error.contains("abandoned"), "{error}");
    assert_eq!(log.read().len(), 1);
    bench.check().await;
}

#[tokio::test]
async fn of_two_who_decide_one_is_heard() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await.as_seen();
    let other = second.clone();
    let (first, late) = tokio::join!(
        second.resolve_doubt(&doubt, ruling(Resolution::Happened { output: json!(1) })),
        other.resolve_doubt(&doubt, ruling(Resolution::Abandon)),
    );
    assert_eq!([&first, &late].iter().filter(|outcome| outcome.is_ok()).count(), 1, "{first:?} {late:?}");
    bench
        .eventually("it ends", async || {
            second.get(run).await.unwrap().head.status().is_closed().then_some(())
        })
        .await;
    assert_eq!(second.list_audit(0, 10).await.unwrap().len(), 1, "who was not heard is not in the log");
    bench.check().await;
}

#[tokio::test]
async fn a_ruling_needs_rank_and_the_doubt_as_it_is() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, _) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    let by = Actor::new("bob", Role::Operator);
    let refused = second
        .resolve_doubt(&doubt.as_seen(), Ruling { by, ..ruling(Resolution::DidNotHappen) })
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("manager"), "{refused}");
    let mut stale = doubt.as_seen();
    stale.seen = hapax_engine::model::Version::new(doubt.version.get() - 1);
    let refused = second.resolve_doubt(&stale, ruling(Resolution::Abandon)).await.unwrap_err();
    assert!(matches!(refused, Error::NoSuchDoubt { .. }), "{refused}");
    let promise = format!("{}~doubt-1-1", doubt.key);
    assert!(second.resolve_promise(&promise, &json!(null)).await.is_err(), "there is no way around a ruling");
    assert!(second.list_audit(0, 10).await.unwrap().is_empty());
    assert_eq!(log.read().len(), 1);
}

/// A person may enter an output of the wrong type. The doubt survives it.
#[tokio::test]
async fn a_ruling_that_is_of_no_use_leaves_the_doubt() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    let wrong = ruling(Resolution::Happened { output: json!("forty-two") });
    second.resolve_doubt(&doubt.as_seen(), wrong).await.unwrap();
    let again = bench.eventually("a new doubt", async || {
        let doubts = second.list_doubts(None, 10).await.unwrap().doubts;
        doubts.into_iter().find(|found| found.version != doubt.version)
    });
    let again = again.await;
    assert!(again.failure.message().contains("does not fit"), "{}", again.failure);
    let right = ruling(Resolution::Happened { output: json!(42) });
    second.resolve_doubt(&again.as_seen(), right).await.unwrap();
    assert_eq!(second.run(run).await.unwrap().result::<u32>().await.unwrap(), 42);
    bench.check().await;
}

#[tokio::test]
async fn people_have_it_undone() {
    let bench = Bench::new();
    let log = Log::default();
    let kept = log.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let log = kept.clone();
        async move {
            let undo = log.clone();
            ctx.step("wire", |_| async { Err::<u32, _>(Failure::unknown("connection reset")) })
                .claimed()
                .compensate(move |_, sum: u32| {
                    undo.add(format!("return {sum}"));
                    async { Ok::<_, Failure>(()) }
                })
                .await
        }
    };
    bench.engine.register("pay", workflow).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    let doubt = the_doubt(&bench, &bench.engine).await;
    let undo = ruling(Resolution::Compensate { output: json!(7) });
    bench.engine.resolve_doubt(&doubt.as_seen(), undo).await.unwrap();
    let error = run.result::<u32>().await.unwrap_err().to_string();
    assert!(error.contains("compensated"), "{error}");
    assert_eq!(log.read(), ["return 7"]);
    bench.check().await;
}

/// The undo belongs to the failed step. A replay finds both and continues with later steps.
#[tokio::test]
async fn a_run_goes_on_after_a_compensation_and_a_crash() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, (): ()| async move {
        let wired = ctx
            .step("wire", |_| async { Err::<u32, _>(Failure::unknown("connection reset")) })
            .claimed()
            .compensate(|_, _: u32| async { Ok::<_, Failure>(()) })
            .await;
        ctx.step("report", |_| async { Ok::<_, Failure>(()) }).await?;
        ctx.signal::<()>("go").await?;
        Ok::<_, Failure>(wired.is_err())
    };
    bench.engine.register("pay", workflow).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap().id();
    let doubt = the_doubt(&bench, &bench.engine).await;
    let undo = ruling(Resolution::Compensate { output: json!(7) });
    bench.engine.resolve_doubt(&doubt.as_seen(), undo).await.unwrap();
    bench.until_step(run, "go", StepStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("pay", workflow).unwrap();
    second.signal(run, "go", &(), None).await.unwrap();
    assert!(second.run(run).await.unwrap().result::<bool>().await.unwrap());
    bench.check().await;
}

/// A run that must end waits for a compensation to succeed, even if it needs a retry.
#[tokio::test]
async fn a_compensation_in_a_cancelled_run_comes_to_its_end() {
    let bench = Bench::new();
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let tries = counted.clone();
        async move {
            let branches: Vec<StepFuture<'_, u32>> = vec![
                Box::pin(async {
                    ctx.step("wire", |_| async { Err::<u32, _>(Failure::unknown("connection reset")) })
                        .claimed()
                        .compensate(move |_, _: u32| {
                            let tried = tries.fetch_add(1, Ordering::SeqCst);
                            async move { if tried == 0 { Err(Failure::retryable("busy")) } else { Ok(()) } }
                        })
                        .await
                }),
                Box::pin(async { ctx.sleep(Duration::from_secs(365 * 24 * 3600)).await.map(|()| 0) }),
            ];
            ctx.select(branches).await?.1
        }
    };
    bench.engine.register("pay", workflow).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap().id();
    let doubt = the_doubt(&bench, &bench.engine).await;
    bench.engine.cancel(run, "not needed").await.unwrap();
    let undo = ruling(Resolution::Compensate { output: json!(7) });
    bench.engine.resolve_doubt(&doubt.as_seen(), undo).await.unwrap();
    bench
        .eventually("it ends", async || {
            bench.engine.get(run).await.unwrap().head.status().is_closed().then_some(())
        })
        .await;
    assert_eq!(tries.load(Ordering::SeqCst), 2);
    bench.check().await;
}

/// A run that pauses in the turn of a new doubt still reports the doubt and its reason.
#[tokio::test]
async fn a_pause_does_not_hide_a_doubt() {
    let bench = Bench::new();
    let (open, gate) = tokio::sync::watch::channel(false);
    bench
        .engine
        .register("pay", move |ctx: Ctx, (): ()| {
            let gate = gate.clone();
            async move {
                ctx.step("wire", move |_| {
                    let mut gate = gate.clone();
                    async move {
                        gate.wait_for(|open| *open).await.map_err(Failure::unknown)?;
                        Err::<u32, _>(Failure::unknown("connection reset"))
                    }
                })
                .claimed()
                .await
            }
        })
        .unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap().id();
    bench.until_step(run, "wire", StepStatus::Running).await;
    bench.engine.pause(run).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    open.send_replace(true);
    bench.until(run, RunStatus::Paused).await;
    let doubt = bench.engine.list_doubts(None, 1).await.unwrap().doubts.remove(0);
    assert_eq!(doubt.failure.message(), "connection reset");
    bench.check().await;
}

/// A doubt of a dropped branch can only be closed on paper: nothing can be run or undone for it.
#[tokio::test]
async fn a_doubt_that_nothing_can_act_on_fails_the_run_until_it_is_abandoned() {
    let bench = Bench::new();
    bench
        .engine
        .register("race", |ctx: Ctx, generation: u32| async move {
            if generation == 1 {
                return Ok::<_, Failure>(());
            }
            let branches: Vec<StepFuture<'_, ()>> = vec![
                Box::pin(async {
                    ctx.step("wire", |_| async { std::future::pending::<Result<(), Failure>>().await })
                        .claimed()
                        .await
                }),
                Box::pin(async { ctx.create_promise("enough").await }),
            ];
            ctx.select(branches).await?.1?;
            ctx.continue_as_new(&1)
        })
        .unwrap();
    let run = bench.engine.start("race", &0).await.unwrap();
    bench.until_step(run.id(), "wire", StepStatus::Running).await;
    bench.until_promise(&format!("{}:enough", run.id())).await;
    bench.engine.resolve_promise(&format!("{}:enough", run.id()), &()).await.unwrap();
    let error = run.result::<()>().await.unwrap_err().to_string();
    assert!(error.contains("in_doubt"), "a new history would not know of it: {error}");
    let doubt = the_doubt(&bench, &bench.engine).await;
    bench.engine.retry(run.id(), None).await.unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    bench.engine.resolve_doubt(&doubt.as_seen(), ruling(Resolution::Abandon)).await.unwrap();
    run.retry(None).await.unwrap();
    run.result::<()>().await.unwrap();
}

#[tokio::test]
async fn a_ruling_that_nobody_could_act_on_is_refused() {
    let bench = Bench::new();
    bench
        .engine
        .register("race", |ctx: Ctx, (): ()| async move {
            let branches: Vec<StepFuture<'_, ()>> = vec![
                Box::pin(async {
                    ctx.step("wire", |_| async { std::future::pending::<Result<(), Failure>>().await })
                        .claimed()
                        .await
                }),
                Box::pin(async { ctx.create_promise("enough").await }),
            ];
            ctx.select(branches).await?.1
        })
        .unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until_step(run.id(), "wire", StepStatus::Running).await;
    bench.until_promise(&format!("{}:enough", run.id())).await;
    bench.engine.resolve_promise(&format!("{}:enough", run.id()), &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let doubt = the_doubt(&bench, &bench.engine).await.as_seen();
    let refused = bench.engine.resolve_doubt(&doubt, ruling(Resolution::DidNotHappen)).await.unwrap_err();
    assert!(matches!(refused, Error::RulingNotPossible { .. }), "{refused}");
    bench.engine.resolve_doubt(&doubt, ruling(Resolution::Happened { output: json!(null) })).await.unwrap();
}

/// A doubt in a losing branch decides nothing during a replay.
#[tokio::test]
async fn a_doubt_of_a_branch_that_lost_takes_nothing_of_others_in_a_replay() {
    let bench = Bench::new();
    let log = Log::default();
    let workflow = |log: &Log| {
        let log = log.clone();
        move |ctx: Ctx, (): ()| {
            let log = log.clone();
            async move {
                let branches: Vec<StepFuture<'_, ()>> = vec![
                    Box::pin(async {
                        let wired = ctx
                            .step("wire", |_| async { std::future::pending::<Result<(), Failure>>().await })
                            .claimed()
                            .on_doubt(OnDoubt::Fail)
                            .await;
                        log.step(&ctx, "notify").await?;
                        wired
                    }),
                    Box::pin(async { ctx.create_promise("enough").await }),
                ];
                ctx.select(branches).await?.1?;
                log.step(&ctx, "notify").await?;
                ctx.signal::<()>("go").await
            }
        }
    };
    bench.engine.register("race", workflow(&log)).unwrap();
    let run = bench.engine.start("race", &()).await.unwrap().id();
    bench.until_step(run, "wire", StepStatus::Running).await;
    bench.until_promise(&format!("{run}:enough")).await;
    bench.engine.resolve_promise(&format!("{run}:enough"), &()).await.unwrap();
    bench.until_step(run, "go", StepStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("race", workflow(&log)).unwrap();
    second.signal(run, "go", &(), None).await.unwrap();
    second.run(run).await.unwrap().result::<()>().await.unwrap();
    assert_eq!(log.read(), ["do notify"]);
}

/// An error that leaves the outcome open is a doubt. Any other error is a failed attempt.
#[tokio::test]
async fn only_an_outcome_that_is_unknown_is_in_doubt() {
    let bench = Bench::new();
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    bench
        .engine
        .register("pay", move |ctx: Ctx, (): ()| {
            let tries = counted.clone();
            async move {
                ctx.step("wire", move |_| {
                    let tried = tries.fetch_add(1, Ordering::SeqCst);
                    async move {
                        match tried {
                            0 => Err(Failure::retryable("refused: too busy")),
                            _ => Ok(tried),
                        }
                    }
                })
                .claimed()
                .await
            }
        })
        .unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 1);
    bench
        .engine
        .register("slow", |ctx: Ctx, (): ()| async move {
            ctx.step("wire", |_| async { std::future::pending::<Result<(), Failure>>().await })
                .timeout(Duration::from_secs(5))
                .claimed()
                .await
        })
        .unwrap();
    bench.engine.start("slow", &()).await.unwrap();
    let doubt = the_doubt(&bench, &bench.engine).await;
    assert_eq!(doubt.failure.code(), Some("timed_out"));
    bench.check().await;
}

fn probed(
    answers: Vec<Result<ProbeAnswer<u32>, Failure>>,
) -> (Arc<AtomicU32>, impl Fn(Ctx, ()) -> StepFuture<'static, u32> + Clone) {
    let asked = Arc::new(AtomicU32::new(0));
    let (counted, answers) = (asked.clone(), Arc::new(answers));
    let workflow = move |ctx: Ctx, ()| -> StepFuture<'static, u32> {
        let (asked, answers) = (counted.clone(), answers.clone());
        Box::pin(async move {
            let step = ctx.step("wire", |attempt| async move {
                match attempt.number() {
                    1 => Err(Failure::unknown("connection reset")),
                    number => Ok(number),
                }
            });
            let step = step.probe(move |key| {
                assert!(key.ends_with(":wire"));
                let place = asked.fetch_add(1, Ordering::SeqCst) as usize;
                let answer = answers[place.min(answers.len() - 1)].clone();
                async move { answer }
            });
            step.await
        })
    };
    (asked, workflow)
}

#[tokio::test]
async fn a_probe_settles_the_doubt() {
    for (answers, output, asks) in [
        (vec![Ok(ProbeAnswer::Happened(9))], 9, 1),
        (
            vec![
                Ok(ProbeAnswer::DidNotHappen),
                Ok(ProbeAnswer::DidNotHappen),
                Ok(ProbeAnswer::DidNotHappen),
                Ok(ProbeAnswer::Unknown),
            ],
            2,
            3,
        ),
        (vec![Err(Failure::retryable("no answer")), Ok(ProbeAnswer::Happened(9))], 9, 2),
    ] {
        let bench = Bench::new();
        let (asked, workflow) = probed(answers);
        bench.engine.register("pay", workflow).unwrap();
        let run = bench.engine.start("pay", &()).await.unwrap();
        assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), output);
        assert_eq!(asked.load(Ordering::SeqCst), asks);
        assert!(bench.engine.list_doubts(None, 10).await.unwrap().doubts.is_empty());
        bench.check().await;
    }
}

#[tokio::test]
async fn a_probe_that_cannot_tell_is_asked_again_while_people_look_into_it() {
    let bench = Bench::new();
    let (asked, workflow) = probed(vec![Ok(ProbeAnswer::Unknown), Ok(ProbeAnswer::Happened(9))]);
    bench.engine.register("pay", workflow).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    the_doubt(&bench, &bench.engine).await;
    bench.until(run.id(), RunStatus::Waiting).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    bench.clock.advance(hapax_engine::limits::PROBE_EVERY);
    assert_eq!(run.result::<u32>().await.unwrap(), 9);
    bench.check().await;
}

/// A person rules while the probe runs. The ruling counts, and the answer of the probe comes too late.
#[tokio::test]
async fn a_person_who_is_faster_than_the_probe_is_heard() {
    let bench = Bench::new();
    let engine = bench.engine.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let engine = engine.clone();
        async move {
            ctx.step("wire", |_| async { Err::<u32, _>(Failure::unknown("connection reset")) })
                .probe(move |_| {
                    let engine = engine.clone();
                    async move {
                        if let Some(doubt) = engine.list_doubts(None, 1).await.unwrap().doubts.first() {
                            let given_up = ruling(Resolution::Abandon);
                            engine.resolve_doubt(&doubt.as_seen(), given_up).await.unwrap();
                        }
                        Ok::<_, Failure>(ProbeAnswer::Happened(9))
                    }
                })
                .await
        }
    };
    bench.engine.register("pay", workflow).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    let error = bench.advancing(run.result::<u32>()).await.unwrap_err().to_string();
    assert!(error.contains("abandoned"), "{error}");
    assert_eq!(bench.engine.list_audit(0, 10).await.unwrap().len(), 1);
    bench.check().await;
}

#[tokio::test]
async fn a_step_may_say_what_a_doubt_is_to_come_to() {
    for (on_doubt, expected) in [(OnDoubt::Retry, Ok(2)), (OnDoubt::Fail, Err("in_doubt"))] {
        let bench = Bench::new();
        bench
            .engine
            .register("pay", move |ctx: Ctx, (): ()| async move {
                ctx.step("wire", |attempt| async move {
                    match attempt.number() {
                        1 => Err(Failure::unknown("connection reset")),
                        number => Ok(number),
                    }
                })
                .claimed()
                .on_doubt(on_doubt)
                .await
            })
            .unwrap();
        let run = bench.engine.start("pay", &()).await.unwrap();
        let outcome = bench.advancing(run.result::<u32>()).await.map_err(|error| error.to_string());
        match (&outcome, expected) {
            (Ok(value), Ok(expected)) => assert_eq!(*value, expected),
            (Err(error), Err(code)) => assert!(error.contains(code), "{error}"),
            _ => panic!("{on_doubt:?}: {outcome:?}"),
        }
        bench.check().await;
    }
}

/// A cancellation does not remove a doubt. The run ends after a ruling.
#[tokio::test]
async fn a_cancelled_run_waits_for_the_ruling() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    second.cancel(run, "not needed").await.unwrap();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!second.get(run).await.unwrap().head.status().is_closed());
    second.resolve_doubt(&doubt.as_seen(), ruling(Resolution::Happened { output: json!(1) })).await.unwrap();
    bench
        .eventually("it ends", async || {
            second.get(run).await.unwrap().head.status().is_closed().then_some(())
        })
        .await;
    bench.check().await;
}

#[tokio::test]
async fn a_ruling_of_no_use_on_a_cancelled_run_leaves_the_doubt() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    second.cancel(run, "not needed").await.unwrap();
    let wrong = ruling(Resolution::Happened { output: json!("forty-two") });
    second.resolve_doubt(&doubt.as_seen(), wrong).await.unwrap();
    let again = bench.eventually("a new doubt", async || {
        let doubts = second.list_doubts(None, 10).await.unwrap().doubts;
        doubts.into_iter().find(|found| found.version != doubt.version)
    });
    let again = again.await;
    assert!(!second.get(run).await.unwrap().head.status().is_closed());
    let right = ruling(Resolution::Happened { output: json!(42) });
    second.resolve_doubt(&again.as_seen(), right).await.unwrap();
    bench
        .eventually("it ends", async || {
            second.get(run).await.unwrap().head.status().is_closed().then_some(())
        })
        .await;
    bench.check().await;
}

/// A graceful shutdown lets a claimed effect finish, so no doubt is left.
#[tokio::test]
async fn a_shutdown_leaves_no_doubt() {
    let bench = Bench::new();
    let (open, gate) = tokio::sync::watch::channel(false);
    bench
        .engine
        .register("pay", move |ctx: Ctx, (): ()| {
            let gate = gate.clone();
            async move {
                ctx.step("wire", move |_| {
                    let mut gate = gate.clone();
                    async move { gate.wait_for(|open| *open).await.map(|_| 5).map_err(Failure::unknown) }
                })
                .claimed()
                .await
            }
        })
        .unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    bench.until_step(run.id(), "wire", StepStatus::Running).await;
    let stopping = bench.engine.shutdown(Duration::from_secs(20));
    let (stopped, ()) = tokio::join!(stopping, async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        open.send_replace(true);
    });
    stopped.unwrap();
    bench.until_step(run.id(), "wire", StepStatus::Completed).await;
    bench.check().await;
}

/// The losing branch was in the middle of a claimed effect.
#[tokio::test]
async fn a_branch_that_loses_in_the_middle_of_a_claimed_effect_leaves_a_doubt() {
    let bench = Bench::new();
    bench
        .engine
        .register("race", |ctx: Ctx, (): ()| async move {
            let branches: Vec<StepFuture<'_, ()>> = vec![
                Box::pin(async {
                    ctx.step("wire", |_| async { std::future::pending::<Result<(), Failure>>().await })
                        .claimed()
                        .await
                }),
                Box::pin(async { ctx.create_promise("enough").await }),
            ];
            ctx.select(branches).await?.1
        })
        .unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until_step(run.id(), "wire", StepStatus::Running).await;
    bench.until_promise(&format!("{}:enough", run.id())).await;
    bench.engine.resolve_promise(&format!("{}:enough", run.id()), &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let doubt = the_doubt(&bench, &bench.engine).await;
    assert_eq!(doubt.failure.code(), Some("cut_off"));
    bench.engine.resolve_doubt(&doubt.as_seen(), ruling(Resolution::Abandon)).await.unwrap();
    assert!(bench.engine.list_doubts(None, 10).await.unwrap().doubts.is_empty());
    bench.check().await;
}

/// A process that is paused between the effect and its record, and wakes after a takeover, cannot record. The
/// journal shows its refused write.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_outcome_is_refused_and_settles_the_doubt_as_happened() {
    let bench = Bench::new();
    let log = Log::default();
    let line = crate::support::cut_off::CutOff::new(bench.store.clone());
    line.lose_leases();
    let (wake, woken) = std::sync::mpsc::channel::<()>();
    let (clock, woken) = (bench.clock.clone(), std::sync::Mutex::new(woken));
    let pausing = CrashPointWatcher::new(move |point| {
        if matches!(point, CrashPoint::AfterEffect(..)) {
            clock.advance(Duration::from_secs(31));
            // Tasks that the clock woke on this thread must run on another one.
            tokio::task::block_in_place(|| woken.lock().unwrap().recv().unwrap());
        }
    });
    let options = EngineOptions { watcher: Some(pausing), ..Default::default() };
    let node = Engine::launch(line, bench.clock.clone(), options).unwrap();
    let workflow = |log: &Log| {
        let log = log.clone();
        move |ctx: Ctx, (): ()| {
            let log = log.clone();
            async move {
                let wire = move |_| {
                    log.add("wire".into());
                    async { Ok::<_, Failure>(5) }
                };
                ctx.step("wire", wire).claimed().await
            }
        }
    };
    node.register("pay", workflow(&log)).unwrap();
    bench.engine.register("pay", workflow(&log)).unwrap();
    let run = node.start("pay", &()).await.unwrap();
    taken_over(&bench, "a doubt", async || bench.engine.list_doubts(None, 1).await.unwrap().doubts.pop())
        .await;
    wake.send(()).unwrap();
    // The late outcome is refused, and resolves the doubt as happened.
    bench.until(run.id(), RunStatus::Completed).await;
    let effect = bench.engine.ledger(run.id()).await.unwrap().remove(0);
    assert_eq!((effect.status, effect.refused_writes), (Some("COMPLETED"), 1));
    assert_eq!((effect.happened, effect.may_have_happened), (1, 0));
    assert_eq!((effect.happened_twice, effect.may_have_happened_twice), (0, 0));
    assert_eq!(effect.attempts[0].owner, Some(node.owner().to_string()));
    assert_eq!(log.read(), ["wire"]);
    assert_eq!(run.result::<u32>().await.unwrap(), 5, "with the output that the worker had");
    bench.check().await;
}

/// After an await, the code of a step continues only while the lease holds. A process that was paused there
/// sends nothing.
#[tokio::test]
async fn a_paused_step_does_not_go_on_after_its_lease_has_ended() {
    let bench = Bench::new();
    let log = Log::default();
    let (open, gate) = tokio::sync::watch::channel(false);
    let line = crate::support::cut_off::CutOff::new(bench.store.clone());
    let node = Engine::launch(line.clone(), bench.clock.clone(), Default::default()).unwrap();
    let workflow = |log: &Log, gate: tokio::sync::watch::Receiver<bool>| {
        let log = log.clone();
        move |ctx: Ctx, (): ()| {
            let (log, gate) = (log.clone(), gate.clone());
            async move {
                ctx.step("wire", move |_| {
                    log.add("connect".into());
                    let (log, mut gate) = (log.clone(), gate.clone());
                    async move {
                        gate.wait_for(|open| *open).await.map_err(Failure::unknown)?;
                        log.add("send".into());
                        Ok::<_, Failure>(5)
                    }
                })
                .claimed()
                .await
            }
        }
    };
    node.register("pay", workflow(&log, gate.clone())).unwrap();
    let run = node.start("pay", &()).await.unwrap();
    bench.eventually("it is in its step", async || (!log.read().is_empty()).then_some(())).await;
    line.lose_leases();
    bench.engine.register("pay", workflow(&log, gate)).unwrap();
    bench.clock.advance(Duration::from_secs(31));
    let doubt = the_doubt(&bench, &bench.engine).await;
    open.send_replace(true);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.read(), ["connect"], "nothing was sent after the lease had ended");
    let happened = ruling(Resolution::Happened { output: json!(5) });
    bench.engine.resolve_doubt(&doubt.as_seen(), happened).await.unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    bench.check().await;
}

/// After an await, a probe continues only while the lease holds, like a step. A later answer is useless and
/// costs the provider a request.
#[tokio::test]
async fn a_paused_probe_does_not_go_on_after_its_lease_has_ended() {
    let bench = Bench::new();
    let log = Log::default();
    let (open, gate) = tokio::sync::watch::channel(false);
    let line = crate::support::cut_off::CutOff::new(bench.store.clone());
    let node = Engine::launch(line.clone(), bench.clock.clone(), Default::default()).unwrap();
    let kept = log.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let (log, gate) = (kept.clone(), gate.clone());
        async move {
            let wire = |_| async { Err::<u32, _>(Failure::unknown("connection reset")) };
            ctx.step("wire", wire)
                .probe(move |_| {
                    log.add("connect".into());
                    let (log, mut gate) = (log.clone(), gate.clone());
                    async move {
                        gate.wait_for(|open| *open).await.map_err(Failure::unknown)?;
                        log.add("ask".into());
                        Ok::<_, Failure>(ProbeAnswer::Happened(5))
                    }
                })
                .await
        }
    };
    node.register("pay", workflow).unwrap();
    node.start("pay", &()).await.unwrap();
    bench.eventually("the probe is asked", async || (!log.read().is_empty()).then_some(())).await;
    line.lose_leases();
    // As after a pause: the lease has ended and the answer has arrived before the process looks at the clock.
    open.send_replace(true);
    bench.clock.advance(Duration::from_secs(31));
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.read(), ["connect"], "nothing was asked after the lease had ended");
}

/// The process is paused right before the code runs, after the claim was committed, until another has taken
/// over.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_between_the_claim_and_the_code_means_that_the_code_is_not_entered() {
    let bench = Bench::new();
    let log = Log::default();
    let line = crate::support::cut_off::CutOff::new(bench.store.clone());
    line.lose_leases();
    let (wake, woken) = std::sync::mpsc::channel::<()>();
    let (told, paused) = tokio::sync::watch::channel(false);
    let (clock, woken) = (bench.clock.clone(), std::sync::Mutex::new(woken));
    let pausing = CrashPointWatcher::new(move |point| {
        if matches!(point, CrashPoint::BeforeSend(..)) {
            clock.advance(Duration::from_secs(31));
            told.send_replace(true);
            // Only this task is paused: what waits in the queue of its thread goes on elsewhere.
            tokio::task::block_in_place(|| woken.lock().unwrap().recv().unwrap_err());
        }
    });
    let options = EngineOptions { watcher: Some(pausing), ..Default::default() };
    let node = Engine::launch(line, bench.clock.clone(), options).unwrap();
    let workflow = |log: &Log| {
        let log = log.clone();
        move |ctx: Ctx, (): ()| {
            let log = log.clone();
            async move {
                let wire = move |_| {
                    log.add("wire".into());
                    async { Ok::<_, Failure>(5) }
                };
                ctx.step("wire", wire).claimed().await
            }
        }
    };
    node.register("pay", workflow(&log)).unwrap();
    bench.engine.register("pay", workflow(&log)).unwrap();
    let run = node.start("pay", &()).await.unwrap();
    paused.clone().wait_for(|paused| *paused).await.unwrap();
    let doubt =
        taken_over(&bench, "a doubt", async || bench.engine.list_doubts(None, 1).await.unwrap().doubts.pop())
            .await;
    drop(wake);
    let happened = ruling(Resolution::Happened { output: json!(5) });
    bench.engine.resolve_doubt(&doubt.as_seen(), happened).await.unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    node.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(log.read(), Vec::<String>::new(), "the process that was paused did not enter the code");
    bench.check().await;
}

/// Code in its own thread or task is notified.
#[tokio::test]
async fn an_attempt_tells_code_outside_its_future_that_the_run_was_lost() {
    let bench = Bench::new();
    let (told, mut attempts) = tokio::sync::mpsc::unbounded_channel();
    let line = crate::support::cut_off::CutOff::new(bench.store.clone());
    let node = Engine::launch(line.clone(), bench.clock.clone(), Default::default()).unwrap();
    let workflow = move |ctx: Ctx, (): ()| {
        let told = told.clone();
        async move {
            let wire = move |attempt: hapax_engine::ctx::Attempt| {
                told.send(attempt).unwrap();
                std::future::pending::<Result<(), Failure>>()
            };
            ctx.step("wire", wire).claimed().await
        }
    };
    node.register("pay", workflow).unwrap();
    node.start("pay", &()).await.unwrap();
    let attempt = attempts.recv().await.unwrap();
    attempt.ensure_still_held().unwrap();
    assert_eq!(attempt.fence(), 1);
    line.lose_leases();
    bench.clock.advance(Duration::from_secs(28));
    assert_eq!(attempt.ensure_still_held().unwrap_err().code(), Some("no_longer_held"));
    bench.advancing(attempt.cancelled()).await;
    assert!(attempt.is_cancelled());
}

#[tokio::test]
async fn an_unprotected_effect_is_refused() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, (): ()| async move {
        ctx.step("wire", |_| async { Ok::<_, Failure>(()) }).non_idempotent().await
    };
    let options = WorkflowOptions::default().non_idempotent_effect("wire", EffectClass::Idempotent);
    let refused = bench.engine.register_with("pay", options, workflow).unwrap_err();
    assert!(matches!(refused, Error::UnprotectedEffect { .. }), "{refused}");
    bench.engine.register("pay", workflow).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    let error = run.result::<()>().await.unwrap_err().to_string();
    assert!(error.contains("unprotected_effect"), "{error}");
    let options = WorkflowOptions::default().non_idempotent_effect("wire", EffectClass::Claimed);
    bench.engine.register_with("undeclared", options, workflow).unwrap();
    let run = bench.engine.start("undeclared", &()).await.unwrap();
    let error = run.result::<()>().await.unwrap_err().to_string();
    assert!(error.contains("undeclared_effect"), "{error}");
}

#[tokio::test]
async fn the_journal_tells_of_claims_doubts_and_rulings() {
    let bench = Bench::new();
    let log = Log::default();
    let (second, run) = crashed(&bench, &log).await;
    let doubt = the_doubt(&bench, &second).await;
    second.resolve_doubt(&doubt.as_seen(), ruling(Resolution::DidNotHappen)).await.unwrap();
    bench.advancing(second.run(run).await.unwrap().result::<u32>()).await.unwrap();
    use hapax_engine::store::{ListJournal, Store};
    let all =
        ListJournal { workspace: Default::default(), run: Some(run), by_people: false, after: 0, limit: 100 };
    let notes = bench.store.list_journal(all).await.unwrap();
    let told: Vec<&str> = notes
        .iter()
        .filter(|placed| !matches!(placed.note.what, JournalEvent::Attempted { .. }))
        .map(|placed| match &placed.note.what {
            JournalEvent::Claimed { attempt: 1 } => "claimed 1",
            JournalEvent::Claimed { attempt: 2 } => "claimed 2",
            JournalEvent::Doubted { attempt: 1, .. } => "doubted 1",
            JournalEvent::Resolved { .. } => "resolved",
            _ => "other",
        })
        .collect();
    assert_eq!(told, ["claimed 1", "doubted 1", "resolved", "claimed 2"]);
}
