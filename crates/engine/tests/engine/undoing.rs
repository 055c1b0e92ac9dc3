//! Effects are undone whenever a cancellation comes.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::cut_off::CutOff;
use crate::support::{Bench, Log};
use hapax_engine::clock::ManualClock;
use hapax_engine::ctx::{Attempt, Step, StepFuture};
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{
    Actor, CANCEL_TOO_LATE, LedgerOutcome, OnDoubt, PendingRequest, Resolution, RetryPolicy, Role, Ruling,
    RunResult, RunStatus, StepStatus, Version,
};
use hapax_engine::runtime::{CrashPoint, CrashPointWatcher};
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
use tokio::sync::watch;

/// Books `name` and logs its undo, which waits at the gate.
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
        // The driver must have seen it before the step ends.
        tokio::task::yield_now().await;
    }
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    assert_eq!(log.read(), ["do flight", "undo flight"]);
    bench.check().await;
}

/// The run has failed by itself and is being undone. A cancellation changes nothing, and the history says so.
#[tokio::test]
async fn a_cancellation_of_a_failed_run_that_is_being_undone_is_said_to_come_too_late() {
    let bench = Bench::new();
    let log = Log::default();
    let (open, gate) = watch::channel(false);
    let kept = log.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let (log, gate) = (kept.clone(), gate.clone());
        async move {
            book(&ctx, &log, "flight", &gate).await?;
            Err::<(), _>(Failure::permanent("sold out"))
        }
    };
    bench.engine.register("trip", workflow).unwrap();
    let run = bench.engine.start("trip", &()).await.unwrap();
    bench.until_step(run.id(), "flight~undo", StepStatus::Running).await;
    assert_eq!(run.cancel("changed my mind").await.unwrap().asked, PendingRequest::Cancel);
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    let events = bench.engine.list_events(run.id(), Version::default()).await.unwrap();
    let note = events.last().and_then(|event| event.note.clone()).unwrap();
    assert!(note.contains("sold out") && note.contains(CANCEL_TOO_LATE), "{note}");
    assert_eq!(log.read(), ["do flight", "undo flight"]);
    bench.check().await;
}

/// A cancellation that takes effect is not reported as too late.
#[tokio::test]
async fn the_history_of_a_cancelled_run_says_nothing_of_a_failure() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move { ctx.sleep(Duration::from_secs(3600)).await };
    bench.engine.register("nap", workflow).unwrap();
    let run = bench.engine.start("nap", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    run.cancel("changed my mind").await.unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    let events = bench.engine.list_events(run.id(), Version::default()).await.unwrap();
    let is_late = |note: &Option<String>| note.as_deref().unwrap_or_default().contains(CANCEL_TOO_LATE);
    assert!(!events.iter().any(|event| is_late(&event.note)), "{events:?}");
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

/// Invariant 45: an acknowledged cancellation is carried out, whatever was requested before it.
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
            // The driver must have seen the first request before the second comes.
            tokio::task::yield_now().await;
        }
    }
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    bench.check().await;
}

/// Gate that a step waits at until the test opens it.
fn gated(gate: &watch::Receiver<bool>) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
    let mut gate = gate.clone();
    async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
}

/// Lets the driver see the last request.
async fn let_it_hear() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Regression: the run paused after its resume was acknowledged, and stayed paused.
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
        assert_eq!(resumed.asked, PendingRequest::Nothing, "the answer says that no pause is pending");
        open.send(true).unwrap();
        bench.until(run.id(), RunStatus::Completed).await;
        bench.check().await;
    }
}

/// The last step is in flight when the cancellation is acknowledged.
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
        assert_eq!(asked.asked, PendingRequest::Cancel);
        if hears_it {
            let_it_hear().await;
        }
        open.send(true).unwrap();
        bench.until(run.id(), RunStatus::Cancelled).await;
        assert_eq!(log.read(), ["do flight", "undo hotel", "undo flight"]);
        bench.check().await;
    }
}

