//! Counts of key uses: collected in memory, so that a replay costs no write, and written once a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use hapax_engine::store::{KeyRef, KeyUsage, KeyUsageDelta, Store, StoreError, StoreResult};
use tokio::sync::Notify;

use crate::limits::{FLUSH_EVERY, MAX_COUNTED_KEYS, MAX_KEY_USAGE_BATCH};
use crate::shared::{book, within_store_wait};

#[derive(Debug)]
pub(crate) struct UseCounts {
    store: Arc<dyn Store>,
    waiting: Mutex<Waiting>,
    /// Notified when enough counts for one write are waiting.
    enough: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    uses: HashMap<KeyRef, KeyUsage>,
    is_flusher_running: bool,
}

impl UseCounts {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(UseCounts { store, waiting: Mutex::default(), enough: Notify::new() })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder panics")
    }

    pub(crate) fn count_replay(self: &Arc<Self>, place: KeyRef) {
        self.count(place, KeyUsage { replays: 1, conflicts: 0 });
    }

    pub(crate) fn count_conflict(self: &Arc<Self>, place: KeyRef) {
        self.count(place, KeyUsage { replays: 0, conflicts: 1 });
    }

    fn count(self: &Arc<Self>, place: KeyRef, uses: KeyUsage) {
        let mut waiting = self.waiting();
        waiting.add(place, uses);
        if waiting.uses.len() >= MAX_KEY_USAGE_BATCH {
            self.enough.notify_one();
        }
        if !waiting.is_flusher_running {
            waiting.is_flusher_running = true;
            tokio::spawn(flush_until_none(self.clone()));
        }
    }

    /// Writes the waiting counts.
    pub(crate) async fn flush(&self) -> StoreResult<()> {
        loop {
            let batch = self.waiting().take_batch();
            if batch.is_empty() {
                return Ok(());
            }
            match within_store_wait(book(&self.store).add_key_usage(batch.clone())).await {
                Ok(()) => {}
                // They may have been written; counting too few is better than counting twice.
                Err(error @ StoreError::Unknown(_)) => tracing::warn!(%error, "uses of keys may be lost"),
                Err(error) => {
                    let mut waiting = self.waiting();
                    batch.into_iter().for_each(|counted| waiting.add(counted.place, counted.uses));
                    return Err(error);
                }
            }
        }
    }
}

impl Waiting {
    fn add(&mut self, place: KeyRef, uses: KeyUsage) {
        if self.uses.len() >= MAX_COUNTED_KEYS && !self.uses.contains_key(&place) {
            return;
        }
        let counted = self.uses.entry(place).or_default();
        counted.replays += uses.replays;
        counted.conflicts += uses.conflicts;
    }

    fn take_batch(&mut self) -> Vec<KeyUsageDelta> {
        let places: Vec<KeyRef> = self.uses.keys().take(MAX_KEY_USAGE_BATCH).cloned().collect();
        let taken = places.into_iter().filter_map(|place| self.uses.remove_entry(&place));
        taken.map(|(place, uses)| KeyUsageDelta { place, uses }).collect()
    }
}

/// Runs while there are counts to write: an idle layer has no task, and a dropped layer leaves none behind.
async fn flush_until_none(counts: Arc<UseCounts>) {
    let mut is_store_away = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(FLUSH_EVERY) => {}
            () = counts.enough.notified(), if !is_store_away => {}
        }
        let flushed = counts.flush().await;
        if let Err(error) = &flushed {
            tracing::debug!(%error, "uses of keys are not written yet");
        }
        is_store_away = flushed.is_err();
        let is_orphan = Arc::strong_count(&counts) == 1;
        let mut waiting = counts.waiting();
        if waiting.uses.is_empty() || is_orphan {
            waiting.is_flusher_running = false;
            return;
        }
    }
}
