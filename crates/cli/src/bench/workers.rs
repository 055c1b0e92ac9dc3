//! `workers`: runs whose code is in a worker, over HTTP, beside the same runs in the process.
//!
//! Load and server share the process and its cores. The worker is in the process too, or the command of `--worker`.

mod command;
mod killed;
mod suspended;

use std::sync::Arc;

use anyhow::Result;
use hapax::{Hapax, WorkspaceId};
use indicatif::ProgressBar;

use super::histogram::{Histogram, median};
use super::http::served::Served;
use super::load::{Job, KeySeries, Load, WARM_UP, WORKFLOW, drive, take_steps};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress};
use command::WorkerCommand;

/// Rounds that are not counted.
const WARM_UPS: usize = 8;
/// Runs that are alone, one after the other.
const ALONE: u64 = 500;
/// A workspace whose runs stay in the process.
const LOCAL: &str = "bench-local";

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let load = Load {
        runs: options.runs.unwrap_or(20_000),
        steps: options.steps.unwrap_or(5),
        concurrency: options.concurrency.unwrap_or(256),
    };
    let served = Served::start(place.url()).await?;
    let measured = measure_served(options, place, &served, load).await;
    let stopped = served.stop().await;
    let mut report = measured?;
    stopped?;
    report.set("runs", load.runs);
    report.set("steps", load.steps);
    report.set("concurrency", load.concurrency);
    report.set("rounds", options.rounds);
    Ok(report)
}

async fn measure_served(
    options: &Options,
    place: &BenchStore,
    served: &Served,
    load: Load,
) -> Result<Report> {
    let local = served.engine().workspace(WorkspaceId::new(LOCAL)?);
    local.register(WORKFLOW, take_steps)?;
    let workers = Server::of(served, load.concurrency);
    let mut report = Report::new("workers", place);
    match &options.worker {
        Some(command) => {
            let mut command = WorkerCommand::start(command, &workers).await?;
            let client = workers.open().await?;
            tokio::select! {
                measured = measure_steps(options, served, &local, &client, load, &mut report) => measured?,
                ended = command.ended() => return Err(ended),
            }
            command.stop().await?;
        }
        None => {
            let program = workers.open().await?;
            program.register(WORKFLOW, take_steps)?;
            program.ready().await?;
            measure_steps(options, served, &local, &program, load, &mut report).await?;
            suspended::measure(options, served, &program, &mut report).await?;
            program.shutdown(std::time::Duration::ZERO).await?;
            killed::measure(options, &workers, &mut report).await?;
        }
    }
    Ok(report)
}

/// The server as a worker sees it.
struct Server {
    url: String,
    key: String,
    concurrency: u32,
}

impl Server {
    fn of(served: &Served, concurrency: u32) -> Self {
        let key = served.authorization().trim_start_matches("Bearer ").to_owned();
        Server { url: format!("http://{}", served.address()), key, concurrency }
    }

    /// A program that is connected to it.
    async fn open(&self) -> Result<Hapax> {
        let program = Hapax::builder(&self.url).api_key(&self.key).concurrency(self.concurrency);
        Ok(program.open().await?)
    }

    /// The same. A program that comes back under this name takes the place of the one before.
    async fn open_as(&self, instance: &str) -> Result<Hapax> {
        let program = Hapax::builder(&self.url).api_key(&self.key).concurrency(self.concurrency);
        Ok(program.instance(instance).open().await?)
    }
}

/// Steps of many runs, and one run alone.
async fn measure_steps(
    options: &Options,
    served: &Served,
    local: &hapax::Engine,
    client: &Hapax,
    load: Load,
    report: &mut Report,
) -> Result<()> {
    let remote = served.engine();
    let keys = Arc::new(KeySeries::new(options.keys));
    for _ in 0..WARM_UPS {
        for engine in [&remote, local] {
            drive(engine, WARM_UP, &keys, &ProgressBar::hidden()).await?;
        }
    }
    let bar = progress::bar("workers", load.runs * u64::from(options.rounds) * 2);
    let mut per_run = Histogram::new();
    let (mut measured, mut inside) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let round = drive(&remote, load, &keys, &bar).await?;
        measured.push(round.runs_per_second());
        per_run.add(&round.per_run);
        inside.push(drive(local, load, &keys, &bar).await?.runs_per_second());
    }
    bar.finish_and_clear();
    report.read_rss();
    let alone = take_turns(client, load.steps, ALONE.min(load.runs), &keys).await?;

    let steps = f64::from(load.steps);
    let (measured, inside) = (median(measured), median(inside));
    let aim = "Rust 15,000, TypeScript 5,000, Python 1,500";
    report.judge("steps_per_second", measured.map(|runs| runs * steps), aim);
    report.measure("p50_ms", per_run.ms(50.0));
    report.measure("p99_ms", per_run.ms(99.0));
    report.measure("steps_per_second_in_process", inside.map(|runs| runs * steps));
    let ratio = measured.zip(inside).map(|(measured, inside)| measured / inside);
    report.measure("ratio_to_in_process", ratio);
    report.judge("alone_p50_ms", alone.ms(50.0), "at most 5 for 5 steps");
    report.measure("alone_p99_ms", alone.ms(99.0));
    Ok(())
}

/// One run after the other, from the request that starts it to its result, both over HTTP.
async fn take_turns(client: &Hapax, steps: u32, runs: u64, keys: &Arc<KeySeries>) -> Result<Histogram> {
    let mut times = Histogram::new();
    for order in 0..runs {
        let began = std::time::Instant::now();
        let run = client.start(WORKFLOW, &Job::new(order, steps)).idempotency_key(keys.next()).await?;
        run.wait_for_end().await?;
        times.record(began.elapsed());
    }
    Ok(times)
}