/// The commit that completes the run is in flight when another node acknowledges the cancellation.
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

/// A pause that was acknowledged before the end is not dropped either: the run ends after its resume.
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

/// Provider that remembers every charge by its key.
#[derive(Clone, Default)]
struct Provider {
    charged: Arc<Mutex<BTreeSet<String>>>,
    refunded: Arc<Mutex<Vec<String>>>,
    /// Number of answers that are lost before one arrives.
    lost: Arc<AtomicU32>,
    /// How long it asks to wait after a lost answer. Unlike the waits of a retry policy this is never cut short by chance.
    wait: Duration,
    /// Number of refunds that are refused before one is accepted.
    refused: Arc<AtomicU32>,
    asked: Arc<AtomicU32>,
}

impl Provider {
    fn losing(answers: u32) -> Self {
        let provider = Provider::default();
        provider.lost.store(answers, Ordering::SeqCst);
        provider
    }

    fn charge(&self, key: &str) -> Result<String, Failure> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.charged.lock().unwrap().insert(key.to_string());
        match self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |lost| lost.checked_sub(1)) {
            Ok(_) if self.wait.is_zero() => Err(Failure::unknown("the answer was lost")),
            Ok(_) => Err(Failure::unknown("the answer was lost").retry_after(self.wait)),
            Err(_) => Ok(format!("charge of {key}")),
        }
    }

    fn refund(&self, charge: &str) -> Result<(), Failure> {
        match self.refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(Failure::permanent("422: no refunds today")),
            Err(_) => {
                self.refunded.lock().unwrap().push(charge.to_string());
                Ok(())
            }
        }
    }

    /// Step that charges, with a refund as compensation.
    fn step<'a>(
        &'a self,
        ctx: &'a Ctx,
    ) -> Step<'a, String, impl FnMut(Attempt) -> StepFuture<'static, String> + use<'a>> {
        let (provider, refunding) = (self.clone(), self.clone());
        ctx.step("charge", move |attempt: Attempt| -> StepFuture<'static, String> {
            let charged = provider.charge(attempt.idempotency_key());
            Box::pin(async move { charged })
        })
        .compensate(move |_, charge: String| {
            let refunded = refunding.refund(&charge);
            async move { refunded }
        })
    }

    fn register(&self, engine: &Engine, policy: RetryPolicy) {
        let provider = self.clone();
        let workflow = move |ctx: Ctx, _: ()| {
            let (provider, policy) = (provider.clone(), policy.clone());
            async move {
                provider.step(&ctx).retry(policy).await?;
                ctx.sleep(Duration::from_secs(3600)).await
            }
        };
        engine.register("order", workflow).unwrap();
    }

    fn refunds(&self) -> usize {
        self.refunded.lock().unwrap().len()
    }
}

fn ruling(resolution: Resolution) -> Ruling {
    let by = Actor::new("ada", Role::Manager);
    Ruling { resolution, by, seconded_by: None, reason: "the provider says so".into() }
}

impl Bench {
    /// Waits for a doubt about `step` and rules on it.
    async fn rule(&self, engine: &Engine, step: &str, resolution: Resolution) {
        let doubt = self
            .eventually(&format!("a doubt about {step}"), async || {
                let page = engine.list_doubts(None, 10).await.unwrap();
                page.doubts.into_iter().find(|doubt| doubt.step.as_str() == step)
            })
            .await;
        engine.resolve_doubt(&doubt.as_seen(), ruling(resolution)).await.unwrap();
    }
}

