//! `workers`: runs whose code is in workers, over HTTP, beside the same runs in the process.
//!
//! Load, server and workers share the process and its cores. Two workers take turns with the server: while one waits for the
//! commit of its steps, the other works.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use hapax::WorkspaceId;
use hapax_api::client::Client;
use hapax_api::{
    CommitWorkerSession, OpenWorkerSession, PollWorkerSession, RawJson, WorkerRunItems, WorkerWorkflow,
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::histogram::{Histogram, median};
use super::http::served::Served;
use super::load::{Job, KeySeries, Load, NAMES, WARM_UP, WORKFLOW, drive, take_steps};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress};

/// How many workers there are.
const WORKERS: usize = 2;
/// Rounds that are not counted.
const WARM_UPS: usize = 4;
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
    let remote = served.engine();
    let local = remote.workspace(WorkspaceId::new(LOCAL)?);
    local.register(WORKFLOW, take_steps)?;
    let key = served.authorization().trim_start_matches("Bearer ").to_owned();
    let mut workers = JoinSet::new();
    let mut programs = Vec::new();
    let is_bare = std::env::var_os("HAPAX_BENCH_BARE").is_some();
    for _ in 0..WORKERS {
        if !is_bare {
            let url = format!("http://{}", served.address());
            let program =
                hapax::Hapax::builder(&url).api_key(&key).concurrency(load.concurrency).open().await?;
            program.register(WORKFLOW, take_steps)?;
            program.ready().await?;
            programs.push(program);
            continue;
        }
        let client = Client::new(&format!("http://{}", served.address()), &SecretString::from(key.clone()))?;
        let session = Worker::open(client, load.concurrency).await?;
        workers.spawn(session.work());
    }
    let keys = Arc::new(KeySeries::new(options.keys));
    let bar = progress::bar("workers", load.runs * u64::from(options.rounds) * 2);
    for _ in 0..WARM_UPS {
        for engine in [&remote, &local] {
            drive(engine, WARM_UP, &keys, &indicatif::ProgressBar::hidden()).await?;
        }
    }
    let mut report = Report::new("workers", place);
    let mut per_run = Histogram::new();
    let (mut measured, mut inside) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        // A worker that failed would leave the runs waiting.
        tokio::select! {
            round = drive(&remote, load, &keys, &bar) => {
                let round = round?;
                measured.push(round.runs_per_second());
                per_run.add(&round.per_run);
            }
            Some(ended) = workers.join_next() => ended??,
        }
        inside.push(drive(&local, load, &keys, &bar).await?.runs_per_second());
    }
    bar.finish_and_clear();
    report.read_rss();
    let steps = f64::from(load.steps);
    let (measured, inside) = (median(measured), median(inside));
    report.judge("steps_per_second", measured.map(|runs| runs * steps), "15,000");
    report.measure("p50_ms", per_run.ms(50.0));
    report.measure("p99_ms", per_run.ms(99.0));
    report.measure("steps_per_second_in_process", inside.map(|runs| runs * steps));
    let ratio = measured.zip(inside).map(|(measured, inside)| measured / inside);
    report.measure("ratio_to_in_process", ratio);
    Ok(report)
}

/// A worker that has the code of [`take_steps`].
struct Worker {
    client: Client,
    session: String,
    /// Jobs of runs that it has begun.
    jobs: HashMap<String, Job>,
    items: Vec<WorkerRunItems>,
    requests: u64,
    free: u32,
}

/// Parts of a message that this worker reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    run: String,
    activation: String,
    input: Option<Job>,
    op: Option<u32>,
    attempt: Option<u32>,
}

impl Worker {
    async fn open(client: Client, free: u32) -> Result<Self> {
        let asked = OpenWorkerSession {
            name: "bench".into(),
            instance: None,
            sdk: Some("rust".into()),
            sdk_version: None,
            host: None,
            concurrency: free,
            workflows: vec![WorkerWorkflow { name: WORKFLOW.into(), version: 1 }],
            tasks: Vec::new(),
            actions: Vec::new(),
        };
        let session = client.open_worker_session(&asked).await?.session_id;
        Ok(Worker { client, session, jobs: HashMap::new(), items: Vec::new(), requests: 0, free })
    }

    async fn work(mut self) -> Result<()> {
        loop {
            self.requests += 1;
            let (sequence, free) = (self.requests, self.free);
            let answer = match self.items.is_empty() {
                true => {
                    let asked = PollWorkerSession { sequence, free };
                    self.client.poll_worker_session(&self.session, &asked).await?
                }
                false => {
                    let runs = std::mem::take(&mut self.items);
                    let asked = CommitWorkerSession { sequence, free, runs, results: Vec::new() };
                    self.client.commit_worker_session(&self.session, &asked).await?
                }
            };
            for message in answer.messages {
                self.take(serde_json::from_str(message.text()).context("a message cannot be read")?)?;
            }
        }
    }

    fn take(&mut self, message: Message) -> Result<()> {
        let Message { kind, run, activation, input, op, attempt } = message;
        let items = match (kind.as_str(), input, op) {
            ("activate", Some(job), _) => {
                self.jobs.insert(activation.clone(), job);
                vec![ask(1)]
            }
            ("attempt", _, Some(op)) => {
                let job = *self.jobs.get(&activation).context("an attempt of an unknown run")?;
                let output = job.order + u64::from(op) - 1;
                let ended = json!({ "outcome": op, "attempt": attempt, "output": output });
                let next = match op < job.steps {
                    true => ask(op + 1),
                    false => json!({ "return": sum_of(job) }),
                };
                vec![ended, json!({ "took": op }), next]
            }
            ("drop", ..) => {
                self.jobs.remove(&activation);
                return Ok(());
            }
            _ => anyhow::bail!("a message of kind {kind} was not expected"),
        };
        let items = items.iter().map(RawJson::from_value).collect::<Result<_, _>>()?;
        self.items.push(WorkerRunItems { run, activation, items });
        Ok(())
    }
}

/// Asks for the step with this number.
fn ask(op: u32) -> serde_json::Value {
    let name = NAMES[(op as usize - 1) % NAMES.len()];
    json!({ "op": op, "do": "step", "name": name })
}

fn sum_of(job: Job) -> u64 {
    let steps = u64::from(job.steps);
    job.order * steps + steps * (steps - 1) / 2
}
