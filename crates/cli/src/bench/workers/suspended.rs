//! Runs whose code stays in the worker between two outcomes: how soon it goes on, and whether a long log slows it down.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hapax::model::{IdempotencyKey, PromiseRef};
use hapax::{Ctx, Failure, Hapax};
use serde_json::json;
use tokio::sync::oneshot;

use super::super::histogram::{Histogram, median};
use super::super::http::served::Served;
use super::super::report::Report;
use super::super::{Options, progress};

const WAITING: &str = "bench-waiting";
const LONG: &str = "bench-long-remote";
/// Settlements, one after the other.
const WAKES: u64 = 500;
/// Idle time before each of them.
const PAUSE: Duration = Duration::from_millis(2);
/// Where the two parts of a long run that are compared begin, and their length.
const EARLY: usize = 10;
const LATE: usize = 1_000;
const PART: usize = 50;

/// Listeners for the beginning of the step after a promise, by key.
type Listeners = Arc<Mutex<HashMap<String, oneshot::Sender<Instant>>>>;
/// When each step of a run began.
type Began = Arc<Mutex<Vec<Instant>>>;

pub(super) async fn measure(
    options: &Options,
    served: &Served,
    program: &Hapax,
    report: &mut Report,
) -> Result<()> {
    let wakes = options.runs.unwrap_or(WAKES).min(WAKES);
    let settled = wake(served, program, wakes).await?;
    report.judge("settled_to_step_p50_ms", settled.ms(50.0), "at most 2");
    report.measure("settled_to_step_p99_ms", settled.ms(99.0));
    let (early, late) = time_long_runs(program, options.rounds).await?;
    report.measure("step_10_us", early);
    report.measure("step_1000_us", late);
    let ratio = early.zip(late).map(|(early, late)| late / early);
    report.judge("step_1000_to_step_10_ratio", ratio, "within 0.8 and 1.2");
    Ok(())
}

/// From the request that settles a promise by its key, to the beginning of the step that waited for it.
async fn wake(served: &Served, program: &Hapax, turns: u64) -> Result<Histogram> {
    let listeners = Listeners::default();
    let of_steps = listeners.clone();
    program.register(WAITING, move |ctx: Ctx, input: serde_json::Value| {
        let listeners = of_steps.clone();
        async move {
            let key = input["key"].as_str().unwrap_or_default().to_owned();
            let value: u64 = ctx.create_promise("paid").with_idempotency_key(key.clone()).await?;
            let begun = move |_| {
                let now = Instant::now();
                if let Some(listener) = listeners.lock().expect("no holder panics").remove(&key) {
                    let _nobody_listens = listener.send(now);
                }
                async move { Ok::<u64, Failure>(value) }
            };
            ctx.run("resumed", begun).await
        }
    })?;
    program.ready().await?;
    let engine = served.engine();
    let bar = progress::bar("settling", turns);
    let mut times = Histogram::new();
    for nth in 0..turns {
        let key = format!("bench-worker:{}:{nth}", fastrand::u64(..));
        let (listener, begun) = oneshot::channel();
        listeners.lock().expect("no holder panics").insert(key.clone(), listener);
        let run = program.start(WAITING, &json!({ "key": key })).await?;
        let promise = PromiseRef::Key(IdempotencyKey::new(&key)?);
        while engine.find_promise(&promise).await?.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
        tokio::time::sleep(PAUSE).await;
        let began = Instant::now();
        program.resolve_by_key(&key, &nth).await?;
        let begun = begun.await.context("the run went on without its step")?;
        times.record(begun.duration_since(began));
        run.wait_for_end().await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(times)
}

/// Time of a step, early and late in a long run that is alone, in microseconds.
async fn time_long_runs(program: &Hapax, rounds: u32) -> Result<(Option<f64>, Option<f64>)> {
    let began = Began::default();
    let of_steps = began.clone();
    program.register(LONG, move |ctx: Ctx, _: serde_json::Value| {
        let began = of_steps.clone();
        async move {
            for nth in 0..LATE + PART {
                let note = |_| {
                    began.lock().expect("no holder panics").push(Instant::now());
                    async move { Ok::<_, Failure>(nth) }
                };
                ctx.step("add", note).await?;
            }
            Ok::<_, Failure>(())
        }
    })?;
    program.ready().await?;
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        program.start(LONG, &json!({})).await?.wait_for_end().await?;
        let taken = std::mem::take(&mut *began.lock().expect("no holder panics"));
        ensure!(taken.len() == LATE + PART, "{} steps were taken", taken.len());
        early.extend(typical(&taken[EARLY..EARLY + PART]));
        late.extend(typical(&taken[LATE..]));
    }
    Ok((median(early), median(late)))
}

/// The median time from one step to the next, in microseconds.
fn typical(steps: &[Instant]) -> Option<f64> {
    let mut times = Histogram::new();
    steps.windows(2).for_each(|pair| times.record(pair[1] - pair[0]));
    times.us(50.0)
}