/// The charge happened, its answer was lost, and the cancellation comes before the retry.
#[tokio::test]
async fn a_charge_whose_answer_was_lost_is_settled_and_refunded_when_the_run_is_cancelled() {
    let bench = Bench::new();
    // Long enough to observe that it waits.
    let provider = Provider { wait: Duration::from_secs(8), ..Provider::losing(1) };
    provider.register(&bench.engine, RetryPolicy::default());
    let run = bench.engine.start("order", &()).await.unwrap();
    bench.until_step(run.id(), "charge", StepStatus::Pending).await;
    run.cancel("changed my mind").await.unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    assert_eq!((provider.charged.lock().unwrap().len(), provider.refunds()), (1, 1));
    assert_eq!(provider.asked.load(Ordering::SeqCst), 2, "again under the same key");
    bench.check().await;
}

/// Like the test above, after a crash: the record shows that it may have happened.
#[tokio::test]
async fn a_charge_that_was_under_way_at_a_crash_is_settled_and_refunded_when_the_run_is_cancelled() {
    for is_asked_before in [true, false] {
        let bench = Bench::new();
        let provider = Provider::default();
        let (entered, mut is_entered) = watch::channel(false);
        let hanging = provider.clone();
        let workflow = move |ctx: Ctx, _: ()| {
            let (provider, entered) = (hanging.clone(), entered.clone());
            async move {
                ctx.step("charge", |attempt: Attempt| {
                    let charged = provider.charge(attempt.idempotency_key());
                    entered.send_replace(true);
                    async move {
                        std::future::pending::<()>().await;
                        charged
                    }
                })
                .compensate(|_, _: String| async { Ok::<_, Failure>(()) })
                .await
                .map(drop)
            }
        };
        bench.engine.register("order", workflow).unwrap();
        let run = bench.engine.start("order", &()).await.unwrap();
        is_entered.wait_for(|entered| *entered).await.unwrap();
        if is_asked_before {
            run.cancel("changed my mind").await.unwrap();
        }
        bench.engine.kill();
        let second = bench.restart();
        provider.register(&second, RetryPolicy::default());
        if !is_asked_before {
            second.cancel(run.id(), "changed my mind").await.unwrap();
        }
        bench.until(run.id(), RunStatus::Cancelled).await;
        assert_eq!((provider.charged.lock().unwrap().len(), provider.refunds()), (1, 1));
        bench.check().await;
    }
}

/// An outcome of a claimed step that is not committed yet is an outcome, so nothing is in doubt.
#[tokio::test]
async fn a_run_continues_as_new_right_after_a_claimed_step() {
    let bench = Bench::new();
    let log = Log::default();
    let kept = log.clone();
    let workflow = move |ctx: Ctx, again: bool| {
        let log = kept.clone();
        async move {
            log.step(&ctx, "wire").claimed().await?;
            match again {
                true => ctx.continue_as_new(&false),
                false => Ok(()),
            }
        }
    };
    bench.engine.register("wires", workflow).unwrap();
    let run = bench.engine.start("wires", &true).await.unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    assert_eq!(log.read(), ["do wire", "do wire"], "one in each history");
    bench.check().await;
}

/// A run that cannot continue as new because of a doubt fails and is undone like any other.
#[tokio::test]
async fn a_run_that_cannot_continue_because_of_a_doubt_is_undone() {
    let bench = Bench::new();
    let log = Log::default();
    let kept = log.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let log = kept.clone();
        async move {
            book(&ctx, &log, "flight", &watch::channel(true).1).await?;
            let wire = ctx.step("wire", |_| std::future::pending::<Result<(), Failure>>()).claimed();
            let wire = async { wire.await.map(drop) };
            let nap = async { ctx.sleep(Duration::from_secs(1)).await };
            ctx.select((wire, nap)).await?.1?;
            ctx.continue_as_new::<_, ()>(&())
        }
    };
    bench.engine.register("trip", workflow).unwrap();
    let run = bench.engine.start("trip", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    assert_eq!(log.read(), ["do flight", "undo flight"]);
    bench.check().await;
}

