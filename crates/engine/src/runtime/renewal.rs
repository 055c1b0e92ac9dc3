//! Keeps the leases of driven runs alive, and stops what can no longer be held.

use std::sync::Arc;

use super::inner::{Inner, Phase};
use super::run_slot::{RunMessage, RunSlot};
use super::stats::Counters;
use crate::clock::is_small_step;
use crate::limits::{MAX_RENEWALS, MAX_STORE_WAIT};
use crate::store::{HeldLease, RenewLeases};

/// Renews all leases three times per lease; a run whose lease cannot be renewed stops itself before it ends.
pub(crate) async fn renew(inner: Arc<Inner>) {
    let every = inner.options.lease_for / 3;
    let mut watch = StoreClockWatch::new(&inner);
    loop {
        let changed = inner.changed.notified();
        // Looked at before the wait as well: the engine may have stopped before anybody listened.
        if inner.phase() == Phase::Killed {
            return;
        }
        tokio::select! {
            biased;
            () = inner.clock.sleep(every) => {}
            () = changed => {}
        }
        if inner.phase() == Phase::Killed {
            return;
        }
        watch.look(&inner);
        let mut held = inner.active.all();
        held.retain(|active| is_worth_holding(&inner, active));
        for batch in held.chunks(MAX_RENEWALS) {
            let leases = batch
                .iter()
                .map(|active| HeldLease {
                    workspace: active.workspace.clone(),
                    run: active.run,
                    fence: active.fence,
                })
                .collect();
            let since = inner.clock.monotonic();
            let request = RenewLeases { owner: inner.owner, lease_for: inner.options.lease_for, leases };
            match inner.answer_within(every, inner.store.renew_leases(request)).await {
                Ok(lost) => {
                    for active in batch {
                        match lost.contains(&active.run) {
                            true => active.post(RunMessage::LeaseLost),
                            false => {
                                let ran_out = active.deadline() <= inner.clock.monotonic();
                                active.hold.extend(inner.lease_deadline(since));
                                if ran_out {
                                    active.post(RunMessage::Renewed);
                                }
                            }
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "leases could not be renewed; trying again"),
            }
        }
        // A lease that ran out here is given up, whatever the store may say later.
        let now = inner.clock.monotonic();
        for active in held.iter().filter(|active| active.deadline() <= now) {
            tracing::warn!(run = %active.run, "the lease could not be kept; the run is given up here");
            active.post(RunMessage::LeaseLost);
        }
    }
}

/// Compares the store's clock with one that never jumps. Leases, timers and keys go by the store's clock, for all nodes alike.
struct StoreClockWatch {
    offset_ms: i64,
}

impl StoreClockWatch {
    fn new(inner: &Inner) -> Self {
        StoreClockWatch { offset_ms: Self::offset(inner) }
    }

    fn offset(inner: &Inner) -> i64 {
        let since = i64::try_from(inner.clock.monotonic().as_millis()).unwrap_or(i64::MAX);
        inner.store.now().as_millis().saturating_sub(since)
    }

    fn look(&mut self, inner: &Inner) {
        let before = std::mem::replace(&mut self.offset_ms, Self::offset(inner));
        if !is_small_step(before, self.offset_ms) {
            Counters::add(&inner.counters.clock_jumps);
            let jumped_ms = self.offset_ms.saturating_sub(before);
            tracing::error!(jumped_ms, now = %inner.store.now(), "the clock of the store has jumped; keys and timers go by it");
        }
    }
}

/// A run whose write the store never answers would be held for ever by a lease that is renewed: it is given up, for
/// others to find out from the log how it stands.
fn is_worth_holding(inner: &Inner, active: &RunSlot) -> bool {
    let patience = MAX_STORE_WAIT.max(inner.options.lease_for);
    let is_stuck = active.is_unanswered_since(inner.clock.monotonic().saturating_sub(patience));
    if is_stuck {
        tracing::error!(run = %active.run, "the store has not answered a write for {patience:?}; the run is given up here");
        active.post(RunMessage::LeaseLost);
    }
    !is_stuck
}
