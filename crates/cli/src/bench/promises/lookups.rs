//! Cost of finding a promise by its key.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result};
use hapax::model::{IdempotencyKey, PromiseRef};
use hapax::{Engine, EngineOptions};
use indicatif::ProgressBar;

use super::{FEW, key_of, make};
use crate::bench::histogram::Histogram;
use crate::bench::place::{BenchStore, Opened};

/// Most lookups that are timed.
const LOOKUPS: u64 = 10_000;
/// Most lookups before those: the timing is about finding a key, not about reading the file for the
/// first time.
const WARM_UP: u64 = 20_000;
/// How many lookups among few take turns with as many among many.
const TURN: u64 = 100;

/// Durations of lookups.
pub(super) struct LookupTimes {
    /// Of few keys, in a store that has no others.
    pub(super) few: Histogram,
    /// Of the same keys, in the store of many: shows the cost of having many.
    pub(super) few_of_many: Histogram,
    /// Of all keys, in the store of many: also shows the cost of cold caches, since no earlier
    /// lookup was near, and the data exceeds the processor's caches.
    pub(super) many: Histogram,
}

impl LookupTimes {
    fn new() -> Self {
        LookupTimes { few: Histogram::new(), few_of_many: Histogram::new(), many: Histogram::new() }
    }
}

/// In one store: before there are many.
pub(super) async fn time_few(engine: &Engine) -> Result<Histogram> {
    let mut few = Histogram::new();
    warm_up(engine, FEW).await?;
    look_up(engine, FEW, 0..LOOKUPS.min(FEW), &mut few).await?;
    Ok(few)
}

/// In one store: when there are many, by turns; `few` are the lookups before.
pub(super) async fn time_many(engine: &Engine, many: u64, few: Histogram) -> Result<LookupTimes> {
    let mut lookups = LookupTimes { few, ..LookupTimes::new() };
    warm_up(engine, many).await?;
    for turn in turns(many) {
        look_up(engine, FEW, turn.clone(), &mut lookups.few_of_many).await?;
        look_up(engine, many, turn, &mut lookups.many).await?;
    }
    Ok(lookups)
}

/// In a small store and in the large one, by turns.
pub(super) async fn time_by_turns(
    engine: &Engine,
    many: u64,
    place: &BenchStore,
    callers: u32,
) -> Result<LookupTimes> {
    let scratch = place.scratch("few")?;
    let url = scratch.as_ref().map_or("memory:".to_string(), |file| file.url());
    let small = Opened::open(&url, EngineOptions::default()).await?;
    make(&small.engine, 0..FEW, callers, &ProgressBar::hidden()).await?;
    let mut lookups = LookupTimes::new();
    warm_up(&small.engine, FEW).await?;
    warm_up(engine, many).await?;
    for turn in turns(many) {
        look_up(&small.engine, FEW, turn.clone(), &mut lookups.few).await?;
        look_up(engine, FEW, turn.clone(), &mut lookups.few_of_many).await?;
        look_up(engine, many, turn, &mut lookups.many).await?;
    }
    small.close().await?;
    Ok(lookups)
}

fn turns(many: u64) -> impl Iterator<Item = Range<u64>> {
    (0..LOOKUPS.min(many)).step_by(TURN as usize).map(|first| first..first + TURN)
}

async fn warm_up(engine: &Engine, among: u64) -> Result<()> {
    let lookups = LOOKUPS..LOOKUPS + WARM_UP.min(2 * among);
    look_up(engine, among, lookups, &mut Histogram::new()).await
}

/// Looks keys up that lie far from each other among the first `among`.
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
