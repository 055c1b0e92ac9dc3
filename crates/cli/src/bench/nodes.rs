//! `nodes`: steps of several processes on one PostgreSQL, compared with one process.

use anyhow::{Result, bail};

use super::histogram::median;
use super::node::{NodeOptions, NodeResult, NodeTask, work_together};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress};

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    if !place.is_postgres() {
        bail!("nodes shares one database between processes; use --store postgres://…");
    }
    let nodes = options.nodes.unwrap_or(2);
    let node = |series| NodeOptions {
        work: NodeTask::Steps,
        store: place.url().to_string(),
        runs: options.runs.unwrap_or(10_000),
        steps: options.steps.unwrap_or(5),
        concurrency: options.concurrency.unwrap_or(256),
        series,
        effects: None,
    };
    let bar = progress::bar("nodes", u64::from(options.rounds) * 2);
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        for (count, measured) in [(1, &mut alone), (nodes, &mut together)] {
            let each: Vec<NodeOptions> = (0..count).map(|_| node(fastrand::u64(..))).collect();
            let done = work_together(&each).await?;
            measured.push(done.iter().map(NodeResult::runs_per_second).sum());
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let one = node(0);
    let steps = f64::from(one.steps);
    let (alone, together) = (median(alone), median(together));
    let mut report = Report::new("nodes", place);
    report.measure("runs_per_second", together);
    report.measure("steps_per_second", together.map(|runs| runs * steps));
    report.measure("one_node_steps_per_second", alone.map(|runs| runs * steps));
    report.measure("nodes_ratio", together.zip(alone).map(|(together, alone)| together / alone));
    report.read_rss();
    report.set("nodes", nodes);
    report.set("runs", one.runs);
    report.set("steps", one.steps);
    report.set("concurrency", one.concurrency);
    report.set("rounds", options.rounds);
    Ok(report)
}

impl NodeResult {
    fn runs_per_second(&self) -> f64 {
        self.runs as f64 / self.seconds
    }
}
