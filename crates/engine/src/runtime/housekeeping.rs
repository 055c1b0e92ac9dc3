//! Forgets what need not be kept, batch by batch until nothing is left.

use std::sync::Arc;
use std::time::Duration;

use super::inner::{Inner, Phase};
use super::stats::Counters;
use crate::limits::{KEEP_INBOUND_EVENTS_FOR, MAX_PURGE, PURGE_HURRY_AFTER, PURGE_SHARE};
use crate::model::{RunId, Timestamp};
use crate::store::{OperationCursor, Purge, PurgeOperations, StoreResult};

/// Deletes expired keys, closed runs, promises and operations past their retention, and events of webhooks that are no longer sent again.
///
/// A pass goes on until a batch of every kind came out short, so that it keeps up with whatever comes in. Between two batches it rests for a
/// multiple of the time that the last one took: a busy store, which is slow, is left alone for longer.
pub(crate) async fn purge(inner: Arc<Inner>) {
    let mut places = Places::default();
    let mut pass: Option<Pass> = None;
    let mut took = Duration::ZERO;
    loop {
        let pause = match &pass {
            Some(_) => rest_after(took, inner.retention_behind()),
            None => inner.options.purge_every,
        };
        if !wait(&inner, pause).await {
            return;
        }
        let current = pass.get_or_insert_with(|| Pass::begin(&inner));
        let since = inner.clock.monotonic();
        let is_over = current.purge_batches(&inner, &mut places).await;
        took = inner.clock.monotonic().saturating_sub(since);
        if is_over {
            if !current.has_failed {
                inner.set_retention_kept_up(inner.store.now());
            }
            pass = None;
        }
    }
}

/// How long to leave the store to others after a batch.
fn rest_after(took: Duration, behind: Duration) -> Duration {
    match behind > PURGE_HURRY_AFTER {
        true => took,
        false => took * PURGE_SHARE,
    }
}

/// False once the engine has stopped.
async fn wait(inner: &Inner, pause: Duration) -> bool {
    let changed = inner.changed.notified();
    // Looked at before the wait as well: the engine may have stopped before anybody listened.
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

/// Where the next batch of a kind goes on; kept when a batch failed.
#[derive(Default)]
struct Places {
    run: Option<RunId>,
    operation: Option<OperationCursor>,
}

/// One pass over everything there is: which kinds are done.
struct Pass {
    now: Timestamp,
    closed_before: Option<Timestamp>,
    runs: bool,
    requests: bool,
    promises: bool,
    operations: bool,
    hooks: bool,
    has_failed: bool,
}

impl Pass {
    fn begin(inner: &Inner) -> Self {
        let now = inner.store.now();
        let closed_before = inner.options.keep_runs_for.map(|span| now.minus(span));
        let is_kept_for_ever = closed_before.is_none();
        Pass {
            now,
            closed_before,
            runs: false,
            requests: inner.store.request_key_store().is_none(),
            promises: is_kept_for_ever || inner.store.promise_store().is_none(),
            operations: is_kept_for_ever || inner.store.entity_store().is_none(),
            hooks: inner.store.webhook_store().is_none(),
            has_failed: false,
        }
    }

    /// One batch of each kind that is not done; answers whether all are.
    async fn purge_batches(&mut self, inner: &Inner, places: &mut Places) -> bool {
        if !self.runs {
            self.runs = self.purge_runs(inner, places).await;
        }
        if let (false, Some(book)) = (self.requests, inner.store.request_key_store()) {
            let purged = inner.answer(book.purge_requests(MAX_PURGE)).await;
            self.requests = self.is_done(inner, "expired request keys", purged);
        }
        if let (false, Some(book), Some(before)) =
            (self.promises, inner.store.promise_store(), self.closed_before)
        {
            let purged = inner.answer(book.purge_promises(before, MAX_PURGE)).await;
            self.promises = self.is_done(inner, "old promises", purged);
        }
        if let (false, Some(book), Some(ended_before)) =
            (self.operations, inner.store.entity_store(), self.closed_before)
        {
            let request = PurgeOperations { ended_before, after: places.operation.clone(), limit: MAX_PURGE };
            let purged = inner.answer(book.purge_operations(request)).await;
            let purged = purged.map(|purged| {
                places.operation = purged.next;
                // It looks at so many and deletes some of them, so the place tells whether there are more.
                if places.operation.is_some() { MAX_PURGE } else { 0 }
            });
            self.operations = self.is_done(inner, "old operations", purged);
        }
        if let (false, Some(book)) = (self.hooks, inner.store.webhook_store()) {
            let purged = inner
                .answer(book.purge_inbound_events(self.now.minus(KEEP_INBOUND_EVENTS_FOR), MAX_PURGE))
                .await;
            self.hooks = self.is_done(inner, "old events of webhooks", purged);
        }
        self.runs && self.requests && self.promises && self.operations && self.hooks
    }

    async fn purge_runs(&mut self, inner: &Inner, places: &mut Places) -> bool {
        let request = Purge { runs_closed_before: self.closed_before, after: places.run, limit: MAX_PURGE };
        let purged = match inner.answer(inner.store.purge(request)).await {
            Ok(purged) => purged,
            Err(error) => return self.is_done(inner, "what has expired", Err(error)),
        };
        Counters::add_many(&inner.counters.early_expired, purged.early as u64);
        Counters::add_many(&inner.counters.purged, (purged.keys + purged.runs) as u64);
        places.run = purged.next;
        purged.next.is_none() && purged.keys < MAX_PURGE
    }

    /// Is there nothing more to do for a kind in this pass? A kind that fails waits for the next one.
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
