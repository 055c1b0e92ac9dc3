//! Runs executed to their end on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::Bench;
use hapax_engine::model::{ClosePolicy, RetryPolicy, RunStatus};
use hapax_engine::{Ctx, Error, Failure};

async fn five_steps(ctx: Ctx, n: u64) -> Result<u64, Failure> {
    let mut sum = 0;
    for i in 0..5 {
        sum += ctx.step("add", |_| async move { Ok::<_, Failure>(n + i) }).await?;
    }
    Ok(sum)
}

/// S0.5, S0.13, S0.34: one run per key, each step recorded once, two versions per step.
#[tokio::test]
async fn a_run_of_steps_completes_once_per_key() {
    let bench = Bench::new();
    bench.engine.register("five", five_steps).unwrap();
    let first = bench.engine.start("five", &10u64).idempotency_key("k").await.unwrap();
    let again = bench.engine.start("five", &10u64).idempotency_key("k").await.unwrap();
    assert!(first.created && !again.created);
    assert_eq!(first.id(), again.id());
    assert_eq!(again.result::<u64>().await.unwrap(), 60);
    let head = first.view().await.unwrap().head;
    assert_eq!(head.version.get(), 1 + 5 * 2 + 1);
    let other = bench.engine.start("five", &11u64).idempotency_key("k").await;
    assert!(matches!(other, Err(Error::KeyConflict { run, .. }) if run == first.id()));
    bench.check().await;
}

/// S3.16-S3.20: after a crash the records are replayed, and the effect key does not change.
#[tokio::test]
async fn a_crash_goes_on_from_the_last_record_under_the_same_keys() {
    let bench = Bench::new();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let workflow = {
        let seen = seen.clone();
        move |ctx: Ctx, _: ()| {
            let seen = seen.clone();
            async move {
                for name in ["a", "b", "c"] {
                    ctx.step(name, |attempt| {
                        seen.lock().unwrap().push(attempt.idempotency_key().to_string());
                        async { Ok::<_, Failure>(()) }
                    })
                    .await?;
                    if name == "b" {
                        ctx.create_promise::<()>("go").await?;
                    }
                }
                Ok::<_, Failure>(())
            }
        }
    };
    bench.engine.register("abc", workflow.clone()).unwrap();
    let run = bench.engine.start("abc", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;

    bench.engine.kill();
    let second = bench.restart();
    second.register("abc", workflow).unwrap();
    second.resolve_promise(&format!("{}:go", run.id()), &()).await.unwrap();
    second.run(run.id()).await.unwrap().result::<()>().await.unwrap();
    let expected: Vec<String> = ["a", "b", "c"].iter().map(|step| format!("{}:{step}", run.id())).collect();
    assert_eq!(*seen.lock().unwrap(), expected, "each once, under run:step");
    assert_eq!(second.stats().replays, 1);
    bench.check().await;
}

#[tokio::test]
async fn a_failing_step_is_tried_again_and_then_gives_up() {
    let bench = Bench::new();
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    bench
        .engine
        .register("flaky", move |ctx: Ctx, fail_times: u32| {
            let tries = counted.clone();
            async move {
                ctx.step("call", |_| {
                    let failing = tries.fetch_add(1, Ordering::SeqCst) < fail_times;
                    async move { if failing { Err(Failure::retryable("busy")) } else { Ok(7) } }
                })
                .retry(RetryPolicy::default().max_attempts(3))
                .await
            }
        })
        .unwrap();
    let run = bench.engine.start("flaky", &2u32).await.unwrap();
    assert_eq!(bench.advancing(run.result::<i32>()).await.unwrap(), 7);
    assert_eq!(tries.load(Ordering::SeqCst), 3);

    tries.store(0, Ordering::SeqCst);
    let run = bench.engine.start("flaky", &99u32).await.unwrap();
    let error = bench.advancing(run.result::<i32>()).await.unwrap_err();
    assert!(matches!(error, Error::Failed { .. }), "{error}");
    assert_eq!(tries.load(Ordering::SeqCst), 3, "the first counts");
    let reopened = run.retry(None).await.unwrap();
    assert_eq!(reopened.status(), RunStatus::Running);
    tries.store(100, Ordering::SeqCst);
    assert_eq!(bench.advancing(run.result::<i32>()).await.unwrap(), 7);
    bench.check().await;
}

#[tokio::test]
async fn a_panic_in_a_step_is_an_attempt_and_nothing_more() {
    let bench = Bench::new();
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    bench
        .engine
        .register("panics", move |ctx: Ctx, _: ()| {
            let tries = counted.clone();
            async move {
                ctx.step("call", |attempt| {
                    let tries = tries.clone();
                    async move {
                        tries.fetch_add(1, Ordering::SeqCst);
                        if attempt.number() == 1 {
                            panic!("a bug");
                        }
                        Ok::<_, Failure>(attempt.number())
                    }
                })
                .await
            }
        })
        .unwrap();
    let run = bench.engine.start("panics", &()).await.unwrap();
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 2);
    bench.check().await;
}

