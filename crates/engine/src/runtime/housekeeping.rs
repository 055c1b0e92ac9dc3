//! Forgets what need not be kept, a little at a time.

use std::sync::Arc;

use super::inner::{Inner, Phase};
use crate::limits::MAX_PURGE;
use crate::store::Purge;

/// Deletes expired keys of runs and requests, and closed runs past their retention.
pub(crate) async fn purge(inner: Arc<Inner>) {
    let mut after = None;
    loop {
        let pause = match after {
            // In the middle of a pass: go on soon, but leave room for others.
            Some(_) => inner.options.purge_every / 60,
            None => inner.options.purge_every,
        };
        let changed = inner.changed.notified();
        // Looked at before the wait as well: the engine may have stopped before anybody listened.
        if inner.phase() != Phase::Running {
            return;
        }
        tokio::select! {
            biased;
            () = inner.clock.sleep_until(inner.clock.now().plus(pause)) => {}
            () = changed => {}
        }
        if inner.phase() != Phase::Running {
            return;
        }
        let now = inner.store.now();
        let runs_closed_before = inner.options.keep_runs_for.map(|span| {
            crate::model::Timestamp::from_millis(
                now.as_millis().saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
            )
        });
        match inner.answer(inner.store.purge(Purge { runs_closed_before, after, limit: MAX_PURGE })).await {
            Ok(purged) => after = purged.next,
            Err(error) => tracing::warn!(%error, "deleting what has expired failed; trying again"),
        }
        if let Some(book) = inner.store.key_book()
            && let Err(error) = inner.answer(book.purge_requests(MAX_PURGE)).await
        {
            tracing::warn!(%error, "deleting expired request keys failed; trying again");
        }
    }
}
