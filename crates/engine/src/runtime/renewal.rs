//! Renews the leases of active runs and stops runs whose lease cannot be kept.

use std::sync::Arc;

use super::background::LoopReporter;
use super::inner::{Inner, Phase};
use super::run_slot::{RunMessage, RunSlot};
use super::stats::Counters;
use crate::clock::is_small_step;
use crate::limits::{MAX_RENEWALS, MAX_STORE_WAIT};
use crate::store::{HeldLease, RenewLeases};

/// Renews all leases three times per lease time. A run whose lease cannot be renewed stops before the lease
/// expires.
pub(crate) async fn renew(inner: Arc<Inner>, reporter: LoopReporter) {
    let every = inner.options.lease_for / 3;
    let mut watch = StoreClockWatch::new(&inner);
    loop {
        let changed = inner.changed.notified();
        // Checked before the wait too: the engine may have stopped before this task subscribed.
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
        let mut held = inner.slots.all();
        held.retain(|slot| is_worth_holding(&inner, slot));
        for batch in held.chunks(MAX_RENEWALS) {
            let leases = batch
                .iter()
                .map(|slot| HeldLease { workspace: slot.workspace.clone(), run: slot.run, fence: slot.fence })
                .collect();
            let since = inner.clock.monotonic();
            let request = RenewLeases { owner: inner.owner, lease_for: inner.options.lease_for, leases };
            match inner.call_store_within(every, inner.store.renew_leases(request)).await {
                Ok(lost) => {
                    for slot in batch {
                        match lost.contains(&slot.run) {
                            true => slot.send(RunMessage::LeaseLost),
                            false => {
                                let ran_out = slot.deadline() <= inner.clock.monotonic();
                                slot.hold.extend(inner.lease_deadline(since));
                                if ran_out {
                                    slot.send(RunMessage::Renewed);
                                }
                            }
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "leases could not be renewed; trying again"),
            }
        }
        // A lease that expired here is given up, whatever the store says later.
        let now = inner.clock.monotonic();
        for slot in held.iter().filter(|slot| slot.deadline() <= now) {
            tracing::warn!(run = %slot.run, "the lease could not be kept; the run is given up here");
            slot.send(RunMessage::LeaseLost);
        }
        reporter.pass();
    }
}

/// Compares the store's clock with the monotonic clock. Leases, timers and keys of all nodes use the store's
/// clock.
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

/// Returns whether a lease is worth renewing. If the store never answers a write, renewing would hold the run
/// indefinitely. The run is given up instead, and the next engine reads its state from the log.
fn is_worth_holding(inner: &Inner, slot: &RunSlot) -> bool {
    let patience = MAX_STORE_WAIT.max(inner.options.lease_for);
    let is_stuck = slot.is_unanswered_since(inner.clock.monotonic().saturating_sub(patience));
    if is_stuck {
        tracing::error!(run = %slot.run, "the store has not answered a write for {patience:?}; the run is given up here");
        slot.send(RunMessage::LeaseLost);
    }
    !is_stuck
}
