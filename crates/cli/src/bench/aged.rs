//! `aged`: steps on a database full of finished runs, in turn with an empty one.

use std::sync::Arc;

use anyhow::{Context, Result};
use hapax::EngineOptions;

use super::histogram::{Histogram, median};
use super::load::{KeySeries, Load, WORKFLOW, drive, take_steps, warm_up};
use super::place::{BenchStore, Opened};
use super::report::Report;
use super::{Options, finished_runs, progress};

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let load = Load {
        runs: options.runs.unwrap_or(20_000),
        steps: options.steps.unwrap_or(5),
        concurrency: options.concurrency.unwrap_or(256),
    };
    let needs_sqlite = "aged fills a SQLite file directly; use --store sqlite:PATH";
    let full_file = place.scratch("aged")?.context(needs_sqlite)?;
    let empty_file = place.scratch("empty")?.context(needs_sqlite)?;
    let bar = progress::bar("filling", options.finished);
    finished_runs::fill(full_file.path(), load.steps, options.finished, options.keys, &bar).await?;
    bar.finish_and_clear();
    let bytes = std::fs::metadata(full_file.path())?.len();

    let keys = Arc::new(KeySeries::new(options.keys));
    let full = open(&full_file.url(), &keys).await?;
    let empty = open(&empty_file.url(), &keys).await?;
    let bar = progress::bar("aged", load.runs * u64::from(options.rounds) * 2);
    let mut per_run = Histogram::new();
    let (mut on_full, mut on_empty) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let round = drive(&full.engine, load, &keys, &bar).await?;
        on_full.push(round.runs_per_second());
        per_run.add(&round.per_run);
        on_empty.push(drive(&empty.engine, load, &keys, &bar).await?.runs_per_second());
    }
    bar.finish_and_clear();

    let steps = f64::from(load.steps);
    let (on_full, on_empty) = (median(on_full), median(on_empty));
    let mut report = Report::new("aged", place);
    report.measure("runs_per_second", on_full);
    report.measure("steps_per_second", on_full.map(|runs| runs * steps));
    report.measure("p50_ms", per_run.ms(50.0));
    report.measure("p99_ms", per_run.ms(99.0));
    report.read_rss();
    report.measure("empty_steps_per_second", on_empty.map(|runs| runs * steps));
    let ratio = on_full.zip(on_empty).map(|(full, empty)| full / empty);
    report.judge("aged_ratio", ratio, "at least 0.9");
    report.set("finished_runs", options.finished);
    report.set("database_bytes", bytes);
    report.set("runs", load.runs);
    report.set("steps", load.steps);
    report.set("concurrency", load.concurrency);
    report.set("rounds", options.rounds);
    full.close().await?;
    empty.close().await?;
    Ok(report)
}

async fn open(url: &str, keys: &Arc<KeySeries>) -> Result<Opened> {
    let opened = Opened::open(url, EngineOptions::default()).await?;
    opened.engine.register(WORKFLOW, take_steps)?;
    warm_up(&opened, keys).await?;
    Ok(opened)
}