#[tokio::test]
async fn parallel_steps_run_side_by_side_and_are_each_recorded() {
    let bench = Bench::new();
    bench
        .engine
        .register("fan", |ctx: Ctx, n: u32| async move {
            let ctx = &ctx;
            let branches = (0..n).map(|i| async move {
                ctx.step(&format!("part-{i}"), |_| async move {
                    tokio::task::yield_now().await;
                    Ok::<_, Failure>(i)
                })
                .await
            });
            let mut sum = 0;
            for part in ctx.join_all(branches).await {
                sum += part?;
            }
            Ok::<_, Failure>(sum)
        })
        .unwrap();
    let run = bench.engine.start("fan", &100u32).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 4950);
    let head = run.view().await.unwrap().head;
    assert_eq!(head.version.get(), 1 + 100 * 2 + 1);
    bench.check().await;
}

#[tokio::test]
async fn a_sleep_outlives_the_process() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        ctx.sleep(Duration::from_secs(24 * 3600)).await?;
        Ok::<_, Failure>("awake".to_string())
    };
    bench.engine.register("sleeper", workflow).unwrap();
    let run = bench.engine.start("sleeper", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("sleeper", workflow).unwrap();
    bench.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(second.run(run.id()).await.unwrap().result::<String>().await.unwrap(), "awake");
    bench.check().await;
}

#[tokio::test]
async fn children_are_started_once_and_awaited() {
    let bench = Bench::new();
    bench.engine.register("five", five_steps).unwrap();
    bench
        .engine
        .register("parent", |ctx: Ctx, _: ()| async move {
            let ctx = &ctx;
            let sums =
                ctx.join_all((0..10u64).map(|n| async move { ctx.child::<_, u64>("five", &n).await })).await;
            sums.into_iter().sum::<Result<u64, Failure>>()
        })
        .unwrap();
    let run = bench.engine.start("parent", &()).await.unwrap();
    assert_eq!(run.result::<u64>().await.unwrap(), (0..10).map(|n| 5 * n + 10).sum::<u64>());
    assert_eq!(bench.count_runs().await, 11);
    bench.check().await;
}

#[tokio::test]
async fn cancelling_a_parent_cancels_its_child_unless_it_is_abandoned() {
    let bench = Bench::new();
    bench.engine.register("child", |ctx: Ctx, _: ()| async move { ctx.signal::<()>("never").await }).unwrap();
    bench
        .engine
        .register("parent", |ctx: Ctx, abandon: bool| async move {
            let policy = if abandon { ClosePolicy::Abandon } else { ClosePolicy::Cancel };
            ctx.child::<_, ()>("child", &()).on_close(policy).await
        })
        .unwrap();
    for (abandon, expected) in [(false, RunStatus::Cancelled), (true, RunStatus::Waiting)] {
        let run = bench.engine.start("parent", &abandon).await.unwrap();
        let child = bench.child_of(run.id()).await;
        bench.until(child, RunStatus::Waiting).await;
        bench.until(run.id(), RunStatus::Waiting).await;
        run.cancel("enough").await.unwrap();
        bench.until(run.id(), RunStatus::Cancelled).await;
        bench.until(child, expected).await;
    }
    bench.check().await;
}

