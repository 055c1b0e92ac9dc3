//! Finds due runs: new ones, those with a due timer, and those whose holder vanished.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::background::LoopReporter;
use super::crash_point::CrashPoint;
use super::inner::{Inner, Phase};
use super::stats::Counters;
use crate::limits::MAX_CLAIM;
use crate::model::Timestamp;
use crate::store::{ClaimRuns, StoreResult};

/// Looks for due runs after a notification, when a timer is due, or when the poll interval is over.
pub(crate) async fn schedule(inner: Arc<Inner>, reporter: LoopReporter) {
    let mut hints = inner.store.hints();
    while inner.phase() == Phase::Running {
        let nudged = inner.scheduler_wakeup.notified();
        tokio::pin!(nudged);
        nudged.as_mut().enable();
        inner.next_look_ms.store(i64::MAX, Ordering::Release);
        // The store's clock decides which timers are due, so it must also decide how long to wait. The local
        // clock may be an hour ahead and would poll without end.
        let now = inner.store.now();
        let poll_at = now.plus(inner.options.poll_every);
        let look_at = match claim_due(&inner).await {
            // More runs may be due. Look again as soon as there is room.
            Ok((claimed, _)) if claimed > 0 => now,
            Ok((_, Some(next))) if inner.room() > 0 => next.min(poll_at),
            Ok(_) => poll_at,
            Err(error) => {
                tracing::warn!(%error, "looking for due runs failed; trying again");
                poll_at
            }
        };
        reporter.pass();
        let look_at = look_at.min(Timestamp::from_millis(inner.next_look_ms.load(Ordering::Acquire)));
        if look_at <= inner.store.now() {
            // A run that cannot be claimed yet must not cause a busy loop.
            tokio::task::yield_now().await;
            continue;
        }
        let timer = inner.sleep_until(look_at);
        tokio::select! {
            biased;
            () = nudged => {}
            () = hinted(&mut hints) => {}
            () = timer => {}
        }
    }
}

/// Waits for a notification from another process.
async fn hinted(hints: &mut Option<watch::Receiver<u64>>) {
    if let Some(hints) = hints
        && hints.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Claims due runs and executes them. Returns their number, and when the next run is due.
pub(crate) async fn claim_due(inner: &Arc<Inner>) -> StoreResult<(usize, Option<Timestamp>)> {
    let room = inner.room().min(MAX_CLAIM);
    let grant = inner.grant();
    if room == 0 || grant.serves.is_empty() {
        return Ok((0, None));
    }
    inner.reached(|| CrashPoint::BeforeClaim);
    let since = inner.clock.monotonic();
    let claimed = inner.call_store(inner.store.claim_runs(ClaimRuns { grant, limit: room })).await?;
    let count = claimed.runs.len();
    for head in claimed.runs {
        inner.reached(|| CrashPoint::AfterClaim(head.id()));
        Counters::add(&inner.counters.claims);
        if head.stalls > 0 {
            Counters::add(&inner.counters.takeovers);
            tracing::info!(run = %head.id(), fence = %head.fence, "run taken over from a holder that vanished");
        }
        inner.drive_on(head, None, since);
    }
    Ok((count, claimed.next_wake_at))
}
