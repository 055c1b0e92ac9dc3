//! `latency`: one run at a time, beside the same commits made by bare SQL, and beside bare commits of one row.

use std::sync::Arc;

use anyhow::Result;
use hapax::EngineOptions;

use super::ceiling::Ceiling;
use super::histogram::{Histogram, median};
use super::load::{KeySeries, Load, WORKFLOW, drive, take_steps, warm_up};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress};

/// Runs and commits take turns in portions of this many, so that both see the same disk.
const PORTION: u64 = 50;

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let runs = options.runs.unwrap_or(1_000);
    let steps = options.steps.unwrap_or(5);
    let concurrency = options.concurrency.unwrap_or(1);
    let ceiling = Ceiling::prepare(place, steps).await?;
    let opened = place.open(EngineOptions::default()).await?;
    opened.engine.register(WORKFLOW, take_steps)?;
    let keys = Arc::new(KeySeries::new(options.keys));
    warm_up(&opened, &keys).await?;

    let bar = progress::bar("latency", runs);
    let (mut per_run, mut commits, mut bare_steps) = (Histogram::new(), Histogram::new(), Histogram::new());
    let mut bare_runs = Histogram::new();
    let mut measured = Vec::new();
    let mut left = runs;
    while left > 0 {
        let portion = left.min(PORTION);
        left -= portion;
        let load = Load { runs: portion, steps, concurrency };
        let round = drive(&opened.engine, load, &keys, &bar).await?;
        measured.push(round.runs_per_second());
        per_run.add(&round.per_run);
        if let Some(ceiling) = &ceiling {
            commits.add(&ceiling.time_commits(portion)?);
            bare_steps.add(&ceiling.time_steps(portion.div_ceil(u64::from(steps)), &keys)?);
            bare_runs.add(&ceiling.time_runs(portion.div_ceil(u64::from(steps)), &keys)?);
        }
    }
    bar.finish_and_clear();

    let measured = median(measured);
    let per_step = per_run.ms(50.0).map(|ms| ms / f64::from(steps));
    let mut report = Report::new("latency", place);
    report.measure("runs_per_second", measured);
    report.measure("steps_per_second", measured.map(|runs| runs * f64::from(steps)));
    report.judge("p50_ms", per_run.ms(50.0), "2 ms for 5 steps");
    report.measure("p99_ms", per_run.ms(99.0));
    report.read_rss();
    report.measure("step_p50_ms", per_step);
    report.measure("commit_p50_ms", commits.ms(50.0));
    report.measure("commit_p99_ms", commits.ms(99.0));
    let ratio = per_step.zip(commits.ms(50.0)).map(|(step, commit)| step / commit);
    report.measure("one_row_commits_per_step", ratio);
    report.measure("bare_step_p50_ms", bare_steps.ms(50.0));
    let ratio = per_step.zip(bare_steps.ms(50.0)).map(|(step, bare)| step / bare);
    report.measure("bare_steps_per_step", ratio);
    report.measure("bare_run_p50_ms", bare_runs.ms(50.0));
    let ratio = per_run.ms(50.0).zip(bare_runs.ms(50.0)).map(|(run, bare)| run / bare);
    report.measure("run_to_bare_run_ratio", ratio);
    // A run is the commit of its start and one for each step.
    let commits_per_step = ratio.map(|ratio| ratio * f64::from(steps + 1) / f64::from(steps));
    report.judge("commits_per_step", commits_per_step, "at most 1.5");
    report.set("runs", runs);
    report.set("steps", steps);
    report.set("concurrency", concurrency);
    opened.close().await?;
    Ok(report)
}