#[tokio::test]
async fn a_cancelled_run_undoes_its_effects_last_first() {
    let bench = Bench::new();
    let log = crate::support::Log::default();
    let kept = log.clone();
    bench
        .engine
        .register("saga", move |ctx: Ctx, _: ()| {
            let log = kept.clone();
            async move {
                for name in ["flight", "hotel"] {
                    let undo = log.clone();
                    log.step(&ctx, name)
                        .compensate(move |_, booked: String| {
                            undo.add(format!("undo {booked}"));
                            async { Ok::<_, Failure>(()) }
                        })
                        .await?;
                }
                ctx.signal::<()>("never").await
            }
        })
        .unwrap();
    let run = bench.engine.start("saga", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    run.cancel("changed my mind").await.unwrap();
    assert!(matches!(run.result::<()>().await, Err(Error::Cancelled { .. })));
    assert_eq!(log.read(), ["do flight", "do hotel", "undo hotel", "undo flight"]);
    assert!(run.retry(None).await.unwrap_err().to_string().contains("CANCELLED"));
    bench.check().await;
}

#[tokio::test]
async fn a_scope_that_fails_is_undone_and_the_workflow_goes_on() {
    let bench = Bench::new();
    let log = crate::support::Log::default();
    let kept = log.clone();
    bench
        .engine
        .register("scoped", move |ctx: Ctx, _: ()| {
            let log = kept.clone();
            async move {
                let undo = log.clone();
                let tried = ctx
                    .scope(|ctx| async move {
                        log.step(&ctx, "first")
                            .compensate(move |_, what: String| {
                                undo.add(format!("undo {what}"));
                                async { Ok::<_, Failure>(()) }
                            })
                            .await?;
                        Err::<(), _>(Failure::permanent("no seats"))
                    })
                    .await;
                ctx.step("after", |_| async { Ok::<_, Failure>(tried.is_err()) }).await
            }
        })
        .unwrap();
    let run = bench.engine.start("scoped", &()).await.unwrap();
    assert!(run.result::<bool>().await.unwrap());
    assert_eq!(log.read(), ["do first", "undo first"]);
    bench.check().await;
}

#[tokio::test]
async fn signals_are_kept_and_not_repeated() {
    let bench = Bench::new();
    bench
        .engine
        .register("collect", |ctx: Ctx, n: u32| async move {
            let mut got = Vec::new();
            ctx.create_promise::<()>("go").await?;
            for _ in 0..n {
                got.push(ctx.signal::<u32>("item").await?);
            }
            Ok::<_, Failure>(got)
        })
        .unwrap();
    let run = bench.engine.start("collect", &3u32).await.unwrap();
    assert!(run.signal("item", &1, Some("s1")).await.unwrap(), "kept before anybody waits");
    assert!(!run.signal("item", &1, Some("s1")).await.unwrap(), "a resend is not a second signal");
    bench.until_promise(&format!("{}:go", run.id())).await;
    bench.engine.resolve_promise(&format!("{}:go", run.id()), &()).await.unwrap();
    run.signal("other", &9, None).await.unwrap();
    run.signal("item", &2, None).await.unwrap();
    run.signal("item", &3, None).await.unwrap();
    assert_eq!(run.result::<Vec<u32>>().await.unwrap(), [1, 2, 3]);
    assert!(matches!(run.signal("item", &4, None).await, Err(Error::RunEnded { .. })));
    bench.check().await;
}

#[tokio::test]
async fn the_first_branch_wins_and_the_choice_is_remembered() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        let promise = ctx.create_promise::<String>("answer");
        let late = async { ctx.sleep(Duration::from_secs(60)).await.map(|()| "late".to_string()) };
        let (first, value) = ctx.select((promise, late)).await?;
        ctx.create_promise::<()>("hold").await?;
        Ok::<_, Failure>((first, value?))
    };
    bench.engine.register("race", workflow).unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.clock.advance(Duration::from_secs(60));
    bench.until_promise(&format!("{}:hold", run.id())).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("race", workflow).unwrap();
    // The losing branch is settled only now. The replay must not choose it.
    second.resolve_promise(&format!("{}:answer", run.id()), &"early").await.unwrap();
    second.resolve_promise(&format!("{}:hold", run.id()), &()).await.unwrap();
    let outcome = second.run(run.id()).await.unwrap().result::<(usize, String)>().await.unwrap();
    assert_eq!(outcome, (1, "late".to_string()));
    bench.check().await;
}

