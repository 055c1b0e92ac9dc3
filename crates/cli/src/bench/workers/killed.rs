//! A worker that is killed with many runs in flight: how soon they go on in the next one, and what is done again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hapax::{Ctx, Failure, Hapax};
use serde_json::json;

use super::super::Options;
use super::super::histogram::median;
use super::super::report::Report;
use super::Server;

const WORKFLOW: &str = "bench-killed";
/// How long the effect of a step takes: long enough that each run is always inside one.
const EFFECT: Duration = Duration::from_millis(20);
/// Steps of each run.
const STEPS: u64 = 40;
/// The worker is killed once each run has begun this step.
const KILLED_AT: u64 = 3;
/// How often to look at what was begun.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(120);

/// Effects that were begun: how often each of them, and what the newest worker did.
#[derive(Default)]
struct Effects {
    times: HashMap<(u64, u64), u32>,
    /// Runs that the newest worker has gone on with, and when it went on with the last of them.
    resumed: HashSet<u64>,
    last: Option<Instant>,
}

type Shared = Arc<Mutex<Effects>>;

fn register(program: &Hapax, effects: &Shared) -> Result<()> {
    let effects = effects.clone();
    let code = move |ctx: Ctx, input: serde_json::Value| {
        let effects = effects.clone();
        async move {
            let run = input["run"].as_u64().unwrap_or_default();
            for step in 0..STEPS {
                let effects = &effects;
                ctx.step(&format!("step-{step}"), move |_| async move {
                    note(effects, run, step);
                    tokio::time::sleep(EFFECT).await;
                    Ok::<_, Failure>(())
                })
                .await?;
            }
            Ok::<_, Failure>(())
        }
    };
    Ok(program.register(WORKFLOW, code)?)
}

fn note(effects: &Shared, run: u64, step: u64) {
    let mut effects = effects.lock().expect("no holder panics");
    *effects.times.entry((run, step)).or_default() += 1;
    if effects.resumed.insert(run) {
        effects.last = Some(Instant::now());
    }
}

pub(super) async fn measure(options: &Options, server: &Server, report: &mut Report) -> Result<()> {
    let runs = u64::from(server.concurrency);
    let (mut resumed, mut most) = (Vec::new(), 0);
    for _ in 0..options.rounds {
        let effects = Shared::default();
        let program = server.open_as("bench-killed").await?;
        register(&program, &effects)?;
        program.ready().await?;
        let mut started = Vec::new();
        for run in 0..runs {
            started.push(program.start(WORKFLOW, &json!({ "run": run })).await?.id());
        }
        let in_the_middle =
            |effects: &Effects| (0..runs).all(|run| effects.times.contains_key(&(run, KILLED_AT)));
        until("the runs are under way", &effects, in_the_middle).await?;
        program.kill();
        let unfinished = {
            let mut effects = effects.lock().expect("no holder panics");
            effects.resumed.clear();
            let ended = (0..runs).filter(|run| effects.times.contains_key(&(*run, STEPS - 1)));
            runs as usize - ended.count()
        };
        ensure!(unfinished > 0, "all runs had ended before the kill");

        // The session is opened in this time, too.
        let began = Instant::now();
        let next = server.open_as("bench-killed").await?;
        register(&next, &effects)?;
        until("every run goes on", &effects, |effects| effects.resumed.len() >= unfinished).await?;
        let last = effects.lock().expect("no holder panics").last.context("a run went on")?;
        resumed.push(last.saturating_duration_since(began).as_secs_f64() * 1_000.0);
        for run in started {
            next.run(run).await?.wait_for_end().await?;
        }
        let effects = effects.lock().expect("no holder panics");
        ensure!(effects.times.len() as u64 == runs * STEPS, "{} effects happened", effects.times.len());
        let mut again: HashMap<u64, u32> = HashMap::new();
        effects.times.iter().for_each(|((run, _), times)| *again.entry(*run).or_default() += times - 1);
        most = most.max(again.values().copied().max().unwrap_or(0));
        next.kill();
    }
    report.judge("killed_resumed_ms", median(resumed), "under 1,000");
    report.judge("steps_run_again_per_run", Some(f64::from(most)), "at most 1");
    Ok(())
}

async fn until(what: &str, effects: &Shared, is_so: impl Fn(&Effects) -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_so(&effects.lock().expect("no holder panics")) {
        ensure!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
