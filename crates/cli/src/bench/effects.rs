//! `effects`: what the ledger costs, what a claim costs, and how long a crash at every point of a workflow takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hapax::clock::SystemClock;
use hapax::testing::{CrashReport, crash_everywhere};
use hapax::{CrashPoint, CrashPointWatcher, Ctx, Engine, EngineOptions, Failure, RetryPolicy};
use indicatif::ProgressBar;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;

use super::histogram::{Histogram, median};
use super::load::{Job, KeySeries, Load, WORKFLOW, drive_workflow, take_steps, warm_up};
use super::place::{BenchStore, Opened};
use super::report::Report;
use super::{Options, progress};

/// Each round is cut into so many parts, by turns with and without what is measured, so that both see the same machine.
const PARTS: u64 = 5;
/// Runs that are driven alone, by turns of this many.
const PORTION: u64 = 50;
/// Steps of the workflow that is crashed everywhere.
const CRASHED_STEPS: u32 = 20;

const CLAIMED: &str = "bench-claimed";
const ONE_CLAIMED: &str = "bench-one-claimed";
const FAILING: &str = "bench-failing";

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let load = Load {
        runs: options.runs.unwrap_or(10_000),
        steps: options.steps.unwrap_or(5),
        concurrency: options.concurrency.unwrap_or(256),
    };
    let opened = place.open(EngineOptions::default()).await?;
    register(&opened.engine)?;
    let engines = Engines::launch(&opened)?;
    let keys = Arc::new(KeySeries::new(options.keys));
    warm_up(&opened, &keys).await?;

    let mut report = Report::new("effects", place);
    let bar = progress::bar("effects", load.runs * u64::from(options.rounds) * 6);
    let going_well = engines.compare(WORKFLOW, load, options.rounds, &keys, &bar).await?;
    let failing = engines.compare(FAILING, load, options.rounds, &keys, &bar).await?;
    bar.finish_and_clear();
    engines.0.iter().for_each(Engine::kill);

    let steps = f64::from(load.steps);
    report.measure("runs_per_second", going_well.with);
    report.measure("steps_per_second", going_well.with.map(|runs| runs * steps));
    report.measure("steps_per_second_without_ledger", going_well.without.map(|runs| runs * steps));
    report.judge("ledger_ratio", going_well.ratio, "at least 0.95");
    report.measure("noise_ratio", going_well.noise);
    report.measure("failing_steps_per_second", failing.with.map(|runs| runs * steps));
    report.measure("failing_steps_per_second_without_ledger", failing.without.map(|runs| runs * steps));
    report.measure("ledger_ratio_with_failures", failing.ratio);
    report.measure("noise_ratio_with_failures", failing.noise);
    time_alone(&mut report, &opened, load.steps, options, &keys).await?;
    count_writes(&mut report, &opened, load.steps, &keys).await?;
    opened.close().await?;
    time_crashes(&mut report, options.rounds).await?;
    report.read_rss();
    report.set("runs", load.runs);
    report.set("steps", load.steps);
    report.set("concurrency", load.concurrency);
    report.set("rounds", options.rounds);
    Ok(report)
}

fn register(engine: &Engine) -> Result<()> {
    engine.register(WORKFLOW, take_steps)?;
    engine.register(CLAIMED, |ctx, job| take_claimed_steps(ctx, job, |_| true))?;
    engine.register(ONE_CLAIMED, |ctx, job| take_claimed_steps(ctx, job, |nth| nth == 1))?;
    engine.register(FAILING, take_failing_steps)?;
    Ok(())
}

/// The steps of [`take_steps`], some of them claimed.
async fn take_claimed_steps(ctx: Ctx, job: Job, is_claimed: fn(u32) -> bool) -> Result<u64, Failure> {
    let mut sum = 0;
    for nth in 0..job.steps {
        let step = ctx.step("wire", |_| async move { Ok::<_, Failure>(job.order + u64::from(nth)) });
        sum += match is_claimed(nth) {
            true => step.claimed().await?,
            false => step.await?,
        };
    }
    Ok(sum)
}

/// The same, idempotent, and each fails once: that is what the ledger notes.
async fn take_failing_steps(ctx: Ctx, job: Job) -> Result<u64, Failure> {
    let at_once = RetryPolicy::default().first_wait(Duration::ZERO).max_wait(Duration::ZERO);
    let mut sum = 0;
    for nth in 0..job.steps {
        let step = ctx.step("wire", |attempt| async move {
            match attempt.number() {
                1 => Err(Failure::retryable("busy")),
                _ => Ok(job.order + u64::from(nth)),
            }
        });
        sum += step.retry(at_once.clone()).await?;
    }
    Ok(sum)
}

/// Engines on one store, all alike but for the ledger.
struct Engines([Engine; 3]);

const WITH: usize = 0;
const WITHOUT: usize = 1;
/// Another one without it: how far that is from the first is noise.
const CONTROL: usize = 2;

/// How a load went with and without the ledger.
struct Comparison {
    /// Runs per second, medians.
    with: Option<f64>,
    without: Option<f64>,
    /// The medians of what neighbours in time had to do with each other.
    ratio: Option<f64>,
    noise: Option<f64>,
}

impl Engines {
    fn launch(opened: &Opened) -> Result<Self> {
        let launch = |ledger: bool| {
            let options = EngineOptions { ledger, ..EngineOptions::default() };
            let engine = Engine::launch(opened.store.clone(), Arc::new(SystemClock::new()), options)?;
            register(&engine)?;
            anyhow::Ok(engine)
        };
        Ok(Engines([launch(true)?, launch(false)?, launch(false)?]))
    }

