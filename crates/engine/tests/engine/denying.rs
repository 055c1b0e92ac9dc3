//! A probe's "did not happen" counts only after the settle time and when confirmed twice, never while a
//! request may still be in progress.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, Log};
use hapax_engine::clock::Clock;
use hapax_engine::ctx::StepFuture;
use hapax_engine::limits::{DENIAL_PAUSE, IN_FLIGHT_MARGIN};
use hapax_engine::model::{
    Actor, JournalEvent, OnDoubt, ProbeAnswer, Resolution, Role, Ruling, RunId, RunStatus, StepStatus,
    Timestamp,
};
use hapax_engine::store::{ListJournal, Store};
use hapax_engine::{Ctx, Engine, Failure};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Provider with a probe and configurable answers.
#[derive(Clone, Default)]
struct Provider {
    wires: Log,
    asked_at: Arc<Mutex<Vec<Timestamp>>>,
    happened: Arc<Mutex<bool>>,
}

impl Provider {
    fn asks(&self) -> usize {
        self.asked_at.lock().unwrap().len()
    }
}

#[derive(Clone, Copy)]
struct ProbeSetup {
    settle: Option<Duration>,
    rejects_stale_fences: bool,
    on_doubt: OnDoubt,
    has_probe: bool,
    /// True if the first attempt ends with an unknown outcome. False if it hangs until its worker vanishes.
    is_cut: bool,
}

const PROBED: ProbeSetup = ProbeSetup {
    settle: None,
    rejects_stale_fences: false,
    on_doubt: OnDoubt::Hold,
    has_probe: true,
    is_cut: true,
};

fn pay(
    bench: &Bench,
    provider: &Provider,
    setup: ProbeSetup,
) -> impl Fn(Ctx, ()) -> StepFuture<'static, u32> + Clone + Send + Sync + 'static {
    let (provider, clock) = (provider.clone(), bench.clock.clone());
    move |ctx: Ctx, ()| {
        let (provider, clock) = (provider.clone(), clock.clone());
        Box::pin(async move {
            let wires = provider.wires.clone();
            let mut step = ctx
                .step("wire", move |attempt| {
                    wires.add(format!("wire {}", attempt.number()));
                    async move {
                        match attempt.number() {
                            1 if setup.is_cut => Err(Failure::unknown("connection reset")),
                            1 => std::future::pending().await,
                            number => Ok(number),
                        }
                    }
                })
                .claimed()
                .on_doubt(setup.on_doubt)
                .timeout(TIMEOUT);
            if let Some(settle) = setup.settle {
                step = step.probe_settle(settle);
            }
            if setup.rejects_stale_fences {
                step = step.provider_rejects_stale_fences();
            }
            if setup.has_probe {
                step = step.probe(move |_| {
                    provider.asked_at.lock().unwrap().push(clock.now());
                    let happened = *provider.happened.lock().unwrap();
                    async move {
                        Ok::<_, Failure>(if happened {
                            ProbeAnswer::Happened(9)
                        } else {
                            ProbeAnswer::DidNotHappen
                        })
                    }
                });
            }
            step.await
        })
    }
}

/// A run whose worker vanished in the middle of its step, and the engine that took over.
async fn crashed(bench: &Bench, provider: &Provider, setup: ProbeSetup) -> (Engine, RunId, Timestamp) {
    let setup = ProbeSetup { is_cut: false, ..setup };
    bench.engine.register("pay", pay(bench, provider, setup)).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap().id();
    bench.eventually("it is in its step", async || (!provider.wires.read().is_empty()).then_some(())).await;
    bench.engine.kill();
    let second = bench.restart();
    let since = bench.clock.now();
    second.register("pay", pay(bench, provider, setup)).unwrap();
    (second, run, since)
}

async fn answers(bench: &Bench, run: RunId) -> Vec<String> {
    let all =
        ListJournal { workspace: Default::default(), run: Some(run), by_people: false, after: 0, limit: 100 };
    let notes = bench.store.list_journal(all).await.unwrap();
    let probed = notes.into_iter().filter_map(|placed| match placed.note.what {
        JournalEvent::Probed { answer } => Some(answer),
        _ => None,
    });
    probed.collect()
}

/// Regression: 20 ms after a timeout the provider did not know the key yet, because it was still working.
#[tokio::test]
async fn a_denial_is_believed_only_after_the_settle_time_and_twice() {
    let bench = Bench::new();
    let provider = Provider::default();
    bench.engine.register("pay", pay(&bench, &provider, PROBED)).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    assert_eq!(provider.asks(), 1, "it is asked at once: it may have happened");
    let doubt = bench.engine.list_doubts(None, 1).await.unwrap().doubts.remove(0);
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 2);
    let asked_at = provider.asked_at.lock().unwrap().clone();
    let settled = doubt.since.plus(TIMEOUT + IN_FLIGHT_MARGIN);
    assert_eq!(asked_at.len(), 3);
    assert!(asked_at[1] >= settled, "{asked_at:?} {settled}");
    assert!(asked_at[2] >= asked_at[1].plus(DENIAL_PAUSE), "{asked_at:?}");
    assert_eq!(answers(&bench, run.id()).await, ["did_not_happen"; 3], "each answer is in the journal");
    assert_eq!(provider.wires.read(), ["wire 1", "wire 2"]);
    bench.check().await;
}

