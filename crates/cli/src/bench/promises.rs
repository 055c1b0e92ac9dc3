//! `promises`: from a settlement by key to the step that waited for it, settlements in a row, and what a key costs to look up among many.

mod lookups;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hapax::model::{IdempotencyKey, PromiseRef};
use hapax::{CreatePromiseOutcome, Ctx, Engine, EngineOptions, EngineRunHandle as RunHandle, NewPromise};
use indicatif::ProgressBar;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::ceiling::Ceiling;
use super::histogram::Histogram;
use super::load::{self, KeySeries, take_steps, warm_up};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress};

const WORKFLOW: &str = "bench-promises";
const WAKES: u64 = 1_000;
/// Idle time before a settlement on a quiet store, and before the bare commit it is compared with.
/// An idle core and disk take twice as long for a commit as busy ones.
const PAUSE: Duration = Duration::from_micros(200);
/// How many settlements one upon the other take turns with as many bare commits.
const IN_A_ROW: u64 = 50;
/// Settlements that are timed together.
const SETTLEMENTS: u64 = 50_000;
/// A small number of promises.
const FEW: u64 = 1_000;

/// Listeners for the begin of the step after a promise, by key.
type StepListeners = Arc<Mutex<HashMap<String, oneshot::Sender<Instant>>>>;

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let many = options.runs.unwrap_or(1_000_000).max(FEW);
    let turns = options.runs.unwrap_or(WAKES).min(WAKES);
    let callers = options.concurrency.unwrap_or(256);
    let ceiling = Ceiling::prepare(place, 1).await?;
    let opened = place.open(EngineOptions::default()).await?;
    let engine = &opened.engine;
    let ears = StepListeners::default();
    register(engine, ears.clone())?;
    engine.register(load::WORKFLOW, take_steps)?;
    // Otherwise the log of the measured store grows, and the log of the bare commits does not.
    warm_up(&opened, &Arc::new(KeySeries::new(options.keys))).await?;

    let quiet = wake_quiet(engine, &ears, ceiling.as_ref(), turns).await?;
    let in_a_row = wake_in_a_row(engine, &ears, ceiling.as_ref(), turns).await?;

    let bar = progress::bar("promises", many);
    make(engine, 0..FEW, callers, &bar).await?;
    // A file has room for a small store beside it; in a server's database the few are looked up before they are many.
    let before = match place.is_postgres() {
        true => Some(lookups::time_few(engine).await?),
        false => None,
    };
    make(engine, FEW..many, callers, &bar).await?;
    bar.finish_and_clear();
    let lookups = match before {
        Some(few) => lookups::time_many(engine, many, few).await?,
        None => lookups::time_by_turns(engine, many, place, callers).await?,
    };

    let settlements = SETTLEMENTS.min(many);
    let bar = progress::bar("settling", settlements);
    let began = Instant::now();
    let settle = |engine: Engine, nth| async move {
        engine.resolve_by_key(&key_of(nth), &nth).await?;
        Ok(())
    };
    each(engine, 0..settlements, callers, &bar, settle).await?;
    let took = began.elapsed();
    bar.finish_and_clear();

    let mut report = Report::new("promises", place);
    report.judge("settlements_per_second", Some(settlements as f64 / took.as_secs_f64()), "5,000 or more");
    report.measure("p50_ms", quiet.wakes.ms(50.0));
    report.measure("p99_ms", quiet.wakes.ms(99.0));
    report.measure("commit_p50_ms", quiet.commits.ms(50.0));
    report.judge("commits_from_settlement_to_step", quiet.in_commits(), "under 3");
    report.measure("in_a_row_p50_ms", in_a_row.wakes.ms(50.0));
    report.measure("commit_in_a_row_p50_ms", in_a_row.commits.ms(50.0));
    report.judge("commits_in_a_row_from_settlement_to_step", in_a_row.in_commits(), "under 3");
    report.set("promises", many);
    let few = lookups.few.ms(50.0);
    let over_few = |ms: Option<f64>| ms.zip(few).map(|(ms, few)| ms / few);
    let (few_of_many, all_of_many) = (lookups.few_of_many.ms(50.0), lookups.many.ms(50.0));
    report.measure("lookup_p50_ms_of_few", few);
    report.measure("lookup_p50_ms_of_few_among_many", few_of_many);
    report.measure("lookup_p50_ms_of_many", all_of_many);
    report.judge("lookup_ratio", over_few(few_of_many), "about 1");
    report.measure("lookup_ratio_of_many", over_few(all_of_many));
    report.read_rss();
    opened.close().await?;
    Ok(report)
}

/// Waits for a promise by its key and notifies the listener when the next step begins.
fn register(engine: &Engine, ears: StepListeners) -> Result<()> {
    let workflow = move |ctx: Ctx, key: String| {
        let ears = ears.clone();
        async move {
            let value: u64 = ctx.create_promise("paid").with_idempotency_key(key.clone()).await?;
            let heard = move |_| {
                let now = Instant::now();
                let ear = ears.lock().expect("no holder panics").remove(&key);
                if let Some(ear) = ear {
                    let _nobody_listens = ear.send(now);
                }
                async move { Ok::<u64, hapax::Failure>(value) }
            };
            ctx.run("resumed", heard).await
        }
    };
    Ok(engine.register(WORKFLOW, workflow)?)
}

