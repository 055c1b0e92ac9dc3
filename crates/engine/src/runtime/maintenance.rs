//! Deletes expired data in batches until nothing is left to delete.

use std::sync::Arc;
use std::time::Duration;

use super::background::LoopReporter;
use super::inner::{Inner, Phase};
use super::stats::Counters;
use crate::limits::{KEEP_INBOUND_EVENTS_FOR, MAX_PURGE, PURGE_HURRY_AFTER, PURGE_SHARE};
use crate::model::{RunId, Timestamp};
use crate::store::{OperationCursor, Purge, PurgeOperations, StoreResult};

/// Deletes expired keys, closed runs, promises and operations past their retention, and old webhook events.
///
/// A pass continues until every kind of data returned a short batch, so it keeps up with any load. Between
/// two batches it rests for a multiple of the last batch's duration, which spares a busy store.
pub(crate) async fn purge(inner: Arc<Inner>, reporter: LoopReporter) {
    let mut places = BatchPositions::default();
    let mut pass: Option<MaintenancePass> = None;
    let mut took = Duration::ZERO;
    loop {
        let pause = match &pass {
            Some(_) => rest_after(took, inner.retention_lag()),
            None => inner.options.purge_every,
        };
        if !wait(&inner, pause).await {
            return;
        }
        let current = pass.get_or_insert_with(|| MaintenancePass::begin(&inner));
        let since = inner.clock.monotonic();
        let is_over = current.purge_batches(&inner, &mut places).await;
        took = inner.clock.monotonic().saturating_sub(since);
        if is_over {
            if !current.has_failed {
                inner.set_retention_current(inner.store.now());
            }
            pass = None;
            reporter.pass();
        }
    }
}

/// Returns the rest after a batch.
fn rest_after(took: Duration, behind: Duration) -> Duration {
    match behind > PURGE_HURRY_AFTER {
        true => took,
        false => took * PURGE_SHARE,
    }
}

/// Waits. Returns false once the engine has stopped.
async fn wait(inner: &Inner, pause: Duration) -> bool {
    let changed = inner.changed.notified();
    // Checked before the wait too: the engine may have stopped before this task subscribed.
    if inner.phase() != Phase::Running {
        return false;
    }
    if pause.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::select! {
            biased;
            () = inner.clock.sleep(pause) => {}
            () = changed => {}
        }
    }
    inner.phase() == Phase::Running
}

/// Position of the next batch per kind. It is kept when a batch fails.
#[derive(Default)]
struct BatchPositions {
    run: Option<RunId>,
    operation: Option<OperationCursor>,
}

/// One maintenance pass, with a flag for each kind that is done.
struct MaintenancePass {
    now: Timestamp,
    closed_before: Option<Timestamp>,
    runs: bool,
    requests: bool,
    promises: bool,
    operations: bool,
    inbound_events: bool,
    has_failed: bool,
}

impl MaintenancePass {
    fn begin(inner: &Inner) -> Self {
        let now = inner.store.now();
        let closed_before = inner.options.keep_runs_for.map(|span| now.minus(span));
        let is_kept_for_ever = closed_before.is_none();
        MaintenancePass {
            now,
            closed_before,
            runs: false,
            requests: inner.store.request_key_store().is_none(),
            promises: is_kept_for_ever || inner.store.promise_store().is_none(),
            operations: is_kept_for_ever || inner.store.entity_store().is_none(),
            inbound_events: inner.store.webhook_store().is_none(),
            has_failed: false,
        }
    }

    /// Deletes one batch of each kind that is still open. Returns whether all kinds are done.
    async fn purge_batches(&mut self, inner: &Inner, places: &mut BatchPositions) -> bool {
        if !self.runs {
            self.runs = self.purge_runs(inner, places).await;
        }
        if let (false, Some(store)) = (self.requests, inner.store.request_key_store()) {
            let purged = inner.call_store(store.purge_requests(MAX_PURGE)).await;
            self.requests = self.is_done(inner, "expired request keys", purged);
        }
        if let (false, Some(store), Some(before)) =
            (self.promises, inner.store.promise_store(), self.closed_before)
        {
            let purged = inner.call_store(store.purge_promises(before, MAX_PURGE)).await;
            self.promises = self.is_done(inner, "old promises", purged);
        }
        if let (false, Some(store), Some(ended_before)) =
            (self.operations, inner.store.entity_store(), self.closed_before)
        {
            let request = PurgeOperations { ended_before, after: places.operation.clone(), limit: MAX_PURGE };
            let purged = inner.call_store(store.purge_operations(request)).await;
            let purged = purged.map(|purged| {
                places.operation = purged.next;
                // The purge reads a full batch but deletes only part of it, so the position shows whether
                // more is left.
                if places.operation.is_some() { MAX_PURGE } else { 0 }
            });
            self.operations = self.is_done(inner, "old operations", purged);
        }
        if let (false, Some(store)) = (self.inbound_events, inner.store.webhook_store()) {
            let purged = inner
                .call_store(store.purge_inbound_events(self.now.minus(KEEP_INBOUND_EVENTS_FOR), MAX_PURGE))
                .await;
            self.inbound_events = self.is_done(inner, "old events of webhooks", purged);
        }
        self.runs && self.requests && self.promises && self.operations && self.inbound_events
    }

    async fn purge_runs(&mut self, inner: &Inner, places: &mut BatchPositions) -> bool {
        let request = Purge { runs_closed_before: self.closed_before, after: places.run, limit: MAX_PURGE };
        let purged = match inner.call_store(inner.store.purge(request)).await {
            Ok(purged) => purged,
            Err(error) => return self.is_done(inner, "what has expired", Err(error)),
        };
        Counters::add_many(&inner.counters.early_expired, purged.early as u64);
        Counters::add_many(&inner.counters.purged, (purged.keys + purged.runs) as u64);
        places.run = purged.next;
        purged.next.is_none() && purged.keys < MAX_PURGE
    }

    /// Returns whether a kind is done in this pass. A kind that failed waits for the next pass.
    fn is_done(&mut self, inner: &Inner, what: &str, purged: StoreResult<usize>) -> bool {
        match purged {
            Ok(count) => {
                Counters::add_many(&inner.counters.purged, count as u64);
                count < MAX_PURGE
            }
            Err(error) => {
                tracing::warn!(%error, what, "deleting failed; trying again");
                self.has_failed = true;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_store_is_left_alone_for_longer_unless_the_backlog_is_old() {
        let second = Duration::from_secs(1);
        assert_eq!(rest_after(second, Duration::ZERO), second * PURGE_SHARE);
        assert_eq!(rest_after(second, PURGE_HURRY_AFTER + second), second);
        assert_eq!(rest_after(Duration::ZERO, Duration::ZERO), Duration::ZERO);
    }
}
