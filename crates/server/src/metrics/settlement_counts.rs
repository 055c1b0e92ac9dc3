//! Counts settlements that are requested from outside.

use std::sync::atomic::{AtomicU64, Ordering};

use hapax_engine::Error;
use hapax_engine::model::PromiseStatus;
use hapax_engine::runtime::SettlePromiseOutcome;

use super::exposition::Exposition;

/// Result of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Resolved,
    Rejected,
    Cancelled,
    Repeated,
    KeptEarly,
    Conflicted,
    TimedOut,
    Unmatched,
}

const OUTCOMES: [(Outcome, &str); 8] = [
    (Outcome::Resolved, "resolved"),
    (Outcome::Rejected, "rejected"),
    (Outcome::Cancelled, "cancelled"),
    (Outcome::Repeated, "repeated"),
    (Outcome::KeptEarly, "kept"),
    (Outcome::Conflicted, "conflicted"),
    (Outcome::TimedOut, "timed_out"),
    (Outcome::Unmatched, "unmatched"),
];

#[derive(Debug, Default)]
pub(super) struct SettlementCounts([AtomicU64; OUTCOMES.len()]);

impl SettlementCounts {
    pub(super) fn count(&self, answer: &Result<SettlePromiseOutcome, Error>) {
        if let Some(outcome) = outcome_of(answer) {
            self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let help = "Settlements of promises by result: resolved, rejected and cancelled are settled now, repeated already had this \
                    settlement, kept came before its promise, conflicted differs from the recorded settlement, timed_out came too \
                    late, unmatched names no promise.";
        let mut family = out.family("hapax_promise_settlements_total", "counter", help);
        for (outcome, name) in OUTCOMES {
            family.count(&[("outcome", name)], self.0[outcome as usize].load(Ordering::Relaxed));
        }
    }
}

/// Result of the settlement; `None` if it is unknown, or if the request was invalid.
fn outcome_of(answer: &Result<SettlePromiseOutcome, Error>) -> Option<Outcome> {
    match answer {
        Ok(SettlePromiseOutcome::Settled(promise)) => Some(match promise.state.status() {
            PromiseStatus::Rejected => Outcome::Rejected,
            PromiseStatus::Cancelled => Outcome::Cancelled,
            _ => Outcome::Resolved,
        }),
        Ok(SettlePromiseOutcome::AlreadySettled(_)) => Some(Outcome::Repeated),
        Ok(SettlePromiseOutcome::KeptEarly { .. }) => Some(Outcome::KeptEarly),
        Err(Error::AlreadySettled) => Some(Outcome::Conflicted),
        Err(Error::PromiseTimedOut) => Some(Outcome::TimedOut),
        Err(Error::NoSuchPromise(_)) => Some(Outcome::Unmatched),
        Err(_) => None,
    }
}
