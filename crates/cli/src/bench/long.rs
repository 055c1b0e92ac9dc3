//! `long`: one run of very many steps: does it slow down, and how long is it replayed after a crash.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hapax::model::RunStatus;
use hapax::{Ctx, Engine, EngineOptions, EngineRunHandle as RunHandle, Failure};

use super::histogram::{Histogram, median};
use super::load::{KeySeries, Keys};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, load, progress};

const WORKFLOW: &str = "bench-long";
const PROMISE: &str = "go";
/// How many steps at either end are compared, if there are enough.
const END: usize = 1_000;

/// When each step began; filled by the steps themselves.
type StepStarts = Arc<Mutex<Vec<Instant>>>;

/// Figures of one run.
struct RunFigures {
    first: f64,
    last: f64,
    took: Duration,
    reopened: Duration,
    replayed: Duration,
}

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let steps = options.steps.unwrap_or(10_000);
    let bar = progress::bar("long", u64::from(options.rounds));
    let mut laps = Vec::new();
    for _ in 0..options.rounds {
        laps.push(lap(place, steps).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();

    let middle = |figure: fn(&RunFigures) -> f64| median(laps.iter().map(figure).collect());
    let mut report = Report::new("long", place);
    let per_second = median(laps.iter().map(|lap| f64::from(steps) / lap.took.as_secs_f64()).collect());
    report.measure("runs_per_second", middle(|lap| 1.0 / lap.took.as_secs_f64()));
    report.measure("steps_per_second", per_second);
    report.read_rss();
    report.set("steps", steps);
    report.set("rounds", options.rounds);
    report.measure("first_thousand_us_per_step", middle(|lap| lap.first));
    report.measure("last_thousand_us_per_step", middle(|lap| lap.last));
    report.judge("last_to_first_ratio", middle(|lap| lap.last / lap.first), "within 0.8 and 1.2");
    report.measure("reopen_ms", middle(|lap| lap.reopened.as_secs_f64() * 1e3));
    report.judge("replay_ms", middle(|lap| lap.replayed.as_secs_f64() * 1e3), "under 1,000");
    Ok(report)
}

/// All steps, a crash while the run waits, and the replay that goes on from there.
async fn lap(place: &BenchStore, steps: u32) -> Result<RunFigures> {
    let began = StepStarts::default();
    let opened = place.open(EngineOptions::default()).await?;
    register(&opened.engine, &began)?;
    opened.engine.register(load::WORKFLOW, load::take_steps)?;
    load::warm_up(&opened, &Arc::new(KeySeries::new(Keys::Ordered))).await?;
    let started = Instant::now();
    let run = opened.engine.start(WORKFLOW, &steps).await?;
    until_waiting(&run).await?;
    let took = started.elapsed();
    let taken = std::mem::take(&mut *began.lock().expect("no holder panics"));
    ensure!(taken.len() == steps as usize, "{} of {steps} steps were taken", taken.len());
    let id = run.id();
    drop(run);

    let reopening = Instant::now();
    let opened = opened.crash_and_reopen(place.url(), EngineOptions::default()).await?;
    let reopened = reopening.elapsed();
    register(&opened.engine, &began)?;
    let settling = Instant::now();
    opened.engine.resolve_promise(&format!("{id}:{PROMISE}"), &()).await?;
    let sum: u64 = opened.engine.run(id).await?.result().await?;
    let replayed = settling.elapsed();
    ensure!(sum == (0..u64::from(steps)).sum::<u64>(), "the replay came to {sum}");
    ensure!(began.lock().expect("no holder panics").is_empty(), "the replay took a step again");
    opened.close().await?;

    let end = END.min(taken.len() / 2).max(1);
    let (first, last) =
        (&taken[..=end.min(taken.len() - 1)], &taken[taken.len() - 1 - end.min(taken.len() - 1)..]);
    Ok(RunFigures { first: typical(first), last: typical(last), took, reopened, replayed })
}

/// The median time from one step to the next: a hiccup of the disk is not the engine's.
fn typical(steps: &[Instant]) -> f64 {
    let mut times = Histogram::new();
    steps.windows(2).for_each(|pair| times.record(pair[1] - pair[0]));
    times.us(50.0).unwrap_or(f64::NAN)
}

fn register(engine: &Engine, began: &StepStarts) -> Result<()> {
    let began = began.clone();
    Ok(engine.register(WORKFLOW, move |ctx: Ctx, steps: u32| {
        let began = began.clone();
        async move {
            let mut sum = 0;
            for nth in 0..u64::from(steps) {
                sum += ctx
                    .step("add", |_| {
                        began.lock().expect("no holder panics").push(Instant::now());
                        async move { Ok::<_, Failure>(nth) }
                    })
                    .await?;
            }
            ctx.create_promise::<()>(PROMISE).await?;
            Ok::<_, Failure>(sum)
        }
    })?)
}

async fn until_waiting(run: &RunHandle) -> Result<()> {
    loop {
        match run.view().await?.head.status() {
            RunStatus::Waiting => return Ok(()),
            status => ensure!(!status.is_closed(), "the run ended as {}", status.as_str()),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
