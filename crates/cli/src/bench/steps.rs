//! `steps`: runs of a few trivial steps, many outstanding, beside the ceiling of the store.

use std::sync::Arc;

use anyhow::Result;
use hapax::EngineOptions;

use super::baseline::{Baseline, StatementForm};
use super::ceiling::Ceiling;
use super::histogram::{Histogram, median};
use super::load::{KeySeries, Load, WORKFLOW, drive, take_steps, warm_up};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress};

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let load = Load {
        runs: options.runs.unwrap_or(20_000),
        steps: options.steps.unwrap_or(5),
        concurrency: options.concurrency.unwrap_or(256),
    };
    let ceiling = Ceiling::prepare(place, load.steps).await?;
    let baseline = Baseline::prepare(place).await?;
    let opened = place.open(EngineOptions::default()).await?;
    opened.engine.register(WORKFLOW, take_steps)?;
    let keys = Arc::new(KeySeries::new(options.keys));

    let bar = progress::bar("steps", load.runs * u64::from(options.rounds));
    warm_up(&opened, &keys).await?;
    let mut report = Report::new("steps", place);
    let mut per_run = Histogram::new();
    let (mut measured, mut bare, mut plain, mut terse) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for nth in 0..options.rounds {
        let round = drive(&opened.engine, load, &keys, &bar).await?;
        measured.push(round.runs_per_second());
        per_run.add(&round.per_run);
        if nth == 0 {
            // Before the other connection has filled its cache.
            report.read_rss();
        }
        if let Some(ceiling) = &ceiling {
            let took = ceiling.round(load, &keys)?;
            bare.push(load.runs as f64 / took.as_secs_f64());
        }
        if let Some(baseline) = &baseline {
            let took = baseline.round(load, &keys, StatementForm::Transaction).await?;
            plain.push(load.runs as f64 / took.as_secs_f64());
            let took = baseline.round(load, &keys, StatementForm::OneStatement).await?;
            terse.push(load.runs as f64 / took.as_secs_f64());
        }
    }
    bar.finish_and_clear();

    let steps = f64::from(load.steps);
    let (measured, bare) = (median(measured), median(bare));
    report.measure("runs_per_second", measured);
    let aim = if place.is_postgres() { "20,000" } else { "60,000" };
    report.judge("steps_per_second", measured.map(|runs| runs * steps), aim);
    report.measure("p50_ms", per_run.ms(50.0));
    report.measure("p99_ms", per_run.ms(99.0));
    report.measure("ceiling_steps_per_second", bare.map(|runs| runs * steps));
    let ratio = measured.zip(bare).map(|(measured, bare)| measured / bare);
    report.judge("ceiling_ratio", ratio, "at least 0.5");
    if let Some(baseline) = baseline {
        let plain = median(plain);
        report.measure("baseline_steps_per_second", plain.map(|runs| runs * steps));
        let ratio = measured.zip(plain).map(|(measured, plain)| measured / plain);
        report.judge("baseline_ratio", ratio, "at least 5");
        let terse = median(terse);
        report.measure("one_statement_steps_per_second", terse.map(|runs| runs * steps));
        let ratio = measured.zip(terse).map(|(measured, terse)| measured / terse);
        report.judge("one_statement_ratio", ratio, "more than 1");
        baseline.finish().await?;
    }
    report.set("runs", load.runs);
    report.set("steps", load.steps);
    report.set("concurrency", load.concurrency);
    report.set("rounds", options.rounds);
    opened.close().await?;
    Ok(report)
}