/// The record shows that the charge was withdrawn before it began. A crash right after it leaves a run with
/// nothing else to wait for.
#[tokio::test]
async fn a_run_whose_charge_was_given_up_before_a_crash_is_cancelled() {
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let line = CutOff::new(store.clone());
    let (given_up, mut is_given_up) = watch::channel(false);
    let records = AtomicU32::new(0);
    let killed: Arc<Mutex<Option<Engine>>> = Arc::default();
    let to_kill = killed.clone();
    let watcher = CrashPointWatcher::new(move |point| {
        // The first commit contains the lookup and the start of the charge, the second its withdrawal.
        if matches!(point, CrashPoint::AfterRecord(_)) && records.fetch_add(1, Ordering::SeqCst) == 1 {
            to_kill.lock().unwrap().as_ref().unwrap().kill();
            given_up.send_replace(true);
        }
    });
    let options = EngineOptions { watcher: Some(watcher), ..Default::default() };
    let engine = Engine::launch(line.clone(), clock.clone(), options).unwrap();
    *killed.lock().unwrap() = Some(engine.clone());
    let bench = Bench { engine, clock: clock.clone(), store: store.clone() };
    let provider = Provider::default();
    let (reached, at_charge) = watch::channel(false);
    let (kept, cut) = (provider.clone(), line.clone());
    let workflow = move |ctx: Ctx, _: ()| {
        let (provider, reached, cut) = (kept.clone(), reached.clone(), cut.clone());
        async move {
            ctx.step("look", |_| async { Ok::<_, Failure>(()) }).await?;
            cut.hold(!reached.send_replace(true));
            provider.step(&ctx).await.map(drop)
        }
    };
    bench.engine.register("order", workflow.clone()).unwrap();
    let other = Engine::launch(store.clone(), clock, EngineOptions::default()).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    at_charge.clone().wait_for(|reached| *reached).await.unwrap();
    let_it_hear().await;
    other.cancel(run.id(), "changed my mind").await.unwrap();
    line.hold(false);
    is_given_up.wait_for(|given_up| *given_up).await.unwrap();
    let second = bench.restart();
    second.register("order", workflow).unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    assert_eq!(provider.asked.load(Ordering::SeqCst), 0);
    bench.check().await;
}

/// An effect that never began does not begin only to be undone.
#[tokio::test]
async fn a_charge_that_was_not_begun_is_not_begun_by_a_cancelled_run() {
    let bench = Bench::new();
    let provider = Provider::default();
    let kept = provider.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let provider = kept.clone();
        async move {
            ctx.sleep(Duration::from_secs(60)).await?;
            provider.step(&ctx).await.map(drop)
        }
    };
    bench.engine.register("order", workflow.clone()).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    run.cancel("changed my mind").await.unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    assert_eq!(provider.asked.load(Ordering::SeqCst), 0);
    bench.check().await;
}

/// All attempts are unknown. A person rules that it happened, and the run continues with it.
#[tokio::test]
async fn a_charge_that_stays_unknown_is_left_to_people() {
    let output = serde_json::json!("charge 7");
    for (resolution, ends, refunds) in [
        (Resolution::Happened { output: output.clone() }, RunStatus::Waiting, 0),
        (Resolution::Compensate { output: output.clone() }, RunStatus::Failed, 1),
        (Resolution::Abandon, RunStatus::Failed, 0),
    ] {
        let bench = Bench::new();
        let provider = Provider::losing(u32::MAX);
        let few = RetryPolicy::default().max_attempts(3);
        provider.register(&bench.engine, few);
        let run = bench.engine.start("order", &()).await.unwrap();
        bench.until_step(run.id(), "charge", StepStatus::InDoubt).await;
        assert_eq!(provider.asked.load(Ordering::SeqCst), 3);
        bench.rule(&bench.engine, "charge", resolution.clone()).await;
        match ends {
            RunStatus::Waiting => bench.until_step(run.id(), "sleep", StepStatus::Waiting).await,
            ends => bench.until(run.id(), ends).await,
        }
        assert_eq!(provider.refunds(), refunds, "{resolution:?}");
        bench.check().await;
    }
}

