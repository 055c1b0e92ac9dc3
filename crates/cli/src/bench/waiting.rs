//! `waiting`: very many runs that wait, half for a promise and half for a timer: what each costs, and how fast one wakes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hapax::model::RunId;
use hapax::{Ctx, Engine, EngineOptions, days};
use indicatif::ProgressBar;
use tokio::task::JoinSet;

use super::histogram::Histogram;
use super::place::{BenchStore, Opened};
use super::report::Report;
use super::{Options, progress, rss};

const WORKFLOW: &str = "bench-waiting";
const PROMISE: &str = "go";
/// The crowd that wake-ups among few are measured in.
const FEW: u64 = 100;
const WAKES: usize = 300;
/// How long freed memory gets to find its way back.
const SETTLE_FOR: Duration = Duration::from_secs(2);

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let runs = options.runs.unwrap_or(100_000);
    let concurrency = options.concurrency.unwrap_or(256);
    let many = place.open(evicting()).await?;
    register(&many.engine)?;
    let bar = progress::bar("waiting", runs);
    // Fixed costs of an engine are not counted.
    let mut waiting = WaitingRuns::with_capacity(runs);
    waiting.grow(&many.engine, FEW.min(runs), concurrency, &bar).await?;
    // A file has room for a small crowd beside it; in a server's database the small crowd is measured before it grows.
    let among_few = match place.is_postgres() {
        true => Some(time_wakes_here(&many, &mut waiting).await?),
        false => None,
    };
    let before = rss::read().now;
    let counted = runs - waiting.len();
    let began = Instant::now();
    waiting.grow(&many.engine, counted / 2, concurrency, &bar).await?;
    let halfway = rss::read().now;
    waiting.grow(&many.engine, counted - counted / 2, concurrency, &bar).await?;
    let took = began.elapsed();
    let after = rss::read().now;
    tokio::time::sleep(SETTLE_FOR).await;
    let settled = rss::read().now;
    bar.finish_and_clear();

    let (among_few, among_many) = match among_few {
        Some(few) => (few, time_wakes_here(&many, &mut waiting).await?),
        None => time_wakes(&many, waiting, place, concurrency).await?,
    };
    let mut report = Report::new("waiting", place);
    report.measure("runs_per_second", Some(counted as f64 / took.as_secs_f64()));
    report.measure("p50_ms", among_many.ms(50.0));
    report.measure("p99_ms", among_many.ms(99.0));
    report.read_rss();
    report.set("runs", runs);
    let each = |from: Option<u64>, to: Option<u64>, runs: u64| {
        let grown = to?.saturating_sub(from?);
        (runs > 0).then(|| grown as f64 / runs as f64)
    };
    report.judge("rss_bytes_per_waiting_run", each(before, settled, counted), "under 1,024");
    report.measure("rss_bytes_per_waiting_run_unsettled", each(before, after, counted));
    report.measure("rss_bytes_per_further_waiting_run", each(halfway, after, counted - counted / 2));
    report.measure("wake_p50_ms_among_few", among_few.ms(50.0));
    report.measure("wake_p99_ms_among_few", among_few.ms(99.0));
    report.measure("wake_p50_ms", among_many.ms(50.0));
    report.measure("wake_p99_ms", among_many.ms(99.0));
    let ratio = among_many.ms(50.0).zip(among_few.ms(50.0)).map(|(many, few)| many / few);
    report.judge("wake_ratio", ratio, "about 1");
    many.close().await?;
    Ok(report)
}

/// Nothing that waits stays in memory.
fn evicting() -> EngineOptions {
    EngineOptions { max_resident: 0, ..EngineOptions::default() }
}

fn register(engine: &Engine) -> Result<()> {
    Ok(engine.register(WORKFLOW, |ctx: Ctx, for_promise: bool| async move {
        match for_promise {
            true => ctx.create_promise::<()>(PROMISE).await,
            false => ctx.sleep(days(300)).await,
        }
    })?)
}

/// Wakes one run at a time, in turn among few and among many, so that both see the same machine.
async fn time_wakes(
    many: &Opened,
    mut waiting: WaitingRuns,
    place: &BenchStore,
    concurrency: u32,
) -> Result<(Histogram, Histogram)> {
    let scratch = place.scratch("few")?;
    let url = scratch.as_ref().map_or("memory:".to_string(), |file| file.url());
    let few = Opened::open(&url, evicting()).await?;
    register(&few.engine)?;
    let hidden = ProgressBar::hidden();
    let mut some = WaitingRuns::with_capacity(FEW);
    some.grow(&few.engine, FEW, concurrency, &hidden).await?;
    let (mut among_few, mut among_many) = (Histogram::new(), Histogram::new());
    let bar = progress::bar("waking", WAKES as u64);
    for _ in 0..WAKES {
        among_few.record(some.wake_one(&few.engine).await?);
        among_many.record(waiting.wake_one(&many.engine).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    few.close().await?;
    Ok((among_few, among_many))
}

/// Wakes one run at a time.
async fn time_wakes_here(opened: &Opened, waiting: &mut WaitingRuns) -> Result<Histogram> {
    let mut times = Histogram::new();
    for _ in 0..WAKES {
        times.record(waiting.wake_one(&opened.engine).await?);
    }
    Ok(times)
}

/// Waiting runs, and how many of them wait for a promise.
struct WaitingRuns {
    len: u64,
    for_promise: VecDeque<RunId>,
}

impl WaitingRuns {
    /// Room for all is taken beforehand, so that it is not mistaken for the engine's.
    fn with_capacity(runs: u64) -> WaitingRuns {
        let mut for_promise = VecDeque::from(vec![RunId::from_u128(1); runs as usize]);
        for_promise.clear();
        WaitingRuns { len: 0, for_promise }
    }

    fn len(&self) -> u64 {
        self.len
    }

    /// Starts further runs, half of each kind, and waits until they wait.
    async fn grow(&mut self, engine: &Engine, by: u64, callers: u32, bar: &ProgressBar) -> Result<()> {
        let next = Arc::new(AtomicU64::new(0));
        let mut starting = JoinSet::new();
        for _ in 0..callers {
            let (engine, next, bar) = (engine.clone(), next.clone(), bar.clone());
            starting.spawn(async move {
                let mut for_promise = Vec::new();
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= by {
                        return anyhow::Ok(for_promise);
                    }
                    let waits_for_promise = nth % 2 == 0;
                    let run = engine.start(WORKFLOW, &waits_for_promise).await?;
                    if waits_for_promise {
                        for_promise.push(run.id());
                    }
                    bar.inc(1);
                }
            });
        }
        while let Some(started) = starting.join_next().await {
            self.for_promise.extend(started??);
        }
        self.len += by;
        until_idle(engine).await;
        Ok(())
    }

    /// From the settlement of a promise to the end of the run that waited for it; another takes its place.
    async fn wake_one(&mut self, engine: &Engine) -> Result<Duration> {
        let id = self.for_promise.pop_front().context("no run waits for a promise")?;
        let run = engine.run(id).await?;
        let began = Instant::now();
        engine.resolve_promise(&format!("{id}:{PROMISE}"), &()).await?;
        run.result::<()>().await?;
        let took = began.elapsed();
        let another = engine.start(WORKFLOW, &true).await?;
        self.for_promise.push_back(another.id());
        until_idle(engine).await;
        Ok(took)
    }
}

/// Waits until no run is driven: all that are open wait.
async fn until_idle(engine: &Engine) {
    while engine.active_runs() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
