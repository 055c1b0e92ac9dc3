//! What it costs to find a promise by its key.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result};
use hapax::model::{IdempotencyKey, PromiseRef};
use hapax::{Engine, EngineOptions};
use indicatif::ProgressBar;

use super::{FEW, key_of, make};
use crate::bench::histogram::Histogram;
use crate::bench::place::{Opened, Place};

/// Most lookups that are timed.
const LOOKUPS: u64 = 10_000;
/// Most lookups before those: what is timed is to find a key, not to read the file for the first time.
const WARM_UP: u64 = 20_000;
/// How many lookups among few take turns with as many among many.
const TURN: u64 = 100;

/// Looks keys up among the first `among` promises.
pub(super) async fn time(engine: &Engine, among: u64) -> Result<Histogram> {
    let mut times = Histogram::new();
    let warm_up = WARM_UP.min(2 * among);
    look_up(engine, among, 0..warm_up, &mut Histogram::new()).await?;
    look_up(engine, among, warm_up..warm_up + LOOKUPS.min(among), &mut times).await?;
    Ok(times)
}

/// Looks keys up among few, in a small store beside the measured one, and among many, by turns.
pub(super) async fn time_by_turns(
    engine: &Engine,
    many: u64,
    place: &Place,
    callers: u32,
) -> Result<(Histogram, Histogram)> {
    let scratch = place.scratch("few")?;
    let url = scratch.as_ref().map_or("memory:".to_string(), |file| file.url());
    let few = Opened::open(&url, EngineOptions::default()).await?;
    make(&few.engine, 0..FEW, callers, &ProgressBar::hidden()).await?;
    let warm_up = WARM_UP.min(2 * many);
    for (engine, among) in [(&few.engine, FEW), (engine, many)] {
        look_up(engine, among, 0..warm_up, &mut Histogram::new()).await?;
    }
    let (mut among_few, mut among_many) = (Histogram::new(), Histogram::new());
    for first in (warm_up..warm_up + LOOKUPS.min(many)).step_by(TURN as usize) {
        look_up(&few.engine, FEW, first..first + TURN, &mut among_few).await?;
        look_up(engine, many, first..first + TURN, &mut among_many).await?;
    }
    few.close().await?;
    Ok((among_few, among_many))
}

/// Looks keys up that lie far from each other.
async fn look_up(engine: &Engine, among: u64, nths: Range<u64>, times: &mut Histogram) -> Result<()> {
    for nth in nths {
        let key = IdempotencyKey::new(&key_of(nth.wrapping_mul(7_919_113) % among))?;
        let began = Instant::now();
        let found = engine.find_promise(&PromiseRef::Key(key)).await?;
        times.record(began.elapsed());
        found.context("a promise that was made is not found")?;
    }
    Ok(())
}