/// A person rules that it did not happen and must run, while the run is paused. After the resume it runs,
/// however often it was tried before.
#[tokio::test]
async fn a_ruling_that_a_charge_is_to_run_outlives_a_pause() {
    let bench = Bench::new();
    let provider = Provider::losing(1);
    let (open, gate) = watch::channel(false);
    let kept = provider.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let (provider, gate) = (kept.clone(), gate.clone());
        async move {
            let charge = async { provider.step(&ctx).retry(RetryPolicy::never()).await };
            let mail = ctx.step("mail", |_| {
                let mut gate = gate.clone();
                async move { gate.wait_for(|open| *open).await.map(drop).map_err(Failure::unknown) }
            });
            let (charged, mailed) = tokio::join!(charge, async { mail.await });
            charged.and(mailed)
        }
    };
    bench.engine.register("order", workflow).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    bench.until_step(run.id(), "charge", StepStatus::InDoubt).await;
    run.pause().await.unwrap();
    bench.rule(&bench.engine, "charge", Resolution::DidNotHappen).await;
    let_it_hear().await;
    open.send_replace(true);
    bench.until(run.id(), RunStatus::Paused).await;
    bench.until_step(run.id(), "charge", StepStatus::Pending).await;
    bench.engine.resume(run.id()).await.unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    assert_eq!(provider.asked.load(Ordering::SeqCst), 2);
    bench.check().await;
}

/// The step's policy is to fail on a doubt, but a compensable effect must not be abandoned: a person rules whether it
/// happened, then it is undone.
#[tokio::test]
async fn a_claimed_charge_in_doubt_is_settled_before_it_is_undone_although_doubts_are_to_fail_it() {
    let output = serde_json::json!("charge 7");
    for (resolution, refunds) in
        [(Resolution::Happened { output: output.clone() }, 1), (Resolution::Abandon, 0)]
    {
        let bench = Bench::new();
        let provider = Provider::losing(u32::MAX);
        let kept = provider.clone();
        let workflow = move |ctx: Ctx, _: ()| {
            let provider = kept.clone();
            async move {
                provider.step(&ctx).claimed().on_doubt(OnDoubt::Fail).await?;
                Err::<(), _>(Failure::permanent("sold out"))
            }
        };
        bench.engine.register("order", workflow).unwrap();
        let run = bench.engine.start("order", &()).await.unwrap();
        bench.until_step(run.id(), "charge", StepStatus::InDoubt).await;
        bench.rule(&bench.engine, "charge", resolution).await;
        bench.until(run.id(), RunStatus::Failed).await;
        assert_eq!(provider.refunds(), refunds);
        bench.check().await;
    }
}

/// The run must end, but waits for a ruling instead of losing the charge.
#[tokio::test]
async fn a_cancelled_run_waits_for_people_if_a_charge_stays_unknown() {
    for crashes in [false, true] {
        let bench = Bench::new();
        let provider = Provider::losing(u32::MAX);
        let few = || RetryPolicy::default().max_attempts(2);
        provider.register(&bench.engine, few());
        let run = bench.engine.start("order", &()).await.unwrap();
        bench.until_step(run.id(), "charge", StepStatus::Pending).await;
        run.cancel("changed my mind").await.unwrap();
        bench.until_step(run.id(), "charge", StepStatus::InDoubt).await;
        bench.until(run.id(), RunStatus::Waiting).await;
        let mut engine = bench.engine.clone();
        if crashes {
            bench.engine.kill();
            engine = bench.restart();
            provider.register(&engine, few());
        }
        let output = serde_json::json!("charge 7");
        bench.rule(&engine, "charge", Resolution::Happened { output }).await;
        bench.until(run.id(), RunStatus::Cancelled).await;
        assert_eq!(*provider.refunded.lock().unwrap(), ["charge 7"]);
        bench.check().await;
    }
}

