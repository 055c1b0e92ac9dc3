//! A process of its own that works on the measured store, told over its standard input when to begin.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use hapax::EngineOptions;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::load::{KeySeries, Keys, Load, WORKFLOW, drive, take_steps, warm_up};
use super::place::Opened;
use super::{recovery, starts};
use crate::output;

/// Task of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum NodeTask {
    Steps,
    Starts,
    Crash,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NodeOptions {
    #[arg(long)]
    pub(super) work: NodeTask,
    #[arg(long)]
    pub(super) store: String,
    #[arg(long)]
    pub(super) runs: u64,
    #[arg(long)]
    pub(super) steps: u32,
    #[arg(long)]
    pub(super) concurrency: u32,
    #[arg(long)]
    pub(super) series: u64,
    /// Where effects are noted.
    #[arg(long)]
    pub(super) effects: Option<PathBuf>,
}

/// Result of a node.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NodeResult {
    pub(super) runs: u64,
    pub(super) seconds: f64,
}

/// The process itself.
pub(crate) async fn work(options: NodeOptions) -> Result<()> {
    if options.work == NodeTask::Crash {
        return recovery::work_until_killed(&options).await;
    }
    let opened = Opened::open(&options.store, EngineOptions::default()).await?;
    let keys = Arc::new(KeySeries::of(Keys::Ordered, options.series));
    let done = match options.work {
        NodeTask::Steps => {
            opened.engine.register(WORKFLOW, take_steps)?;
            warm_up(&opened, &Arc::new(KeySeries::new(Keys::Ordered))).await?;
            wait_for_go().await?;
            let load = Load { runs: options.runs, steps: options.steps, concurrency: options.concurrency };
            let round = drive(&opened.engine, load, &keys, &ProgressBar::hidden()).await?;
            NodeResult { runs: options.runs, seconds: round.took.as_secs_f64() }
        }
        NodeTask::Starts => starts::start_all(&opened.engine, &options, &keys, wait_for_go()).await?,
        NodeTask::Crash => unreachable!("handled above"),
    };
    output::print(&format!("{}\n", serde_json::to_string(&done)?))?;
    opened.close().await
}

async fn wait_for_go() -> Result<()> {
    output::print("ready\n")?;
    let line = BufReader::new(tokio::io::stdin()).lines().next_line().await?;
    ensure!(line.as_deref() == Some("go"), "nobody says go");
    Ok(())
}

/// A node as the benchmark sees it; it goes with the benchmark.
pub(super) struct Node {
    child: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Node {
    pub(super) async fn start(options: &NodeOptions) -> Result<Node> {
        let program = std::env::current_exe().context("the path of this program is not known")?;
        let mut command = Command::new(program);
        let work = options.work.to_possible_value().expect("no work is hidden");
        command.arg("bench-node").args(["--work", work.get_name(), "--store", &options.store]);
        for (name, value) in [
            ("--runs", options.runs),
            ("--steps", options.steps.into()),
            ("--concurrency", options.concurrency.into()),
            ("--series", options.series),
        ] {
            command.args([name, &value.to_string()]);
        }
        if let Some(effects) = &options.effects {
            command.arg("--effects").arg(effects as &Path);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("a node could not be started")?;
        let orders = child.stdin.take().expect("it was piped");
        let lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        let mut node = Node { child, orders, lines };
        let line = node.next_line().await?;
        ensure!(line == "ready", "a node said {line:?}");
        Ok(node)
    }

    async fn next_line(&mut self) -> Result<String> {
        self.lines.next_line().await?.context("a node ended too early; standard error says why")
    }

    async fn go(&mut self) -> Result<()> {
        Ok(self.orders.write_all(b"go\n").await?)
    }

    async fn done(&mut self) -> Result<NodeResult> {
        let line = self.next_line().await?;
        serde_json::from_str(&line).with_context(|| format!("a node said {line:?}"))
    }

    /// As `kill -9` does.
    pub(super) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// Lets nodes work at the same time; all are ready before the first begins.
pub(super) async fn work_together(each: &[NodeOptions]) -> Result<Vec<NodeResult>> {
    let mut nodes = Vec::with_capacity(each.len());
    for options in each {
        nodes.push(Node::start(options).await?);
    }
    for node in &mut nodes {
        node.go().await?;
    }
    let mut done = Vec::with_capacity(nodes.len());
    for node in &mut nodes {
        done.push(node.done().await?);
    }
    Ok(done)
}
