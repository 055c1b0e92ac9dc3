//! `entities`: claimed transitions on distinct entities, in the store's own table and in one of the user's, beside steps of runs.

mod user_table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use hapax::{ActionAnswer, CodeOnlyHost, Engine, EngineOptions, TransitionOutcome};
use hapax_documents::{DeclaredNames, Format, check_entity};
use indicatif::ProgressBar;
use serde_json::json;
use tokio::task::JoinSet;

use super::histogram::{Histogram, median};
use super::load::{KeySeries, Load, WORKFLOW, drive, take_steps, warm_up};
use super::place::BenchStore;
use super::report::Report;
use super::{Options, progress};
use user_table::UserTable;

/// Entities in the store's own table.
const OWN: &str = "bench-invoice";
/// Entities in a table of the user's.
const THEIRS: &str = "bench-bill";
const ACTION: &str = "bench-close";
const MODULE: &str = "bench";
/// Default behaviour of a server's janitor.
const EVERY: Duration = Duration::from_secs(120);
const STALE_AFTER: Duration = Duration::from_secs(300);
/// Each transition is the claim and the end, one commit each.
const COMMITS: f64 = 2.0;

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    let transitions = options.runs.unwrap_or(20_000);
    let callers = options.concurrency.unwrap_or(64);
    let steps = options.steps.unwrap_or(5);
    // As many steps are outstanding as transitions: a commit is shared by as many on both sides.
    let load = Load { runs: transitions.div_ceil(u64::from(steps)), steps, concurrency: callers };
    let opened = place.open(EngineOptions::default()).await?;
    let engine = &opened.engine;
    engine.register(WORKFLOW, take_steps)?;
    engine.register_action(ACTION, |_| async { ActionAnswer::done(1) })?;
    register(engine, OWN, None).await?;
    let table = UserTable::prepare(place).await?;
    if let Some(table) = &table {
        register(engine, THEIRS, Some(table.name())).await?;
    }
    engine.module(MODULE).janitor(EVERY, STALE_AFTER)?;
    engine.check_coverage().await?;

    let keys = Arc::new(KeySeries::new(options.keys));
    warm_up(&opened, &keys).await?;
    let mut report = Report::new("entities", place);
    let bar = progress::bar("entities", (2 * transitions + load.runs) * u64::from(options.rounds));
    let (mut own, mut theirs, mut taken) = (Kind::default(), Kind::default(), Vec::new());
    for nth in 0..options.rounds {
        let ids: Arc<[String]> = (0..transitions).map(|_| keys.next()).collect();
        create(engine, &ids, callers).await?;
        own.add(close_all(engine, OWN, ids.clone(), callers, &bar).await?);
        if nth == 0 {
            report.read_rss();
        }
        if let Some(table) = &table {
            table.insert(&ids).await?;
            theirs.add(close_all(engine, THEIRS, ids, callers, &bar).await?);
        }
        taken.push(drive(engine, load, &keys, &bar).await?.runs_per_second() * f64::from(steps));
    }
    bar.finish_and_clear();
    if let Some(table) = table {
        table.finish().await?;
    }

    let taken = median(taken);
    let per_commit = |kind: Option<f64>| kind.zip(taken).map(|(kind, taken)| kind * COMMITS / taken);
    report.measure("steps_per_second", taken);
    report.measure("transitions_per_second", own.median());
    report.measure("p50_ms", own.times.ms(50.0));
    report.measure("p99_ms", own.times.ms(99.0));
    report.measure("commits_per_transition", own.commits());
    report.judge("transition_ratio", per_commit(own.median()), "at least 0.5");
    report.measure("own_table_transitions_per_second", theirs.median());
    report.measure("own_table_p50_ms", theirs.times.ms(50.0));
    report.measure("own_table_p99_ms", theirs.times.ms(99.0));
    report.measure("own_table_commits_per_transition", theirs.commits());
    report.judge("own_table_transition_ratio", per_commit(theirs.median()), "at least 0.5");
    report.set("transitions", transitions);
    report.set("callers", callers);
    report.set("rounds", options.rounds);
    opened.close().await?;
    Ok(report)
}