#[tokio::test]
async fn continue_as_new_keeps_id_and_key_and_drops_the_history() {
    let bench = Bench::new();
    bench
        .engine
        .register("loop", |ctx: Ctx, n: u32| async move {
            let next = ctx.step("tick", |_| async move { Ok::<_, Failure>(n + 1) }).await?;
            if next < 50 {
                return ctx.continue_as_new(&next);
            }
            Ok(next)
        })
        .unwrap();
    let run = bench.engine.start("loop", &0u32).idempotency_key("cron").await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 50);
    let log = bench.engine.get_log(run.id()).await.unwrap();
    assert_eq!((log.steps.len(), log.head.generation.get()), (1, 49));
    assert!(!bench.engine.start("loop", &0u32).idempotency_key("cron").await.unwrap().created);
    bench.check().await;
}

#[tokio::test]
async fn pause_holds_a_run_and_resume_lets_it_go_on() {
    let bench = Bench::new();
    bench.engine.register("waits", |ctx: Ctx, _: ()| async move { ctx.signal::<u32>("go").await }).unwrap();
    let run = bench.engine.start("waits", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    run.pause().await.unwrap();
    run.signal("go", &5, None).await.unwrap();
    assert_eq!(bench.engine.claim_due_runs().await.unwrap(), 0, "a paused run is not due");
    assert_eq!(run.view().await.unwrap().head.status(), RunStatus::Paused);
    run.resume().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
    assert_eq!(run.resume().await.unwrap().status(), RunStatus::Completed, "the answer is where it stands");
    bench.check().await;
}

#[tokio::test]
async fn a_run_past_its_deadline_fails_and_is_undone() {
    let bench = Bench::new();
    bench.engine.register("waits", |ctx: Ctx, _: ()| async move { ctx.signal::<u32>("go").await }).unwrap();
    let run = bench.engine.start("waits", &()).deadline(Duration::from_secs(60)).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.clock.advance(Duration::from_secs(60));
    let error = run.result::<u32>().await.unwrap_err();
    assert!(error.to_string().contains("deadline"), "{error}");
    bench.check().await;
}

#[tokio::test]
async fn changed_code_is_told_apart_before_it_does_anything() {
    let bench = Bench::new();
    bench
        .engine
        .register("order", |ctx: Ctx, _: ()| async move {
            ctx.step("reserve", |_| async { Ok::<_, Failure>(1) }).await?;
            ctx.signal::<()>("go").await
        })
        .unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    let entered = Arc::new(AtomicU32::new(0));
    let counted = entered.clone();
    second
        .register("order", move |ctx: Ctx, _: ()| {
            let entered = counted.clone();
            async move {
                ctx.step("charge", |_| {
                    entered.fetch_add(1, Ordering::SeqCst);
                    async { Ok::<_, Failure>(1) }
                })
                .await?;
                ctx.signal::<()>("go").await
            }
        })
        .unwrap();
    second.signal(run.id(), "go", &(), None).await.unwrap();
    let error = second.run(run.id()).await.unwrap().result::<()>().await.unwrap_err().to_string();
    assert!(error.contains("DeterminismViolation") && error.contains("reserve"), "{error}");
    assert_eq!(entered.load(Ordering::SeqCst), 0, "the deviating code did nothing");
    bench.check().await;
}

#[tokio::test]
async fn a_step_that_takes_long_is_seen_running() {
    let bench = Bench::new();
    let (open, gate) = tokio::sync::watch::channel(false);
    bench
        .engine
        .register("slow", move |ctx: Ctx, _: ()| {
            let gate = gate.clone();
            async move {
                ctx.step("wire", |_| {
                    let mut gate = gate.clone();
                    async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
                })
                .retry(RetryPolicy::default())
                .await
            }
        })
        .unwrap();
    let run = bench.engine.start("slow", &()).await.unwrap();
    bench.until_step(run.id(), "wire", hapax_engine::model::StepStatus::Running).await;
    open.send(true).unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(run.view().await.unwrap().head.version.get(), 1 + 2 + 1, "marked or not, two versions");
    bench.check().await;
}

#[tokio::test]
async fn blocking_code_runs_on_its_own_thread() {
    let bench = Bench::new();
    bench
        .engine
        .register("blocking", |ctx: Ctx, n: u64| async move {
            ctx.step_blocking("work", move |_| Ok::<_, Failure>((0..=n).sum::<u64>())).await
        })
        .unwrap();
    let run = bench.engine.start("blocking", &100u64).await.unwrap();
    assert_eq!(run.result::<u64>().await.unwrap(), 5050);
    bench.check().await;
}

#[tokio::test]
async fn shutdown_lets_go_in_good_order() {
    let bench = Bench::new();
    bench
        .engine
        .register("waits", |ctx: Ctx, _: ()| async move {
            ctx.step("one", |_| async { Ok::<_, Failure>(()) }).await?;
            ctx.signal::<u32>("go").await
        })
        .unwrap();
    let run = bench.engine.start("waits", &()).await.unwrap();
    bench.engine.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(bench.engine.active_runs(), 0);
    assert!(matches!(bench.engine.start("waits", &()).await, Err(Error::ShuttingDown)));
    let second = bench.restart();
    assert!(second.get(run.id()).await.unwrap().head.state.lease().is_none(), "no lease is left behind");
    bench.check().await;
}

#[tokio::test]
async fn bad_input_is_refused_with_a_clear_text_and_changes_nothing() {
    let bench = Bench::new();
    bench.engine.register("five", five_steps).unwrap();
    assert!(bench.engine.register("five", five_steps).is_err());
    assert!(bench.engine.register("no good", five_steps).is_err());
    for (what, refused) in [
        ("unknown workflow", bench.engine.start("nobody", &1u64).await),
        ("empty key", bench.engine.start("five", &1u64).idempotency_key("").await),
        ("long key", bench.engine.start("five", &1u64).idempotency_key("k".repeat(256)).await),
        ("NUL", bench.engine.start("five", "a\0b").await),
        ("endless delay", bench.engine.start("five", &1u64).delay(Duration::MAX).await),
    ] {
        let error = refused.expect_err(what).to_string();
        assert!(!error.is_empty());
    }
    assert_eq!(bench.count_runs().await, 0);
    let run = bench.engine.start("five", "not a number").await.unwrap();
    let error = run.result::<u64>().await.unwrap_err().to_string();
    assert!(error.contains("does not fit"), "{error}");
    bench.check().await;
}

#[tokio::test]
async fn bad_names_and_outputs_fail_the_run_with_a_text_that_says_why() {
    let bench = Bench::new();
    bench
        .engine
        .register("bad", |ctx: Ctx, what: String| async move {
            match what.as_str() {
                "empty name" => ctx.step("", |_| async { Ok::<_, Failure>(String::new()) }).await,
                "long name" => {
                    ctx.step(&"n".repeat(129), |_| async { Ok::<_, Failure>(String::new()) }).await
                }
                "odd name" => ctx.step("a#2", |_| async { Ok::<_, Failure>(String::new()) }).await,
                "NUL" => ctx.step("nul", |_| async { Ok::<_, Failure>("a\0b".to_string()) }).await,
                "huge" => ctx.step("huge", |_| async { Ok::<_, Failure>("x".repeat(3 << 20)) }).await,
                "endless sleep" => ctx.sleep(Duration::MAX).await.map(|()| String::new()),
                "unknown child" => ctx.child::<_, String>("nobody", &()).await,
                _ => Ok(what),
            }
        })
        .unwrap();
    for (what, expected) in [
        ("empty name", "not a valid name"),
        ("long name", "not a valid name"),
        ("odd name", "not a valid name"),
        ("NUL", "NUL"),
        ("huge", "over the limit"),
        ("endless sleep", "out of range"),
        ("unknown child", "no workflow"),
    ] {
        let run = bench.engine.start("bad", what).await.unwrap();
        let error = run.result::<String>().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{what}: {error}");
    }
    let run = bench.engine.start("bad", "fine").await.unwrap();
    let error = run.result::<u64>().await.unwrap_err().to_string();
    assert!(error.contains("does not fit"), "{error}");
    bench.check().await;
}

#[tokio::test]
async fn a_record_that_no_longer_fits_the_code_is_reported_and_not_repeated() {
    let bench = Bench::new();
    bench
        .engine
        .register("typed", |ctx: Ctx, _: ()| async move {
            ctx.step("n", |_| async { Ok::<_, Failure>("seven".to_string()) }).await?;
            ctx.signal::<()>("go").await
        })
        .unwrap();
    let run = bench.engine.start("typed", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second
        .register("typed", |ctx: Ctx, _: ()| async move {
            ctx.step("n", |_| async { Ok::<_, Failure>(7u64) }).await?;
            ctx.signal::<()>("go").await
        })
        .unwrap();
    second.signal(run.id(), "go", &(), None).await.unwrap();
    let error = second.run(run.id()).await.unwrap().result::<()>().await.unwrap_err().to_string();
    assert!(error.contains("does not fit the type"), "{error}");
    bench.check().await;
}

#[tokio::test]
async fn join_all_and_select_take_steps_as_they_are() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        let steps = (1..=3u64).map(|n| ctx.step("double", move |_| async move { Ok::<_, Failure>(2 * n) }));
        let doubled = ctx.join_all(steps).await.into_iter().collect::<Result<Vec<u64>, Failure>>()?;
        let never = ctx.signal::<u64>("never");
        let seven = ctx.step("seven", |_| async { Ok::<_, Failure>(7u64) });
        let (first, value) = ctx.select((never, seven)).await?;
        Ok::<_, Failure>((doubled, first, value?))
    };
    bench.engine.register("steps", workflow).unwrap();
    let run = bench.engine.start("steps", &()).await.unwrap();
    let output: (Vec<u64>, usize, u64) = bench.advancing(run.result()).await.unwrap();
    assert_eq!(output, (vec![2, 4, 6], 1, 7));
    bench.check().await;
}