    async fn compare(
        &self,
        workflow: &'static str,
        load: Load,
        rounds: u32,
        keys: &Arc<KeySeries>,
        bar: &ProgressBar,
    ) -> Result<Comparison> {
        let part = Load { runs: load.runs.div_ceil(PARTS), ..load };
        let mut figures = [const { Vec::new() }; 3];
        for nth in 0..rounds as usize * PARTS as usize {
            // The order alternates, so that no variant always comes after the same one.
            let mut order = [WITH, WITHOUT, CONTROL];
            order.rotate_left(nth % 3);
            if nth % 2 == 1 {
                order.reverse();
            }
            for which in order {
                let round = drive_workflow(workflow, &self.0[which], part, keys, bar).await?;
                figures[which].push(round.runs_per_second());
            }
        }
        let [with, without, control] = figures;
        let ratio = |of: &[f64]| median(of.iter().zip(&without).map(|(of, to)| of / to).collect());
        let (ratio, noise) = (ratio(&with), ratio(&control));
        Ok(Comparison { with: median(with), without: median(without), ratio, noise })
    }
}

/// One run at a time, of idempotent and of claimed steps by turns.
async fn time_alone(
    report: &mut Report,
    opened: &Opened,
    steps: u32,
    options: &Options,
    keys: &Arc<KeySeries>,
) -> Result<()> {
    let (mut idempotent, mut claimed) = (Histogram::new(), Histogram::new());
    let mut left = options.runs.unwrap_or(1_000).min(1_000);
    while left > 0 {
        let load = Load { runs: left.min(PORTION), steps, concurrency: 1 };
        left -= load.runs;
        for (workflow, times) in [(WORKFLOW, &mut idempotent), (CLAIMED, &mut claimed)] {
            let hidden = ProgressBar::hidden();
            times.add(&drive_workflow(workflow, &opened.engine, load, keys, &hidden).await?.per_run);
        }
    }
    report.measure("idempotent_p50_ms", idempotent.ms(50.0));
    report.measure("claimed_p50_ms", claimed.ms(50.0));
    let ratio = claimed.ms(50.0).zip(idempotent.ms(50.0)).map(|(claimed, idempotent)| claimed / idempotent);
    report.measure("claimed_ratio", ratio);
    Ok(())
}

/// How often a run is written, from its start to its end.
async fn count_writes(report: &mut Report, opened: &Opened, steps: u32, keys: &Arc<KeySeries>) -> Result<()> {
    let written = Arc::new(AtomicU64::new(0));
    let counted = written.clone();
    let watcher = CrashPointWatcher::new(move |point| {
        if matches!(point, CrashPoint::BeforeRecord(_) | CrashPoint::BeforeCompletion(_)) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let options = EngineOptions { watcher: Some(watcher), ..EngineOptions::default() };
    let engine = Engine::launch(opened.store.clone(), Arc::new(SystemClock::new()), options)?;
    register(&engine)?;
    // One claim among others needs others.
    let steps = steps.max(3);
    let count = async |workflow: &str| -> Result<u64> {
        written.store(0, Ordering::SeqCst);
        let run = engine.start(workflow, &Job::new(0, steps)).idempotency_key(keys.next()).await?;
        run.result::<u64>().await?;
        // The start is a write, too.
        Ok(1 + written.load(Ordering::SeqCst))
    };
    let (plain, one, all) = (count(WORKFLOW).await?, count(ONE_CLAIMED).await?, count(CLAIMED).await?);
    engine.kill();
    report.set("writes_per_idempotent_run", plain);
    report.set("writes_per_run_with_one_claimed_step", one);
    report.set("writes_per_claimed_run", all);
    report.judge("writes_for_one_claim", Some(one as f64 - plain as f64), "exactly 1");
    Ok(())
}

/// A crash at every point of a workflow whose steps are claimed and idempotent by turns. In memory, whatever the store.
async fn time_crashes(report: &mut Report, rounds: u32) -> Result<()> {
    let (mut times, mut lives) = (Vec::new(), 0);
    for _ in 0..rounds {
        let (took, crashed) = tokio::task::spawn_blocking(crash_once).await.context("a crash did harm")??;
        times.push(took.as_secs_f64() * 1e3);
        lives = 1 + crashed.crashes + crashed.zombies;
    }
    report.judge("crash_everywhere_ms", median(times), "under 2,000");
    report.set("crash_everywhere_steps", CRASHED_STEPS);
    report.set("crash_everywhere_lives", lives);
    Ok(())
}

fn crash_once() -> Result<(Duration, CrashReport)> {
    // Cut-off workers log a warning, which is expected here.
    let _quiet = tracing_subscriber::fmt().with_max_level(LevelFilter::OFF).set_default();
    // Like a test, on one thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let began = Instant::now();
    let report = runtime.block_on(crash_everywhere(take_turns, &CRASHED_STEPS));
    Ok((began.elapsed(), report))
}

async fn take_turns(ctx: Ctx, steps: u32) -> Result<(), Failure> {
    for nth in 0..steps {
        let step =
            ctx.step("wire", |attempt| async move { Ok::<_, Failure>(attempt.idempotency_key().len()) });
        match nth % 2 {
            0 => step.claimed().await?,
            _ => step.await?,
        };
    }
    Ok(())
}
