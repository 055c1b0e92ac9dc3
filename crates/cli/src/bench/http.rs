//! `http`: cost of creating a run over HTTP, compared with a handler that does nothing and with
//! starts without HTTP.
//!
//! All runs begin in an hour, also those started without HTTP, so that driving them does not
//! disturb the measurement. Server and client share the process and its cores.

mod client;
pub(super) mod served;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hapax::{Engine, model::Payload};
use indicatif::ProgressBar;
use tokio::task::JoinSet;

use super::histogram::{Histogram, median};
use super::load::{KeySeries, MAX_WARM_UPS, Round};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress, rss};
use client::{Answer, Connections, Key, RequestBody};
use served::{Served, WORKFLOW, WORKFLOW_VERSION};

/// When the runs begin: long after the measurement.
const DELAY: Duration = Duration::from_secs(3600);
/// Requests of each kind before anything counts.
const WARM_UP: u64 = 500;

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let runs = options.runs.unwrap_or(10_000);
    let connections = options.concurrency.unwrap_or(64);
    let served = Served::start(place.url()).await?;
    let measured = measure_served(options, place, &served, runs, connections).await;
    let stopped = served.stop().await;
    let mut report = measured?;
    stopped?;
    report.set("runs", runs);
    report.set("connections", connections);
    report.set("delay_ms", DELAY.as_millis() as u64);
    Ok(report)
}

async fn measure_served(
    options: &Options,
    place: &BenchStore,
    served: &Served,
    runs: u64,
    connections: u32,
) -> Result<Report> {
    let connections = connections.min(runs.try_into().unwrap_or(u32::MAX));
    let mut bench = Bench {
        options,
        served,
        connections: Connections::open(served.address(), connections).await?,
        bare: Connections::open(served.bare_address(), connections).await?,
        callers: connections,
        bar: ProgressBar::hidden(),
    };
    let log = place.log();
    for _ in 0..MAX_WARM_UPS {
        bench.round(WARM_UP).await?;
        if log.as_ref().is_none_or(|log| log.has_grown()) {
            break;
        }
    }
    let rss_before = rss::read().now;
    bench.bar = progress::bar("http", runs * u64::from(options.rounds) * 5);
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        rounds.push(bench.round(runs).await?);
    }
    bench.bar.finish_and_clear();
    Ok(report_of(place, rss_before, &rounds))
}

fn report_of(place: &BenchStore, rss_before: Option<u64>, rounds: &[Figures]) -> Report {
    let rate =
        |of: fn(&Figures) -> &Round| median(rounds.iter().map(|it| of(it).runs_per_second()).collect());
    let times = |of: fn(&Figures) -> &Round| {
        let mut all = Histogram::new();
        rounds.iter().for_each(|round| all.add(&of(round).per_run));
        all
    };
    let mut report = Report::new("http", place);
    let created = times(|it| &it.create);
    report.measure("runs_per_second", rate(|it| &it.create));
    report.measure("p50_ms", created.ms(50.0));
    report.measure("p99_ms", created.ms(99.0));
    report.read_rss();
    report.set("rss_before_bytes", rss_before);
    report.measure("bare_handler_per_second", rate(|it| &it.bare));
    report.measure("bare_handler_p50_ms", times(|it| &it.bare).ms(50.0));
    report.measure("embedded_starts_per_second", rate(|it| &it.embedded));
    report.measure("embedded_p50_ms", times(|it| &it.embedded).ms(50.0));
    let ratios = rounds.iter().map(Figures::create_ratio).collect();
    report.judge("create_ratio", median(ratios), "at least 0.5 of the slower of the two");
    let new = times(|it| &it.new);
    report.measure("new_keys_per_second", rate(|it| &it.new));
    report.measure("new_key_p50_ms", new.ms(50.0));
    report.measure("new_key_p99_ms", new.ms(99.0));
    let replay = times(|it| &it.replay);
    report.measure("replays_per_second", rate(|it| &it.replay));
    report.measure("replay_p50_ms", replay.ms(50.0));
    report.measure("replay_p99_ms", replay.ms(99.0));
    let ratios = rounds.iter().map(Figures::replay_ratio).collect();
    report.judge("replay_ratio", median(ratios), "at least 2 for each new key");
    report
}

/// One round: all kinds by turns, so that they see the same machine.
struct Figures {
    /// A handler that answers as many bytes and does nothing.
    bare: Round,
    /// Starts without HTTP.
    embedded: Round,
    /// Runs created with a key of their own.
    create: Round,
    /// New requests with `Idempotency-Key`.
    new: Round,
    /// The same again.
    replay: Round,
}

impl Figures {
    fn create_ratio(&self) -> f64 {
        let slower = self.bare.runs_per_second().min(self.embedded.runs_per_second());
        self.create.runs_per_second() / slower
    }

    fn replay_ratio(&self) -> f64 {
        self.replay.runs_per_second() / self.new.runs_per_second()
    }
}

struct Bench<'a> {
    options: &'a Options,
    served: &'a Served,
    connections: Connections,
    bare: Connections,
    callers: u32,
    bar: ProgressBar,
}

impl Bench<'_> {
    async fn round(&mut self, runs: u64) -> Result<Figures> {
        let keys = || Arc::new(KeySeries::new(self.options.keys));
        let (business, requests) = (keys(), keys());
        let asking = |key, expected| RequestBody {
            authorization: self.served.authorization(),
            definition: self.served.definition().into(),
            key,
            expected,
        };
        let bare = asking(Key::InBody(business.clone()), Answer::Whatever);
        let create = asking(Key::InBody(business), Answer::Created);
        let new = asking(Key::InHeader(requests.clone()), Answer::Created);
        let replay = asking(Key::InHeader(requests), Answer::Replayed);
        let embedded = keys();
        Ok(Figures {
            bare: self.bare.ask(bare, runs, &self.bar).await?,
            embedded: start_all(&self.served.engine(), &embedded, runs, self.callers, &self.bar).await?,
            create: self.connections.ask(create, runs, &self.bar).await?,
            new: self.connections.ask(new, runs, &self.bar).await?,
            replay: self.connections.ask(replay, runs, &self.bar).await?,
        })
    }
}

/// Starts the same runs as the requests do, without HTTP, from as many callers.
async fn start_all(
    engine: &Engine,
    keys: &Arc<KeySeries>,
    runs: u64,
    callers: u32,
    bar: &ProgressBar,
) -> Result<Round> {
    let next = Arc::new(AtomicU64::new(0));
    let mut starting = JoinSet::new();
    let began = Instant::now();
    for _ in 0..callers {
        let (engine, keys, next, bar) = (engine.clone(), keys.clone(), next.clone(), bar.clone());
        starting.spawn(async move {
            let mut times = Histogram::new();
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= runs {
                    return anyhow::Ok(times);
                }
                let began = Instant::now();
                let start = engine.start_payload(WORKFLOW, Payload::parse(&client::input(nth))?);
                let run = start.version(WORKFLOW_VERSION).idempotency_key(keys.nth(nth)).delay(DELAY).await?;
                ensure!(run.created, "a key was used before");
                times.record(began.elapsed());
                bar.inc(1);
            }
        });
    }
    let mut per_run = Histogram::new();
    while let Some(times) = starting.join_next().await {
        per_run.add(&times??);
    }
    Ok(Round { took: began.elapsed(), per_run })
}