/// Invariant 43: either the settlement or the timeout wins, and the loser gets an error.
#[tokio::test]
async fn a_promise_times_out_or_is_settled_never_both() {
    let bench = Bench::new();
    bench
        .engine
        .register("waits", |ctx: Ctx, _: ()| async move {
            ctx.create_promise::<u32>("answer").timeout(Duration::from_secs(60)).await
        })
        .unwrap();
    let run = bench.engine.start("waits", &()).await.unwrap();
    let promise = format!("{}:answer", run.id());
    bench.until_promise(&promise).await;
    bench.clock.advance(Duration::from_secs(60));
    assert!(matches!(bench.engine.resolve_promise(&promise, &1).await, Err(Error::PromiseTimedOut)));
    let error = run.result::<u32>().await.unwrap_err().to_string();
    assert!(error.contains("not settled in time"), "{error}");

    let run = bench.engine.start("waits", &()).await.unwrap();
    let promise = format!("{}:answer", run.id());
    bench.until_promise(&promise).await;
    bench.clock.advance(Duration::from_secs(59));
    bench.engine.reject_promise(&promise, Failure::permanent("card declined")).await.unwrap();
    let error = run.result::<u32>().await.unwrap_err().to_string();
    assert!(error.contains("card declined"), "{error}");
    bench.check().await;
}

