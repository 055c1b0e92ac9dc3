//! `hapax bench`: how fast a store is, and how near to what its disk allows.

mod aged;
mod baseline;
mod ceiling;
mod effects;
mod entities;
mod finished_runs;
mod histogram;
mod http;
mod latency;
mod load;
mod long;
mod node;
mod nodes;
mod place;
mod progress;
mod promises;
mod recovery;
mod report;
mod rss;
mod sqlite_template;
mod starts;
mod steps;
mod waiting;
mod workers;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::output;
use crate::output::shape::{Shape, ShapeOptions};
use load::Keys;
pub(crate) use node::{NodeOptions, work};
use place::BenchStore;
use report::Report;

const EXAMPLES: &str = "\
Workloads:
  steps     runs of a few trivial steps, many outstanding; compared with bare batched SQL on the same disk, or on
            PostgreSQL with a plain client that commits every step
  latency   the same, one outstanding; compared with the time of a bare commit
  starts    ten starts for every key, many callers: one run per key, and what a duplicate costs
  waiting   many runs that wait for a promise or a timer: memory for each, and how fast one wakes
  promises  from a settlement by key to the step that waited for it, settlements in a row, a key among very many
  long      one run of very many steps: does it slow down, and how long is it replayed after a crash
  recovery  a process killed with many runs in flight: how soon they go on, and what is done again
  effects   what the ledger of effects and a claim cost, and how long a crash at every point of a workflow takes
  entities  claimed transitions on distinct entities, 64 callers, in the store's own table and in one of the user's; compared,
            per commit, with steps
  nodes     steps of several processes on one PostgreSQL, compared with those of one
  aged      steps on a database full of finished runs, compared with an empty one
  http      runs created over HTTP and requests sent again, beside a handler that does nothing and starts without HTTP
  workers   runs whose code is in a worker over HTTP, in Rust or the command of --worker: steps beside those of the same
            runs in the process, one run alone, how soon it goes on after a promise, a long run, a killed worker
  all       every one of them but nodes, http and workers

Examples:
  hapax bench steps
  hapax bench steps --store sqlite:/data/bench.db --json
  hapax bench steps --store memory: --runs 100000
  hapax bench waiting --runs 1000000
  hapax bench aged --finished 100000
  hapax bench nodes --store postgres://localhost/bench --nodes 2
  hapax bench entities --concurrency 64
  hapax bench http --json
  hapax bench workers --worker 'node sdk/typescript/bench/worker.mjs'

Figures are medians of --rounds rounds. A store that is named is written to and not deleted.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The workload.
    #[arg(required_unless_present = "http")]
    workload: Option<Workload>,
    /// The same as the workload http.
    #[arg(long, conflicts_with = "workload")]
    http: bool,
    /// Where: memory:, sqlite:PATH or postgres://… . Unless said, a new SQLite file in a temporary folder.
    #[arg(long, value_name = "URL", value_parser = place::parse_url)]
    store: Option<String>,
    #[command(flatten)]
    shape: ShapeOptions,
    /// How many runs (starts: how many starts; entities: how many transitions). Each workload has a default of its own.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    runs: Option<u64>,
    /// How many steps in each run.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,
    /// How many runs are outstanding at a time (http: how many connections; entities: how many callers).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9_000))]
    concurrency: Option<u32>,
    /// How often to measure; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// nodes, starts: how many processes at once.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    nodes: Option<u32>,
    /// aged: how many finished runs are there before.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    finished: u64,
    /// Idempotency keys that follow each other, like order numbers, or random ones, like UUIDs.
    #[arg(long, value_enum, default_value_t = Keys::Ordered)]
    keys: Keys,
    /// workers: a command whose process serves the workflow bench-steps, instead of a worker in Rust. It finds the server in
    /// HAPAX_URL and HAPAX_API_KEY.
    #[arg(long, value_name = "COMMAND")]
    worker: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    Steps,
    Latency,
    Starts,
    Waiting,
    Promises,
    Long,
    Aged,
    Recovery,
    Effects,
    Entities,
    Nodes,
    Http,
    Workers,
    All,
}

impl Workload {
    const EACH: [Workload; 10] = [
        Workload::Steps,
        Workload::Latency,
        Workload::Starts,
        Workload::Waiting,
        Workload::Promises,
        Workload::Long,
        Workload::Aged,
        Workload::Recovery,
        Workload::Effects,
        Workload::Entities,
    ];
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let place = BenchStore::find(options.store.as_deref())?;
    place.announce();
    let workload = options.workload.unwrap_or(Workload::Http);
    if workload != Workload::All {
        let report = measure(workload, &options, &place).await?;
        return options.shape.show(&report, || report.to_text());
    }
    let mut reports = Vec::new();
    for workload in Workload::EACH {
        if matches!(workload, Workload::Aged | Workload::Recovery) && !place.is_sqlite() {
            output::say("aged and recovery are left out where the store is not a SQLite file");
            continue;
        }
        let report = measure(workload, &options, &place).await?;
        // People see progress, programs see the result at the end.
        if options.shape.shape() == Shape::Table {
            output::print(&report.to_text())?;
        }
        reports.push(report);
    }
    options.shape.show(&report::AllReports::new(&place, reports), String::new)
}

async fn measure(workload: Workload, options: &Options, place: &BenchStore) -> Result<Report> {
    match workload {
        Workload::Steps => steps::measure(options, place).await,
        Workload::Latency => latency::measure(options, place).await,
        Workload::Starts => starts::measure(options, place).await,
        Workload::Waiting => waiting::measure(options, place).await,
        Workload::Promises => promises::measure(options, place).await,
        Workload::Long => long::measure(options, place).await,
        Workload::Aged => aged::measure(options, place).await,
        Workload::Recovery => recovery::measure(options, place).await,
        Workload::Effects => effects::measure(options, place).await,
        Workload::Entities => entities::measure(options, place).await,
        Workload::Nodes => nodes::measure(options, place).await,
        Workload::Http => http::measure(options, place).await,
        Workload::Workers => workers::measure(options, place).await,
        Workload::All => bail!("all is every workload, one after the other"),
    }
}
