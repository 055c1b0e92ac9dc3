//! Forgets what need not be kept, a little at a time.

use std::sync::Arc;

use super::inner::{Inner, Phase};
use super::stats::Counters;
use crate::limits::{KEEP_HOOKS_FOR, MAX_PURGE};
use crate::model::Timestamp;
use crate::store::{OperationPlace, Purge, PurgeOperations};

/// Deletes expired keys, closed runs, promises and operations past their retention, and events of webhooks that are no longer sent again.
pub(crate) async fn purge(inner: Arc<Inner>) {
    let (mut after, mut after_operation) = (None, None);
    loop {
        let pause = match after.is_some() || after_operation.is_some() {
            // In the middle of a pass: go on soon, but leave room for others.
            true => inner.options.purge_every / 60,
            false => inner.options.purge_every,
        };
        let changed = inner.changed.notified();
        // Looked at before the wait as well: the engine may have stopped before anybody listened.
        if inner.phase() != Phase::Running {
            return;
        }
        tokio::select! {
            biased;
            () = inner.clock.sleep(pause) => {}
            () = changed => {}
        }
        if inner.phase() != Phase::Running {
            return;
        }
        let now = inner.store.now();
        let runs_closed_before = inner.options.keep_runs_for.map(|span| now.minus(span));
        match inner.answer(inner.store.purge(Purge { runs_closed_before, after, limit: MAX_PURGE })).await {
            Ok(purged) => {
                Counters::add_many(&inner.counters.early_expired, purged.early as u64);
                after = purged.next;
            }
            Err(error) => tracing::warn!(%error, "deleting what has expired failed; trying again"),
        }
        if let Some(book) = inner.store.key_book()
            && let Err(error) = inner.answer(book.purge_requests(MAX_PURGE)).await
        {
            tracing::warn!(%error, "deleting expired request keys failed; trying again");
        }
        if let (Some(book), Some(before)) = (inner.store.promise_book(), runs_closed_before)
            && let Err(error) = inner.answer(book.purge_promises(before, MAX_PURGE)).await
        {
            tracing::warn!(%error, "deleting old promises failed; trying again");
        }
        if let Some(ended_before) = runs_closed_before {
            after_operation = purge_operations(&inner, ended_before, after_operation).await;
        }
        if let Some(book) = inner.store.hook_book()
            && let Err(error) = inner.answer(book.purge_hooks(now.minus(KEEP_HOOKS_FOR), MAX_PURGE)).await
        {
            tracing::warn!(%error, "deleting old events of webhooks failed; trying again");
        }
    }
}

/// Answers where to go on; the same place again, if it failed.
async fn purge_operations(
    inner: &Inner,
    ended_before: Timestamp,
    after: Option<OperationPlace>,
) -> Option<OperationPlace> {
    let book = inner.store.entity_book()?;
    let request = PurgeOperations { ended_before, after: after.clone(), limit: MAX_PURGE };
    match inner.answer(book.purge_operations(request)).await {
        Ok(purged) => purged.next,
        Err(error) => {
            tracing::warn!(%error, "deleting old operations failed; trying again");
            after
        }
    }
}
