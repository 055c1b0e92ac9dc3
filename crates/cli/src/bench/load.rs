//! The load of most workloads: runs of trivial steps, so many outstanding at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use hapax::{Ctx, Engine, Failure};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::histogram::Histogram;
use super::place::Opened;

/// The name the workflow is registered under.
pub(super) const WORKFLOW: &str = "bench-steps";

/// Form of the keys of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Keys {
    /// One after the other.
    Ordered,
    /// Anywhere.
    Random,
}

/// Makes a new key each time. Two series never share a key.
#[derive(Debug)]
pub(super) struct KeySeries {
    keys: Keys,
    series: u64,
    next: AtomicU64,
}

impl KeySeries {
    pub(super) fn new(keys: Keys) -> Self {
        KeySeries::of(keys, fastrand::u64(..))
    }

    /// One that several processes know.
    pub(super) fn of(keys: Keys, series: u64) -> Self {
        KeySeries { keys, series, next: AtomicU64::new(0) }
    }

    pub(super) fn next(&self) -> String {
        self.nth(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn nth(&self, number: u64) -> String {
        match self.keys {
            Keys::Ordered => format!("order-{:016x}-{number:010}", self.series),
            // An odd factor only changes places, so no two numbers meet.
            Keys::Random => {
                let scattered = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).swap_bytes();
                format!("order-{scattered:016x}-{:010}", self.series % 10_000_000_000)
            }
        }
    }
}

/// Input of a run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) order: u64,
    pub(super) steps: u32,
}

impl Job {
    pub(super) fn new(order: u64, steps: u32) -> Self {
        Job { order, steps }
    }
}

pub(super) const NAMES: [&str; 5] = ["reserve", "charge", "ship", "mail", "book"];

/// Steps that do nothing but give a number back.
pub(super) async fn take_steps(ctx: Ctx, job: Job) -> Result<u64, Failure> {
    let mut sum = 0;
    for nth in 0..job.steps {
        let name = NAMES[nth as usize % NAMES.len()];
        sum += ctx.step(name, |_| async move { Ok::<_, Failure>(job.order + u64::from(nth)) }).await?;
    }
    Ok(sum)
}

/// How much to do in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) runs: u64,
    pub(super) steps: u32,
    pub(super) concurrency: u32,
}

/// Load that warms a store up, repeated a limited number of times.
pub(super) const WARM_UP: Load = Load { runs: 250, steps: 5, concurrency: 50 };
pub(super) const MAX_WARM_UPS: u32 = 40;

/// Duration of a round.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) took: Duration,
    /// From the start of each run to its result.
    pub(super) per_run: Histogram,
}

impl Round {
    pub(super) fn runs_per_second(&self) -> f64 {
        self.per_run.count() as f64 / self.took.as_secs_f64()
    }
}

/// Drives one round of `load` through the engine.
pub(super) async fn drive(
    engine: &Engine,
    load: Load,
    keys: &Arc<KeySeries>,
    bar: &ProgressBar,
) -> Result<Round> {
    drive_workflow(WORKFLOW, engine, load, keys, bar).await
}

/// The same with another workflow that sums up like [`take_steps`].
pub(super) async fn drive_workflow(
    workflow: &'static str,
    engine: &Engine,
    load: Load,
    keys: &Arc<KeySeries>,
    bar: &ProgressBar,
) -> Result<Round> {
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..u64::from(load.concurrency).min(load.runs) {
        callers.spawn(call(workflow, engine.clone(), load, keys.clone(), next.clone(), bar.clone()));
    }
    let mut times = Vec::new();
    while let Some(of_one_caller) = callers.join_next().await {
        times.push(of_one_caller??);
    }
    let took = began.elapsed();
    let mut per_run = Histogram::new();
    times.iter().flatten().for_each(|time| per_run.record(*time));
    ensure!(per_run.count() == load.runs, "{} of {} runs ended", per_run.count(), load.runs);
    Ok(Round { took, per_run })
}

/// Drives uncounted runs until the one-time costs of the store are paid.
pub(super) async fn warm_up(opened: &Opened, keys: &Arc<KeySeries>) -> Result<()> {
    for _ in 0..MAX_WARM_UPS {
        drive(&opened.engine, WARM_UP, keys, &ProgressBar::hidden()).await?;
        if opened.is_warm() {
            break;
        }
    }
    Ok(())
}

/// One caller: starts a run, waits for its result, starts the next.
async fn call(
    workflow: &str,
    engine: Engine,
    load: Load,
    keys: Arc<KeySeries>,
    next: Arc<AtomicU64>,
    bar: ProgressBar,
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    loop {
        let order = next.fetch_add(1, Ordering::Relaxed);
        if order >= load.runs {
            return Ok(times);
        }
        let began = Instant::now();
        let run = engine.start(workflow, &Job::new(order, load.steps)).idempotency_key(keys.next()).await?;
        ensure!(run.created, "a key was used before");
        let sum: u64 = run.result().await?;
        times.push(began.elapsed());
        let steps = u64::from(load.steps);
        ensure!(sum == order * steps + steps * (steps - 1) / 2, "run {} gave a wrong sum", run.id());
        bar.inc(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_keys_are_alike_and_all_have_one_length() {
        for keys in [Keys::Ordered, Keys::Random] {
            let series = KeySeries::new(keys);
            let made: HashSet<String> = (0..10_000).map(|_| series.next()).collect();
            assert_eq!(made.len(), 10_000);
            assert!(made.iter().all(|key| key.len() == 33));
        }
    }
}
