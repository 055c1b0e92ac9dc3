//! `starts`: ten starts for every key, from many callers: one run per key, and what a duplicate costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use hapax::model::{Name, RunId};
use hapax::store::ListRuns;
use hapax::{Ctx, Engine, EngineOptions, Failure};
use indicatif::ProgressBar;
use tokio::task::JoinSet;

use super::histogram::Histogram;
use super::load::KeySeries;
use super::node::{NodeOptions, NodeResult, NodeTask, work_together};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress};

const WORKFLOW: &str = "bench-starts";
const STARTS_PER_KEY: u64 = 10;
/// Keys that a single caller asks for, each twice, to see what one start costs by itself.
const ALONE: u64 = 200;

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let starts = options.runs.unwrap_or(5_000);
    let keys = starts.div_ceil(STARTS_PER_KEY);
    let callers = options.concurrency.unwrap_or(64);
    let opened = place.open(EngineOptions::default()).await?;
    opened.engine.register(WORKFLOW, |_: Ctx, number: u64| async move { Ok::<_, Failure>(number) })?;
    let before = newest(&opened.engine).await?;
    let nodes = options.nodes.unwrap_or(1);
    let created_by_nodes = match nodes {
        1 => 0,
        _ if !place.is_postgres() => bail!("several nodes share one database; use --store postgres://…"),
        _ => {
            let work = NodeTask::Starts;
            let (store, series) = (place.url().to_string(), fastrand::u64(..));
            let each = NodeOptions {
                work,
                store,
                runs: keys,
                steps: 1,
                concurrency: callers,
                series,
                effects: None,
            };
            let done = work_together(&vec![each; nodes as usize]).await?;
            done.iter().map(|done| done.runs).sum()
        }
    };
    if nodes > 1 {
        ensure!(created_by_nodes == keys, "{nodes} nodes created {created_by_nodes} runs for {keys} keys");
    }

    let bar = progress::bar("starts", starts * 2);
    let series = Arc::new(KeySeries::new(options.keys));
    let began = Instant::now();
    let in_turn = StartLoad { engine: opened.engine.clone(), series, keys, bar: bar.clone() };
    let in_turn = in_turn.one_by_one(starts, callers).await?;
    let took = began.elapsed();
    let series = Arc::new(KeySeries::new(options.keys));
    let at_once = StartLoad { engine: opened.engine.clone(), series, keys, bar: bar.clone() };
    let at_once = at_once.ten_at_once(callers).await?;
    let series = Arc::new(KeySeries::new(options.keys));
    let alone = StartLoad { engine: opened.engine.clone(), series, keys: ALONE.min(keys), bar: bar.clone() };
    let kept = alone.keys;
    let alone = alone.one_by_one(2 * kept, 1).await?;
    bar.finish_and_clear();

    let stored = count_runs(&opened.engine, before).await?;
    for (answers, keys) in [(&in_turn, keys), (&at_once, keys), (&alone, kept)] {
        ensure!(answers.new.count() == keys, "{} runs were created for {keys} keys", answers.new.count());
    }
    let expected = 2 * keys + kept + created_by_nodes;
    ensure!(stored == expected, "the store holds {stored} runs for {expected} keys");

    let mut report = Report::new("starts", place);
    report.measure("runs_per_second", Some(keys as f64 / took.as_secs_f64()));
    report.measure("p50_ms", in_turn.all().ms(50.0));
    report.measure("p99_ms", in_turn.all().ms(99.0));
    report.read_rss();
    report.set("starts", starts);
    report.set("keys", keys);
    report.set("runs_created", in_turn.new.count());
    report.set("runs_created_at_once", at_once.new.count());
    if nodes > 1 {
        report.set("nodes", nodes);
        report.set("runs_created_by_nodes", created_by_nodes);
    }
    report.set("callers", callers);
    report.measure("starts_per_second", Some(starts as f64 / took.as_secs_f64()));
    report.measure("new_start_us", in_turn.new.us(50.0));
    report.judge("duplicate_start_us", in_turn.duplicate.us(50.0), "less than a new start");
    report.measure("new_start_at_once_us", at_once.new.us(50.0));
    report.measure("duplicate_start_at_once_us", at_once.duplicate.us(50.0));
    report.measure("new_start_alone_us", alone.new.us(50.0));
    report.measure("duplicate_start_alone_us", alone.duplicate.us(50.0));
    opened.close().await?;
    Ok(report)
}