/// Invariant 45: a run that is cancelled in the middle of an effect lets it finish, records it, and starts
/// nothing new.
#[tokio::test]
async fn a_cancelled_run_lets_its_effect_end_and_starts_no_other() {
    let bench = Bench::new();
    let log = crate::support::Log::default();
    let (open, gate) = tokio::sync::watch::channel(false);
    let kept = log.clone();
    bench
        .engine
        .register("pay", move |ctx: Ctx, _: ()| {
            let (log, gate) = (kept.clone(), gate.clone());
            async move {
                let undo = log.clone();
                ctx.step("charge", |_| {
                    log.add("do charge".into());
                    let mut gate = gate.clone();
                    async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
                })
                .compensate(move |_, ()| {
                    undo.add("undo charge".into());
                    async { Ok::<_, Failure>(()) }
                })
                .await?;
                log.step(&ctx, "mail").await
            }
        })
        .unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    bench.eventually("the charge is under way", async || (!log.read().is_empty()).then_some(())).await;
    run.cancel("enough").await.unwrap();
    open.send(true).unwrap();
    assert!(matches!(run.result::<String>().await, Err(Error::Cancelled { .. })));
    assert_eq!(log.read(), ["do charge", "undo charge"]);
    bench.check().await;
}

#[tokio::test]
async fn a_shielded_part_is_finished_before_a_cancellation_takes_hold() {
    let bench = Bench::new();
    let log = crate::support::Log::default();
    let (open, gate) = tokio::sync::watch::channel(false);
    let kept = log.clone();
    bench
        .engine
        .register("pay", move |ctx: Ctx, _: ()| {
            let (log, gate) = (kept.clone(), gate.clone());
            async move {
                ctx.shield(async {
                    ctx.step("debit", |_| {
                        log.add("do debit".into());
                        let mut gate = gate.clone();
                        async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
                    })
                    .await?;
                    log.step(&ctx, "credit").await
                })
                .await?;
                log.step(&ctx, "mail").await
            }
        })
        .unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    bench.eventually("the debit is under way", async || (!log.read().is_empty()).then_some(())).await;
    run.cancel("enough").await.unwrap();
    open.send(true).unwrap();
    assert!(matches!(run.result::<String>().await, Err(Error::Cancelled { .. })));
    assert_eq!(log.read(), ["do debit", "do credit"]);
    bench.check().await;
}