/// The code drops a step in the middle of its effect.
#[tokio::test]
async fn a_charge_that_lost_a_race_is_settled_before_the_run_is_undone() {
    for crashes in [false, true] {
        let bench = Bench::new();
        let provider = Provider::default();
        let kept = provider.clone();
        let workflow = move |ctx: Ctx, _: ()| {
            let provider = kept.clone();
            async move {
                let charge = async {
                    let (provider, refunding) = (provider.clone(), provider.clone());
                    ctx.step("charge", move |attempt: Attempt| {
                        let charged = provider.charge(attempt.idempotency_key());
                        async move {
                            std::future::pending::<()>().await;
                            charged
                        }
                    })
                    .compensate(move |_, charge: String| {
                        let refunded = refunding.refund(&charge);
                        async move { refunded }
                    })
                    .await
                    .map(drop)
                };
                let patience = async { ctx.sleep(Duration::from_secs(60)).await };
                ctx.select((charge, patience)).await?.1?;
                ctx.create_promise::<()>("go").await?;
                Err::<(), _>(Failure::permanent("too slow"))
            }
        };
        bench.engine.register("race", workflow.clone()).unwrap();
        let run = bench.engine.start("race", &()).await.unwrap();
        bench.until_step(run.id(), "charge", StepStatus::Running).await;
        bench.clock.advance(Duration::from_secs(61));
        bench.until_step(run.id(), "charge", StepStatus::InDoubt).await;
        let mut engine = bench.engine.clone();
        bench.until_promise(&format!("{}:go", run.id())).await;
        engine.resolve_promise(&format!("{}:go", run.id()), &()).await.unwrap();
        bench
            .eventually("asked anew", async || {
                let page = bench.engine.list_doubts(None, 10).await.unwrap();
                page.doubts.iter().any(|doubt| doubt.failure.code() == Some("unsettled")).then_some(())
            })
            .await;
        bench.until(run.id(), RunStatus::Waiting).await;
        if crashes {
            bench.engine.kill();
            engine = bench.restart();
            engine.register("race", workflow.clone()).unwrap();
        }
        let output = serde_json::json!("charge 7");
        bench.rule(&engine, "charge", Resolution::Happened { output }).await;
        bench.until(run.id(), RunStatus::Failed).await;
        assert_eq!(*provider.refunded.lock().unwrap(), ["charge 7"]);
        bench.check().await;
    }
}

/// The code drops a step that waits for its second attempt.
#[tokio::test]
async fn a_charge_that_lost_a_race_between_two_attempts_is_settled_before_the_run_is_undone() {
    let bench = Bench::new();
    let provider = Provider::losing(1);
    let kept = provider.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let provider = kept.clone();
        async move {
            let hourly = RetryPolicy::default().first_wait(Duration::from_secs(3600));
            let charge = async { provider.step(&ctx).retry(hourly).await.map(drop) };
            let patience = async { ctx.sleep(Duration::from_secs(60)).await };
            ctx.select((charge, patience)).await?.1?;
            Err::<(), _>(Failure::permanent("too slow"))
        }
    };
    bench.engine.register("race", workflow).unwrap();
    let run = bench.engine.start("race", &()).await.unwrap();
    bench.until_step(run.id(), "charge", StepStatus::Pending).await;
    bench.clock.advance(Duration::from_secs(61));
    let output = serde_json::json!("charge 7");
    bench
        .eventually("asked anew", async || {
            let page = bench.engine.list_doubts(None, 10).await.unwrap();
            page.doubts.iter().any(|doubt| doubt.failure.code() == Some("unsettled")).then_some(())
        })
        .await;
    bench.rule(&bench.engine, "charge", Resolution::Happened { output }).await;
    bench.until(run.id(), RunStatus::Failed).await;
    assert_eq!(*provider.refunded.lock().unwrap(), ["charge 7"]);
    bench.check().await;
}

