//! `recovery`: a process is killed with many runs in flight; how soon another goes on, and how much is done again.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hapax::model::RunStatus;
use hapax::store::ListRuns;
use hapax::{Ctx, Engine, EngineOptions, Failure};

use super::histogram::median;
use super::node::{Node, NodeOptions, NodeTask};
use super::place::{BenchStore, Opened};
use super::report::Report;
use super::{Options, progress};
use crate::output;

const WORKFLOW: &str = "bench-recovery";
/// How long the effect of a step takes: long enough that each run is always inside one.
const EFFECT: Duration = Duration::from_millis(20);
/// How often to look at a file or a list.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a process may take for what takes well under a second.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the effects of a process are noted, so that they outlive it.
#[derive(Debug, Clone)]
struct Effects {
    path: PathBuf,
    /// Runs that have begun an effect in this process, and when the last of them did.
    begun: Arc<Mutex<(HashSet<u64>, Option<Instant>)>>,
}

impl Effects {
    fn at(path: &Path) -> Effects {
        Effects { path: path.to_owned(), begun: Arc::default() }
    }

    /// One line is one write, so that a killed process leaves whole lines.
    fn note(&self, run: u64, step: u32) -> Result<(), Failure> {
        {
            let mut begun = self.begun.lock().expect("no holder panics");
            if begun.0.insert(run) {
                begun.1 = Some(Instant::now());
            }
        }
        let file = OpenOptions::new().append(true).create(true).open(&self.path);
        let written = file.and_then(|mut file| file.write_all(format!("{run} {step}\n").as_bytes()));
        written.map_err(|error| Failure::permanent(error.to_string()))
    }

    /// How often each step of each run was begun.
    fn read(&self) -> Result<HashMap<(u64, u32), u32>> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let mut counts = HashMap::new();
        for line in text.lines() {
            let (run, step) = line.split_once(' ').context("a line of effects is broken")?;
            *counts.entry((run.parse()?, step.parse()?)).or_default() += 1;
        }
        Ok(counts)
    }
}

fn register(engine: &Engine, steps: u32, effects: &Effects) -> Result<()> {
    let effects = effects.clone();
    let code = move |ctx: Ctx, run: u64| {
        let effects = effects.clone();
        async move {
            for step in 0..steps {
                let effects = &effects;
                ctx.step(&format!("step-{step}"), move |_| async move {
                    effects.note(run, step)?;
                    tokio::time::sleep(EFFECT).await;
                    Ok::<_, Failure>(())
                })
                .await?;
            }
            Ok::<_, Failure>(())
        }
    };
    Ok(engine.register(WORKFLOW, code)?)
}

/// The process that is killed.
pub(super) async fn work_until_killed(options: &NodeOptions) -> Result<()> {
    let opened = Opened::open(&options.store, EngineOptions::default()).await?;
    let effects = Effects::at(options.effects.as_deref().context("it needs a file for its effects")?);
    register(&opened.engine, options.steps, &effects)?;
    for run in 0..options.runs {
        opened.engine.start(WORKFLOW, &run).await?;
    }
    output::print("ready\n")?;
    std::future::pending().await
}

pub(super) async fn measure(options: &Options, place: &BenchStore) -> Result<Report> {
    if !place.is_sqlite() {
        bail!("recovery kills the only process of a file; use --store sqlite:PATH");
    }
    let (runs, steps) = (options.concurrency.unwrap_or(256).into(), options.steps.unwrap_or(40));
    let bar = progress::bar("recovery", options.rounds.into());
    let (mut resumed, mut completed, mut again, mut most) = (Vec::new(), Vec::new(), 0, 0);
    for nth in 0..options.rounds {
        let file = place.scratch(&format!("recovery-{nth}"))?.context("a file is needed")?;
        let noted = place.scratch(&format!("effects-{nth}"))?.context("a file is needed")?;
        let effects = Effects::at(noted.path());
        let node = NodeOptions {
            work: NodeTask::Crash,
            store: file.url(),
            runs,
            steps,
            concurrency: 1,
            series: 0,
            effects: Some(noted.path().to_owned()),
        };
        let node = Node::start(&node).await?;
        // In the middle: every run has some steps behind it and most before it.
        let in_the_middle =
            || anyhow::Ok(effects.read()?.keys().filter(|(_, step)| *step == 2).count() as u64 == runs);
        until("the runs are under way", in_the_middle).await?;
        node.kill().await?;

        let began = Instant::now();
        let opened = Opened::open(&file.url(), EngineOptions::default()).await?;
        register(&opened.engine, steps, &effects)?;
        let unfinished = runs - completed_runs(&opened.engine).await?;
        ensure!(unfinished > 0, "all runs had ended before the kill; use more --steps");
        let all_resumed = || Ok(effects.begun.lock().expect("no holder panics").0.len() as u64 == unfinished);
        until("every run goes on", all_resumed).await?;
        let last = effects.begun.lock().expect("no holder panics").1.context("a run went on")?;
        resumed.push((last - began).as_secs_f64() * 1_000.0);
        while completed_runs(&opened.engine).await? < runs {
            ensure!(began.elapsed() < PATIENCE, "the runs do not complete");
            tokio::time::sleep(LOOK_EVERY * 20).await;
        }
        completed.push(began.elapsed().as_secs_f64() * 1_000.0);
        let counts = effects.read()?;
        ensure!(
            counts.len() as u64 == runs * u64::from(steps),
            "{} different effects happened",
            counts.len()
        );
        let mut of_run: HashMap<u64, u32> = HashMap::new();
        counts.iter().for_each(|((run, _), times)| *of_run.entry(*run).or_default() += times - 1);
        again = again.max(of_run.values().sum());
        most = most.max(of_run.values().copied().max().unwrap_or(0));
        opened.close().await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut report = Report::new("recovery", place);
    report.judge("resumed_ms", median(resumed), "under 1,000");
    report.measure("completed_ms", median(completed));
    report.set("steps_run_again", again);
    report.judge("steps_run_again_per_run", Some(f64::from(most)), "at most 1");
    report.read_rss();
    report.set("runs_in_flight", runs);
    report.set("steps", steps);
    report.set("rounds", options.rounds);
    Ok(report)
}

async fn completed_runs(engine: &Engine) -> Result<u64> {
    let (mut before, mut count) = (None, 0);
    loop {
        let statuses = vec![RunStatus::Completed];
        let page = ListRuns {
            workspace: None,
            statuses,
            workflow: None,
            filter: Default::default(),
            before,
            limit: usize::MAX,
        };
        let page = engine.list(page).await?;
        count += page.runs.len() as u64;
        before = page.next;
        if before.is_none() {
            return Ok(count);
        }
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        ensure!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