/// From settlements to the steps after them, beside bare commits that found the store as they did.
struct WakeFigures {
    wakes: Histogram,
    commits: Histogram,
}

impl WakeFigures {
    fn new() -> Self {
        WakeFigures { wakes: Histogram::new(), commits: Histogram::new() }
    }

    fn in_commits(&self) -> Option<f64> {
        self.wakes.ms(50.0).zip(self.commits.ms(50.0)).map(|(wake, commit)| wake / commit)
    }
}

/// Each settlement, and each bare commit, finds a store where nothing has happened for a moment.
async fn wake_quiet(
    engine: &Engine,
    ears: &StepListeners,
    ceiling: Option<&Ceiling>,
    turns: u64,
) -> Result<WakeFigures> {
    let bar = progress::bar("waking", turns);
    let mut quiet = WakeFigures::new();
    for nth in 0..turns {
        let waiting = Waiting::start(engine, ears, format!("quiet:{nth}")).await?;
        tokio::time::sleep(PAUSE).await;
        // In a task, as whatever takes in a webhook is.
        quiet.wakes.record(tokio::spawn(waiting.settle(engine.clone())).await??);
        if let Some(ceiling) = ceiling {
            tokio::time::sleep(PAUSE).await;
            quiet.commits.add(&ceiling.time_commits(1)?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(quiet)
}

/// Runs that all wait are woken one upon the other; bare commits one upon the other take turns with them.
async fn wake_in_a_row(
    engine: &Engine,
    ears: &StepListeners,
    ceiling: Option<&Ceiling>,
    turns: u64,
) -> Result<WakeFigures> {
    let bar = progress::bar("waking in a row", turns);
    let mut in_a_row = WakeFigures::new();
    for first in (0..turns).step_by(IN_A_ROW as usize) {
        let row = first..turns.min(first + IN_A_ROW);
        let commits = row.end - row.start;
        let mut all = Vec::new();
        for nth in row {
            all.push(Waiting::start(engine, ears, format!("in-a-row:{nth}")).await?);
        }
        let settling = engine.clone();
        let row = tokio::spawn(async move {
            let mut wakes = Histogram::new();
            for waiting in all {
                wakes.record(waiting.settle(settling.clone()).await?);
            }
            anyhow::Ok(wakes)
        });
        in_a_row.wakes.add(&row.await??);
        if let Some(ceiling) = ceiling {
            in_a_row.commits.add(&ceiling.time_commits(commits)?);
        }
        bar.inc(commits);
    }
    bar.finish_and_clear();
    Ok(in_a_row)
}

/// A run that waits for a promise.
struct Waiting {
    key: String,
    run: RunHandle,
    heard: oneshot::Receiver<Instant>,
}

impl Waiting {
    async fn start(engine: &Engine, ears: &StepListeners, key: String) -> Result<Self> {
        let (ear, heard) = oneshot::channel();
        ears.lock().expect("no holder panics").insert(key.clone(), ear);
        let run = engine.start(WORKFLOW, &key).await?;
        let promise = PromiseRef::Key(IdempotencyKey::new(&key)?);
        while engine.find_promise(&promise).await?.is_none() || engine.active_runs() > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(Waiting { key, run, heard })
    }

    /// From the settlement to the step. Answers once the run is over.
    async fn settle(self, engine: Engine) -> Result<Duration> {
        let began = Instant::now();
        engine.resolve_by_key(&self.key, &1).await?;
        let begun = self.heard.await.context("the run went on without its step")?;
        self.run.result::<u64>().await?;
        Ok(begun.duration_since(began))
    }
}

fn key_of(nth: u64) -> String {
    format!("stripe:ch_{nth:09}")
}

async fn make(engine: &Engine, range: std::ops::Range<u64>, callers: u32, bar: &ProgressBar) -> Result<()> {
    let make = |engine: Engine, nth| async move {
        let made =
            engine.create_promise(NewPromise { key: Some(key_of(nth)), ..NewPromise::default() }).await?;
        anyhow::ensure!(matches!(made, CreatePromiseOutcome::Created(_)), "the promise already existed");
        Ok(())
    };
    each(engine, range, callers, bar, make).await
}

/// Does something for each number of the range, so many at a time.
async fn each<F, Fut>(
    engine: &Engine,
    range: std::ops::Range<u64>,
    callers: u32,
    bar: &ProgressBar,
    act: F,
) -> Result<()>
where
    F: Fn(Engine, u64) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    let next = Arc::new(AtomicU64::new(range.start));
    let mut acting = JoinSet::new();
    for _ in 0..callers {
        let (engine, next, bar) = (engine.clone(), next.clone(), bar.clone());
        acting.spawn(async move {
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= range.end {
                    return anyhow::Ok(());
                }
                act(engine.clone(), nth).await?;
                bar.inc(1);
            }
        });
    }
    while let Some(acted) = acting.join_next().await {
        acted??;
    }
    Ok(())
}