#[tokio::test]
async fn a_failed_run_can_be_taken_up_from_a_named_step() {
    let bench = Bench::new();
    let log = crate::support::Log::default();
    let kept = log.clone();
    let broken = Arc::new(AtomicU32::new(1));
    let switch = broken.clone();
    bench
        .engine
        .register("pay", move |ctx: Ctx, _: ()| {
            let (log, broken) = (kept.clone(), switch.clone());
            async move {
                log.step(&ctx, "a").await?;
                log.step(&ctx, "b").await?;
                if broken.load(Ordering::SeqCst) == 1 {
                    return Err(Failure::permanent("out of stock"));
                }
                log.step(&ctx, "c").await
            }
        })
        .unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    assert!(run.result::<String>().await.is_err());
    broken.store(0, Ordering::SeqCst);
    assert!(matches!(run.retry(Some("nope")).await, Err(Error::Refused { .. })));
    run.retry(Some("b")).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "c");
    assert_eq!(log.read(), ["do a", "do b", "do b", "do c"]);
    bench.check().await;
}

/// S0.25, S0.28: a command on an old version is refused and changes nothing.
#[tokio::test]
async fn a_command_on_a_stale_version_is_refused() {
    let bench = Bench::new();
    bench.engine.register("waits", |ctx: Ctx, _: ()| async move { ctx.signal::<u32>("go").await }).unwrap();
    let run = bench.engine.start("waits", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    let seen = run.view().await.unwrap().head.version;
    run.pause().await.unwrap();
    let cancel = hapax_engine::model::RunCommand::Cancel { reason: "late".into() };
    let error = bench.engine.command_run(run.id(), cancel, Some(seen)).await.unwrap_err();
    assert!(matches!(error, Error::Concurrency { .. }));
    assert!(error.to_string().contains("was modified concurrently"), "{error}");
    assert_eq!(run.view().await.unwrap().head.status(), RunStatus::Paused);
    bench.check().await;
}

#[tokio::test]
async fn a_subject_has_one_open_run_and_priority_goes_first() {
    let bench = Bench::new();
    bench.engine.register("refund", |ctx: Ctx, _: ()| async move { ctx.signal::<u32>("go").await }).unwrap();
    let first = bench.engine.start("refund", &()).subject("R123").await.unwrap();
    let second = bench.engine.start("refund", &()).subject("R123").await;
    assert!(matches!(second, Err(Error::SubjectBusy { run }) if run == first.id()));
    first.signal("go", &1, None).await.unwrap();
    first.result::<u32>().await.unwrap();
    assert!(bench.engine.start("refund", &()).subject("R123").await.unwrap().created);
    bench.check().await;
}