#[tokio::test]
async fn a_provider_that_was_still_at_work_is_found_out() {
    let bench = Bench::new();
    let provider = Provider::default();
    bench.engine.register("pay", pay(&bench, &provider, PROBED)).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    *provider.happened.lock().unwrap() = true;
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 9);
    assert_eq!(provider.wires.read(), ["wire 1"], "it happened once");
    bench.check().await;
}

/// The run waits in the store. The worker that probed first may be gone, and its answers no longer count.
#[tokio::test]
async fn a_crash_while_a_denial_settles_is_survived() {
    let bench = Bench::new();
    let provider = Provider::default();
    bench.engine.register("pay", pay(&bench, &provider, PROBED)).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap().id();
    bench.until(run, RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("pay", pay(&bench, &provider, PROBED)).unwrap();
    let run = second.run(run).await.unwrap();
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 2);
    assert!(provider.asks() >= 3, "denied early, late, and confirmed");
    assert_eq!(provider.wires.read(), ["wire 1", "wire 2"]);
    bench.check().await;
}

/// A vanished worker may have sent its request just before its lease ended.
#[tokio::test]
async fn after_a_takeover_nothing_is_run_again_while_a_request_may_be_on_its_way() {
    let probed = ProbeSetup { settle: Some(Duration::ZERO), ..PROBED };
    let retried = ProbeSetup { has_probe: false, on_doubt: OnDoubt::Retry, ..PROBED };
    for setup in [probed, retried] {
        let bench = Bench::new();
        let provider = Provider::default();
        let (second, run, since) = crashed(&bench, &provider, setup).await;
        let result = async {
            let run = second.run(run).await.unwrap();
            run.result::<u32>().await.unwrap();
            bench.clock.now()
        };
        let ended_at = bench.advancing(result).await;
        assert!(ended_at >= since.plus(TIMEOUT + IN_FLIGHT_MARGIN), "{ended_at} {since}");
        assert_eq!(provider.wires.read(), ["wire 1", "wire 2"]);
        bench.check().await;
    }
}

#[tokio::test]
async fn a_ruling_did_not_happen_waits_as_well() {
    let bench = Bench::new();
    let provider = Provider::default();
    let setup = ProbeSetup { has_probe: false, ..PROBED };
    let (second, run, since) = crashed(&bench, &provider, setup).await;
    bench.until_step(run, "wire", StepStatus::InDoubt).await;
    let doubt = second.list_doubts(None, 1).await.unwrap().doubts.remove(0);
    let by = Actor::new("ada", Role::Manager);
    let resolution = Resolution::DidNotHappen;
    let ruling = Ruling { resolution, by, seconded_by: None, reason: "the bank says so".into() };
    second.resolve_doubt(&doubt.as_seen(), ruling).await.unwrap();
    bench.until_step(run, "wire", StepStatus::Pending).await;
    let from = since.plus(TIMEOUT + IN_FLIGHT_MARGIN);
    bench.clock.advance(from.since(bench.clock.now()).saturating_sub(Duration::from_secs(1)));
    bench.until(run, RunStatus::Waiting).await;
    assert_eq!(provider.wires.read(), ["wire 1"]);
    let run = second.run(run).await.unwrap();
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 2);
    bench.check().await;
}

#[tokio::test]
async fn a_provider_that_rejects_earlier_holders_is_not_waited_for() {
    let setup = ProbeSetup { settle: Some(Duration::ZERO), rejects_stale_fences: true, ..PROBED };
    let bench = Bench::new();
    let provider = Provider::default();
    let (second, run, since) = crashed(&bench, &provider, setup).await;
    let result = async {
        let run = second.run(run).await.unwrap();
        run.result::<u32>().await.unwrap();
        bench.clock.now()
    };
    let ended_at = bench.advancing(result).await;
    assert!(ended_at < since.plus(TIMEOUT), "only the two answers and the backoff took time");
    bench.check().await;
}

#[tokio::test]
async fn a_positive_answer_counts_at_once_after_a_takeover() {
    let bench = Bench::new();
    let provider = Provider::default();
    *provider.happened.lock().unwrap() = true;
    let (second, run, _) = crashed(&bench, &provider, PROBED).await;
    assert_eq!(second.run(run).await.unwrap().result::<u32>().await.unwrap(), 9);
    assert_eq!(provider.wires.read(), ["wire 1"]);
    bench.check().await;
}