/// Work of one of several nodes: starts every key, at the same time as the others, and returns how
/// many runs it created.
pub(super) async fn start_all(
    engine: &Engine,
    options: &NodeOptions,
    series: &Arc<KeySeries>,
    ready: impl Future<Output = Result<()>>,
) -> Result<NodeResult> {
    engine.register(WORKFLOW, |_: Ctx, number: u64| async move { Ok::<_, Failure>(number) })?;
    ready.await?;
    let began = Instant::now();
    let bar = ProgressBar::hidden();
    let asking = StartLoad { engine: engine.clone(), series: series.clone(), keys: options.runs, bar };
    let answers = asking.one_by_one(options.runs, options.concurrency).await?;
    Ok(NodeResult { runs: answers.new.count(), seconds: began.elapsed().as_secs_f64() })
}

/// Durations of starts that created a run and of starts that found one.
struct Answers {
    new: Histogram,
    duplicate: Histogram,
}

impl Answers {
    fn of(times: Vec<(bool, Duration)>) -> Self {
        let mut answers = Answers { new: Histogram::new(), duplicate: Histogram::new() };
        for (created, time) in times {
            match created {
                true => answers.new.record(time),
                false => answers.duplicate.record(time),
            }
        }
        answers
    }

    fn all(&self) -> Histogram {
        let mut all = self.new.clone();
        all.add(&self.duplicate);
        all
    }
}

#[derive(Clone)]
struct StartLoad {
    engine: Engine,
    series: Arc<KeySeries>,
    keys: u64,
    bar: ProgressBar,
}

impl StartLoad {
    /// All keys in turn, over and over.
    async fn one_by_one(self, starts: u64, callers: u32) -> Result<Answers> {
        let next = Arc::new(AtomicU64::new(0));
        let mut asking = JoinSet::new();
        for _ in 0..callers {
            let (this, next) = (self.clone(), next.clone());
            asking.spawn(async move {
                let mut times = Vec::new();
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= starts {
                        return anyhow::Ok(times);
                    }
                    times.push(this.start(nth % this.keys).await?);
                }
            });
        }
        collect(asking).await
    }

    /// Ten starts of the same key at the same moment, from many callers at a time.
    async fn ten_at_once(self, callers: u32) -> Result<Answers> {
        let next = Arc::new(AtomicU64::new(0));
        let mut asking = JoinSet::new();
        for _ in 0..u64::from(callers).div_ceil(STARTS_PER_KEY) {
            let (this, next) = (self.clone(), next.clone());
            asking.spawn(async move {
                let mut times = Vec::new();
                loop {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    if key >= this.keys {
                        return anyhow::Ok(times);
                    }
                    let mut crowd = JoinSet::new();
                    for _ in 0..STARTS_PER_KEY {
                        let this = this.clone();
                        crowd.spawn(async move { this.start(key).await });
                    }
                    while let Some(answer) = crowd.join_next().await {
                        times.push(answer??);
                    }
                }
            });
        }
        collect(asking).await
    }

    async fn start(&self, number: u64) -> Result<(bool, Duration)> {
        let key = self.series.nth(number);
        let began = Instant::now();
        let run = self.engine.start(WORKFLOW, &number).idempotency_key(key).await?;
        self.bar.inc(1);
        Ok((run.created, began.elapsed()))
    }
}

async fn collect(mut asking: JoinSet<Result<Vec<(bool, Duration)>>>) -> Result<Answers> {
    let mut times = Vec::new();
    while let Some(of_one_caller) = asking.join_next().await {
        times.extend(of_one_caller??);
    }
    Ok(Answers::of(times))
}

async fn newest(engine: &Engine) -> Result<Option<RunId>> {
    let page = engine.list(list_started_runs(None, 1)?).await?;
    Ok(page.runs.first().map(|run| run.head.id()))
}

/// How many runs the store has, newer than `after`.
async fn count_runs(engine: &Engine, after: Option<RunId>) -> Result<u64> {
    let mut before = None;
    let mut count = 0;
    loop {
        let page = engine.list(list_started_runs(before, usize::MAX)?).await?;
        let newer = page.runs.iter().filter(|run| after.is_none_or(|after| run.head.id() > after));
        let newer = newer.count();
        count += newer as u64;
        before = page.next;
        if before.is_none() || newer < page.runs.len() {
            return Ok(count);
        }
    }
}

fn list_started_runs(before: Option<RunId>, limit: usize) -> Result<ListRuns> {
    let workflow = Some(Name::new("workflow", WORKFLOW)?);
    Ok(ListRuns {
        workspace: None,
        statuses: Vec::new(),
        workflow,
        filter: Default::default(),
        before,
        limit,
    })
}
