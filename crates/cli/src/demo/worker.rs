//! The process that does the work and is killed for it: it owns the database and drives the runs.

use std::collections::HashSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use hapax::store::{ListRuns, RunView};
use hapax::{Ctx, Engine, EngineRunHandle as RunHandle, Error, Hapax, RunStatus};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::messages::{Audit, Report, Request};
use super::order::{Order, Receipt, WORKFLOW, process_order};
use super::providers::Providers;

/// The file in the folder of the demo.
pub(super) const DATABASE: &str = "orders.db";

#[derive(Debug, clap::Args)]
pub(crate) struct WorkerOptions {
    /// The folder of the database.
    #[arg(long)]
    folder: PathBuf,
    /// Where the providers are.
    #[arg(long)]
    providers: SocketAddr,
}

/// Opens the database, goes on with what was cut off, and takes requests until there are no more.
pub(crate) async fn work(options: WorkerOptions) -> Result<()> {
    let hapax =
        Hapax::open(&format!("sqlite:{}", options.folder.join(DATABASE).display())).await?.into_engine()?;
    let worker = Worker { hapax, watched: Arc::default() };
    // Nothing is driven before its workflow is registered: what is open now is what the crash left.
    let found = worker.list_runs().await?;
    let (finished, cut_off): (Vec<_>, Vec<_>) =
        found.iter().partition(|run| run.head.status() == RunStatus::Completed);
    let numbers = |runs: &[&RunView]| runs.iter().filter_map(|run| number(run)).collect();
    tell(&Report::Opened { unfinished: numbers(&cut_off), finished: numbers(&finished) })?;
    let providers = Providers { address: options.providers };
    worker
        .hapax
        .register(WORKFLOW, move |ctx: Ctx, order: Order| process_order(ctx, order, providers.clone()))?;
    for run in cut_off {
        let order = number(run).context("a run without an order")?;
        worker.watch(order, worker.hapax.run(run.head.id()).await?);
    }
    worker.serve().await
}

#[derive(Clone)]
struct Worker {
    hapax: Engine,
    /// Orders whose end will be reported.
    watched: Arc<Mutex<HashSet<u32>>>,
}

impl Worker {
    async fn serve(&self) -> Result<()> {
        let mut requests = BufReader::new(tokio::io::stdin()).lines();
        while let Some(line) = requests.next_line().await? {
            match serde_json::from_str(&line)? {
                Request::Start { start, order } => {
                    tokio::spawn(self.clone().start(start, order));
                }
                Request::Audit => tell(&Report::Audited(self.audit().await?))?,
            }
        }
        Ok(())
    }

    async fn start(self, start: u64, order: Order) {
        match self.hapax.start(WORKFLOW, &order).idempotency_key(order.key()).await {
            Ok(run) => {
                // Nobody hears us if the demo is gone; the end of its requests will stop us.
                let _ = tell(&Report::Started { start });
                self.watch(order.number, run);
            }
            Err(error) => report_failure(order.number, &error),
        }
    }

    /// Reports the end of a run, once.
    fn watch(&self, order: u32, run: RunHandle) {
        if self.watched.lock().expect("no holder panics").insert(order) {
            tokio::spawn(async move {
                match run.result::<Receipt>().await {
                    Ok(_) => {
                        let _ = tell(&Report::Finished { order });
                    }
                    Err(error) => report_failure(order, &error),
                }
            });
        }
    }

    async fn audit(&self) -> Result<Audit> {
        let runs = self.list_runs().await?;
        let check = hapax::fsck::fsck(&*self.hapax.store()).await?;
        Ok(Audit {
            runs: runs.len() as u64,
            completed: runs.iter().filter(|run| run.head.status() == RunStatus::Completed).count() as u64,
            violations: check.violations.iter().map(ToString::to_string).collect(),
        })
    }

    async fn list_runs(&self) -> Result<Vec<RunView>> {
        let mut all = Vec::new();
        let mut before = None;
        loop {
            let request = ListRuns {
                workspace: None,
                statuses: Vec::new(),
                workflow: None,
                filter: Default::default(),
                before,
                limit: usize::MAX,
            };
            let page = self.hapax.list(request).await?;
            all.extend(page.runs);
            before = page.next;
            if before.is_none() {
                return Ok(all);
            }
        }
    }
}

fn number(run: &RunView) -> Option<u32> {
    run.input.to::<Order>().ok().map(|order| order.number)
}

fn report_failure(order: u32, error: &Error) {
    let _ = tell(&Report::Failed { order, why: error.to_string() });
}

/// One line at a time, whole or not at all: what the demo reads was true.
fn tell(report: &Report) -> Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}
