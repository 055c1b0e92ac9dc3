//! Two engines on one store: which of them executes a run, and what a late one may still do.

use std::sync::Arc;
use std::time::Duration;

use crate::support::cut_off::CutOff;
use crate::support::{Bench, Log};
use hapax_engine::clock::SystemClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{RetryPolicy, RunStatus, StepStatus, Timestamp, WorkspaceId};
use hapax_engine::store::Store;
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
use tokio::sync::watch;

const LEASE: Duration = Duration::from_secs(30);

/// Workflow whose first step waits at the gate of its own node.
fn gated(
    log: &Log,
    node: &'static str,
    gate: watch::Receiver<bool>,
) -> impl Fn(Ctx, ()) -> Work + Clone + use<> {
    let log = log.clone();
    move |ctx: Ctx, _: ()| {
        let (log, gate) = (log.clone(), gate.clone());
        Box::pin(async move {
            for name in ["wire", "mail"] {
                ctx.step(name, |_| {
                    let (log, mut gate) = (log.clone(), gate.clone());
                    async move {
                        log.add(format!("{node} {name}"));
                        gate.wait_for(|open| *open)
                            .await
                            .map(|_| node.to_string())
                            .map_err(Failure::retryable)
                    }
                })
                .await?;
            }
            Ok(node.to_string())
        })
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = Result<String, Failure>> + Send>>;

/// S0.20, S0.26, S3.6, S3.8, S3.9, S3.18, invariant 21: a node without its lease writes nothing and starts
/// nothing.
#[tokio::test]
async fn a_paused_worker_cannot_record_after_takeover() {
    let bench = Bench::new();
    let log = Log::default();
    let line = CutOff::new(bench.store.clone());
    let late = Engine::launch(line.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
    let (open_late, gate_late) = watch::channel(false);
    let (open_next, gate_next) = watch::channel(true);
    late.register("pay", gated(&log, "late", gate_late)).unwrap();
    let run = late.start("pay", &()).await.unwrap();
    bench.eventually("the late node is in its step", async || (!log.read().is_empty()).then_some(())).await;

    line.cut(true);
    bench.clock.advance(LEASE);
    bench.engine.register("pay", gated(&log, "next", gate_next)).unwrap();
    let result = bench.engine.run(run.id()).await.unwrap().result::<String>().await.unwrap();
    assert_eq!(result, "next");
    assert_eq!(bench.engine.stats().takeovers, 1);

    line.cut(false);
    open_late.send(true).unwrap();
    bench.eventually("the late node has let go", async || (late.active_runs() == 0).then_some(())).await;
    assert_eq!(log.read(), ["late wire", "next wire", "next mail"], "the late node starts nothing new");
    let steps = bench.engine.get_log(run.id()).await.unwrap().steps;
    assert!(
        steps.iter().all(|step| step.fence.get() == 2),
        "all that stands was written under the new fence"
    );
    drop(open_next);
    bench.check().await;
}

/// S3.11, invariant 20: the holder renews the lease during a step that takes longer than the lease.
#[tokio::test]
async fn a_slow_step_keeps_its_lease() {
    let bench = Bench::new();
    let log = Log::default();
    let (open, gate) = watch::channel(false);
    bench.engine.register("pay", gated(&log, "slow", gate.clone())).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    bench.until_step(run.id(), "wire", StepStatus::Running).await;
    let other = Engine::launch(bench.store.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
    other.register("pay", gated(&log, "other", gate)).unwrap();
    for _ in 0..40 {
        bench.clock.advance(LEASE / 4);
        // Renewals and polls have their turn before the clock moves.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(other.claim_due_runs().await.unwrap(), 0, "the lease is alive");
    }
    open.send(true).unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "slow");
    assert_eq!(run.view().await.unwrap().head.fence.get(), 1);
    bench.check().await;
}

/// S3.1, S3.5, S3.3, S3.4: overlapping polls, signals and resumes execute a run once.
#[tokio::test]
async fn overlapping_calls_drive_a_run_once() {
    let bench = Bench::new();
    let log = Log::default();
    let kept = log.clone();
    bench
        .engine
        .register("once", move |ctx: Ctx, _: ()| {
            let log = kept.clone();
            async move {
                let n = ctx.signal::<u32>("go").await?;
                log.step(&ctx, "act").await?;
                Ok::<_, Failure>(n)
            }
        })
        .unwrap();
    for _ in 0..50 {
        let run = bench.engine.start("once", &()).await.unwrap();
        bench.until(run.id(), RunStatus::Waiting).await;
        let calls = tokio::join!(
            bench.engine.claim_due_runs(),
            run.signal("go", &1, Some("a")),
            run.signal("go", &1, Some("a")),
            run.resume(),
            bench.engine.claim_due_runs(),
        );
        assert!(calls.1.is_ok() && calls.2.is_ok() && calls.3.is_ok());
        assert_eq!(run.result::<u32>().await.unwrap(), 1);
    }
    assert_eq!(log.read().len(), 50);
    bench.check().await;
}

/// Invariant 35: crashed attempts count, so a step that kills its worker is not retried without end.
#[tokio::test]
async fn a_step_that_kills_every_worker_is_given_up() {
    let bench = Bench::new();
    let log = Log::default();
    let workflow = {
        let log = log.clone();
        move |ctx: Ctx, attempts: u32| {
            let log = log.clone();
            async move {
                ctx.step("poison", |_| {
                    log.add("entered".into());
                    std::future::pending::<Result<(), Failure>>()
                })
                .retry(RetryPolicy::default().max_attempts(attempts))
                .await
            }
        }
    };
    for attempts in [1, 3] {
        let before = log.read().len();
        let mut engine =
            Engine::launch(bench.store.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
        engine.register("poison", workflow.clone()).unwrap();
        let run = engine.start("poison", &attempts).await.unwrap();
        for died in 1..=attempts {
            bench
                .eventually("the step is entered", async || {
                    (log.read().len() == before + died as usize).then_some(())
                })
                .await;
            engine.kill();
            engine = bench.restart();
            engine.register("poison", workflow.clone()).unwrap();
        }
        let error = engine.run(run.id()).await.unwrap().result::<()>().await.unwrap_err().to_string();
        assert!(error.contains("vanished"), "{error}");
        assert_eq!(log.read().len(), before + attempts as usize);
    }
    bench.check().await;
}

/// A node that cannot reach the store for a while waits, and continues if it still has its lease.
#[tokio::test]
async fn a_short_outage_costs_time_and_nothing_else() {
    let bench = Bench::new();
    let log = Log::default();
    let line = CutOff::new(bench.store.clone());
    let store: Arc<dyn Store> = line.clone();
    let node = Engine::launch(store, bench.clock.clone(), EngineOptions::default()).unwrap();
    let (open, gate) = watch::channel(false);
    node.register("pay", gated(&log, "node", gate)).unwrap();
    let run = node.start("pay", &()).await.unwrap();
    bench.eventually("it is in its step", async || (!log.read().is_empty()).then_some(())).await;
    line.cut(true);
    open.send(true).unwrap();
    for _ in 0..20 {
        bench.clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
    line.cut(false);
    assert_eq!(bench.advancing(run.result::<String>()).await.unwrap(), "node");
    assert_eq!(log.read(), ["node wire", "node mail"]);
    bench.check().await;
}

/// The record of a step is durable before the next effect begins. Until then a crash repeats one step, not
/// two.
#[tokio::test]
async fn an_effect_begins_only_when_all_before_it_is_durable() {
    let bench = Bench::new();
    let log = Log::default();
    let line = CutOff::new(bench.store.clone());
    let node = Engine::launch(line.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
    let (_open, gate) = watch::channel(true);
    node.register("pay", gated(&log, "node", gate)).unwrap();
    line.hold(true);
    let run = node.start("pay", &()).await.unwrap();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.read(), ["node wire"], "the record of the first step is still on its way");
    line.hold(false);
    assert_eq!(run.result::<String>().await.unwrap(), "node");
    assert_eq!(log.read(), ["node wire", "node mail"]);
    bench.check().await;
}

/// A lease that is renewed must not keep a run whose commit is never answered.
#[tokio::test]
async fn a_write_that_is_never_answered_does_not_hold_its_run_for_ever() {
    let bench = Bench::new();
    let log = Log::default();
    let line = CutOff::new(bench.store.clone());
    let node = Engine::launch(line.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
    let (_open, gate) = watch::channel(true);
    node.register("pay", gated(&log, "node", gate.clone())).unwrap();
    line.hold(true);
    let run = node.start("pay", &()).await.unwrap();
    bench.eventually("it is in its step", async || (!log.read().is_empty()).then_some(())).await;
    let given_up = async {
        while node.active_runs() > 0 {
            tokio::task::yield_now().await;
        }
    };
    bench.advancing(given_up).await;
    // The engine might claim the run again and get stuck again. After ten times in a row the run would be
    // quarantined.
    line.cut(true);
    bench.engine.register("pay", gated(&log, "other", gate)).unwrap();
    let other = bench.engine.run(run.id()).await.unwrap();
    assert_eq!(bench.advancing(other.result::<String>()).await.unwrap(), "other");
    assert_eq!(log.read(), ["node wire", "other wire", "other mail"]);
    bench.check().await;
}

/// Invariant 35: after three attempts that crashes cut off, there is no fourth.
#[tokio::test]
async fn a_second_try_that_a_crash_cuts_off_counts() {
    let bench = Bench::new();
    let log = Log::default();
    let work = |log: &Log| {
        let log = log.clone();
        move |ctx: Ctx, _: ()| {
            let log = log.clone();
            async move {
                let step = ctx.step("wire", |attempt| {
                    log.add(format!("try {}", attempt.number()));
                    async move {
                        match attempt.number() {
                            1 => Err(Failure::retryable("not now")),
                            _ => std::future::pending::<Result<(), _>>().await,
                        }
                    }
                });
                step.retry(RetryPolicy::default().max_attempts(3)).await
            }
        }
    };
    bench.engine.register("pay", work(&log)).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    let tried = async |count: usize| {
        bench.eventually("a try", async || (log.read().len() == count).then_some(())).await;
    };
    tried(2).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("pay", work(&log)).unwrap();
    tried(3).await;
    second.kill();
    let third = bench.restart();
    third.register("pay", work(&log)).unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    assert_eq!(log.read(), ["try 1", "try 2", "try 3"]);
    bench.check().await;
}

/// Invariant 41: an arrival through another node wakes a run that is being executed.
#[tokio::test]
async fn a_signal_by_way_of_another_node_wakes_a_run_that_is_about_to_park() {
    let bench = Bench::new();
    let log = Log::default();
    let (open, gate) = watch::channel(false);
    let (kept, held) = (log.clone(), gate.clone());
    bench
        .engine
        .register("pay", move |ctx: Ctx, _: ()| {
            let (log, gate) = (kept.clone(), held.clone());
            async move {
                ctx.step("wire", |_| {
                    log.add("wire".into());
                    let mut gate = gate.clone();
                    async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
                })
                .await?;
                ctx.signal::<u32>("go").await
            }
        })
        .unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    bench.eventually("it is in its step", async || (!log.read().is_empty()).then_some(())).await;
    let other = Engine::launch(bench.store.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
    other.signal(run.id(), "go", &7, None).await.unwrap();
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 7);
    drop(gate);
    bench.check().await;
}

/// Invariant 32: while a commit parks the run, no effect may begin that the commit does not contain.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_being_parked_begins_no_effect() {
    let clock = Arc::new(SystemClock::following_tokio(Timestamp::EPOCH));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let line = CutOff::new(store.clone());
    // There is room for one run only, so the run is not claimed again before the reply arrives.
    let options = EngineOptions { max_active: 1, ..EngineOptions::default() };
    let engine = Engine::launch(line.clone(), clock, options).unwrap();
    let seen = store.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let store = seen.clone();
        async move {
            let run = ctx.run_id();
            let tries = ctx.step("call", |attempt| {
                let store = store.clone();
                async move {
                    if attempt.number() == 1 {
                        return Err(Failure::retryable("busy").retry_after(Duration::from_secs(2)));
                    }
                    let view =
                        store.find_run(&WorkspaceId::default(), run).await.map_err(Failure::retryable)?;
                    Ok(view.is_some_and(|view| view.head.state.lease().is_some()))
                }
            });
            tries.await
        }
    };
    engine.register("calls", workflow).unwrap();
    let run = engine.start("calls", &()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    // The run does not wait for this signal. It parks again, and learns of that only after the next attempt
    // is due.
    line.answer_after(Duration::from_secs(1));
    run.signal("other", &(), None).await.unwrap();
    assert!(run.result::<bool>().await.unwrap(), "the second try began without a lease");
}

/// A renewal is confirmed only after the lease had to count as lost.
#[tokio::test(start_paused = true)]
async fn a_lease_renewed_late_lets_the_run_go_on() {
    let clock = Arc::new(SystemClock::following_tokio(Timestamp::EPOCH));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let line = CutOff::new(store);
    let engine = Engine::launch(line.clone(), clock, EngineOptions::default()).unwrap();
    let slow = |ctx: Ctx, _: ()| async move {
        // Renewed at 10 s, the lease is safe until 37 s. The renewal of 20 s is answered a little later.
        let until_then = Duration::from_millis(37_200);
        ctx.step("slow", move |_| async move {
            tokio::time::sleep(until_then).await;
            Ok::<_, Failure>(())
        })
        .await?;
        ctx.step("next", |_| async { Ok::<_, Failure>(()) }).await
    };
    engine.register("slow", slow).unwrap();
    let run = engine.start("slow", &()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    line.answer_renewals_after(Duration::from_millis(17_500));
    tokio::time::sleep(Duration::from_secs(10)).await;
    line.answer_renewals_after(Duration::ZERO);
    let ended = tokio::time::timeout(LEASE * 4, run.result::<()>()).await;
    ended.expect("the run goes on").unwrap();
    assert_eq!(engine.stats().takeovers, 0);
}

/// G3.2, S3.18: when its start is confirmed, a run may already have been taken over from the node that
/// started it.
#[tokio::test(start_paused = true)]
async fn a_start_confirmed_late_does_not_begin_the_run_again() {
    let clock = Arc::new(SystemClock::following_tokio(Timestamp::EPOCH));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let line = CutOff::new(store);
    let engine = Engine::launch(line.clone(), clock, EngineOptions::default()).unwrap();
    let log = Log::default();
    let kept = log.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let log = kept.clone();
        async move {
            log.step(&ctx, "quick").await?;
            let slow = log.clone();
            ctx.step("slow", move |_| {
                slow.add("do slow".into());
                async {
                    tokio::time::sleep(LEASE).await;
                    Ok::<_, Failure>(())
                }
            })
            .await
        }
    };
    engine.register("order", workflow).unwrap();
    line.lose_next_start(LEASE + Duration::from_secs(10));
    let run = engine.start("order", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(engine.stats().takeovers, 1);
    assert_eq!(log.read(), ["do quick", "do slow"], "each once");
}