/// Figures of one kind of entities.
struct Kind {
    per_second: Vec<f64>,
    times: Histogram,
    versions: u64,
}

impl Default for Kind {
    fn default() -> Self {
        Kind { per_second: Vec::new(), times: Histogram::new(), versions: 0 }
    }
}

impl Kind {
    fn add(&mut self, round: TransitionRound) {
        self.per_second.push(round.times.count() as f64 / round.took.as_secs_f64());
        self.times.add(&round.times);
        self.versions += round.versions;
    }

    fn median(&self) -> Option<f64> {
        median(self.per_second.clone())
    }

    /// Every commit of a transition raises the version of its entity.
    fn commits(&self) -> Option<f64> {
        (self.times.count() > 0).then(|| self.versions as f64 / self.times.count() as f64)
    }
}

/// One round of transitions.
struct TransitionRound {
    took: Duration,
    times: Histogram,
    /// By how much the versions of all entities rose together.
    versions: u64,
}

/// An entity workflow of one step, which is claimed and does nothing.
async fn register(engine: &Engine, kind: &str, table: Option<&str>) -> Result<()> {
    let mut document = json!({
        "name": kind, "kind": "entity", "module": MODULE, "entity": kind,
        "status_types": ["approved", "closing", "closed"], "initial": "approved",
        "steps": [{
            "step_id": 10, "step_key": "close", "status": "approved", "claim_state": ["closing", "approved"],
            "successful_state": "closed", "action": ACTION, "effect": "non_idempotent"
        }]
    });
    if let Some(table) = table {
        document["table"] = table.into();
    }
    let checked = check_entity(&document.to_string(), Format::Json, &DeclaredNames::default());
    let checked =
        checked.map_err(|problems| anyhow!("the document of the benchmark is wrong: {problems:?}"))?;
    engine.register_entity_workflow(checked.document().workflow().clone(), Arc::new(CodeOnlyHost)).await?;
    Ok(())
}

/// Makes the entities, which is not measured.
async fn create(engine: &Engine, ids: &Arc<[String]>, callers: u32) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut making = JoinSet::new();
    for _ in 0..callers {
        let (engine, ids, next) = (engine.clone(), ids.clone(), next.clone());
        making.spawn(async move {
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                let _ = engine.create_entity(OWN, id, "approved", &json!({})).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(made) = making.join_next().await {
        made??;
    }
    Ok(())
}

/// Closes all of them, so many at a time.
async fn close_all(
    engine: &Engine,
    kind: &'static str,
    ids: Arc<[String]>,
    callers: u32,
    bar: &ProgressBar,
) -> Result<TransitionRound> {
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut closing = JoinSet::new();
    for _ in 0..callers {
        closing.spawn(close_some(engine.clone(), kind, ids.clone(), next.clone(), bar.clone()));
    }
    let (mut times, mut versions) = (Histogram::new(), 0);
    let mut of_callers = Vec::new();
    while let Some(of_one) = closing.join_next().await {
        of_callers.push(of_one??);
    }
    let took = began.elapsed();
    for (of_one, rose) in of_callers {
        of_one.iter().for_each(|time| times.record(*time));
        versions += rose;
    }
    ensure!(times.count() == ids.len() as u64, "{} of {} entities were closed", times.count(), ids.len());
    Ok(TransitionRound { took, times, versions })
}

/// One caller: closes an entity, and then the next.
async fn close_some(
    engine: Engine,
    kind: &'static str,
    ids: Arc<[String]>,
    next: Arc<AtomicU64>,
    bar: ProgressBar,
) -> Result<(Vec<Duration>, u64)> {
    let (mut times, mut versions) = (Vec::new(), 0);
    while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
        let began = Instant::now();
        match engine.transition(kind, id, "close").await? {
            TransitionOutcome::Done { entity: Some(entity), recorded: false, .. } => {
                times.push(began.elapsed());
                // It was made with version 1.
                versions += entity.version.get() - 1;
            }
            other => bail!("{id} was not closed: {other:?}"),
        }
        bar.inc(1);
    }
    Ok((times, versions))
}