/// A refused refund is not the end.
#[tokio::test]
async fn an_undo_that_fails_is_left_to_people() {
    for (resolution, ends, refunds) in [
        (Resolution::DidNotHappen, RunStatus::Cancelled, 1),
        (Resolution::Happened { output: serde_json::Value::Null }, RunStatus::Cancelled, 0),
        (Resolution::Abandon, RunStatus::Failed, 0),
    ] {
        for crashes in [false, true] {
            let bench = Bench::new();
            let provider = Provider::default();
            provider.refused.store(1, Ordering::SeqCst);
            provider.register(&bench.engine, RetryPolicy::default());
            let run = bench.engine.start("order", &()).await.unwrap();
            bench.until_step(run.id(), "sleep", StepStatus::Waiting).await;
            run.cancel("changed my mind").await.unwrap();
            bench.until_step(run.id(), "charge~undo", StepStatus::InDoubt).await;
            bench.until(run.id(), RunStatus::Waiting).await;
            let mut engine = bench.engine.clone();
            if crashes {
                bench.engine.kill();
                engine = bench.restart();
                provider.register(&engine, RetryPolicy::default());
            }
            bench.rule(&engine, "charge~undo", resolution.clone()).await;
            bench.until(run.id(), ends).await;
            assert_eq!(provider.refunds(), refunds, "{resolution:?}");
            let audit = engine.list_audit(0, 10).await.unwrap();
            assert!(audit.iter().any(|entry| entry.step.as_deref() == Some("charge~undo")), "{audit:?}");
            let result = engine.get(run.id()).await.unwrap().result.unwrap();
            let code = match &result {
                RunResult::Failed(failure) => failure.code(),
                _ => None,
            };
            assert_eq!(code == Some("undo_failed"), ends == RunStatus::Failed);
            bench.check().await;
        }
    }
}

/// An undo is retried by its policy, under one key.
#[tokio::test]
async fn an_undo_is_tried_again_like_a_step() {
    let bench = Bench::new();
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let tries = counted.clone();
        async move {
            ctx.step("charge", |_| async { Ok::<_, Failure>(()) })
                .compensate(move |_, ()| {
                    let failing = tries.fetch_add(1, Ordering::SeqCst) < 20;
                    async move { if failing { Err(Failure::retryable("busy")) } else { Ok(()) } }
                })
                .compensate_retry(RetryPolicy::default().first_wait(Duration::from_millis(10)).factor(1.0))
                .await?;
            Err::<(), _>(Failure::permanent("sold out"))
        }
    };
    bench.engine.register("order", workflow).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    assert_eq!(tries.load(Ordering::SeqCst), 21, "more than ten");
    bench.check().await;
}

/// A run that ends does not begin an effect without compensation again, but an attempt that a crash may have
/// left is recorded.
#[tokio::test]
async fn an_effect_that_may_have_begun_before_a_crash_is_on_record_when_the_run_is_cancelled() {
    let bench = Bench::new();
    let (entered, mut is_entered) = watch::channel(0);
    let workflow = move |ctx: Ctx, _: ()| {
        let entered = entered.clone();
        async move {
            ctx.step("ship", |_| {
                entered.send_modify(|times| *times += 1);
                std::future::pending::<Result<(), Failure>>()
            })
            .await
        }
    };
    bench.engine.register("order", workflow.clone()).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    is_entered.wait_for(|times| *times == 1).await.unwrap();
    run.cancel("changed my mind").await.unwrap();
    bench.engine.kill();
    let second = bench.restart();
    second.register("order", workflow).unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    assert_eq!(*is_entered.borrow(), 1);
    let ledger = second.ledger(run.id()).await.unwrap();
    let ship = ledger.iter().find(|entry| entry.step == "ship").expect("it is in the ledger");
    assert_eq!(ship.attempts[0].outcome, LedgerOutcome::Unknown);
    bench.check().await;
}
