//! Settle times: when an effect in doubt may be treated as one that did not happen.
//!
//! A request can be at work long after its sender gave up on it or vanished. Until then, the provider may
//! truthfully answer "I do not know this key" and perform the effect a second later. So a denial counts only
//! after some time, and only if it is given twice.

use std::time::Duration;

use super::Timestamp;
use crate::limits::{DENIAL_PAUSE, EFFECT_WITHOUT_TIMEOUT, IN_FLIGHT_MARGIN};

/// How long a doubt about a step must last before it may be treated as "did not happen".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettleTime {
    /// Longest time that a request of a vanished holder may be in flight or at work.
    in_flight_for: Duration,
    /// Time after which a denial of the provider counts.
    settle: Duration,
    /// True if the provider itself rejects requests of earlier holders.
    rejects_stale_fences: bool,
}

impl SettleTime {
    /// For a step whose attempts may take `timeout`. `settle` overrides how long a denial does not count.
    pub fn new(timeout: Option<Duration>, settle: Option<Duration>, rejects_stale_fences: bool) -> Self {
        let in_flight_for = timeout.unwrap_or(EFFECT_WITHOUT_TIMEOUT).saturating_add(IN_FLIGHT_MARGIN);
        SettleTime { in_flight_for, settle: settle.unwrap_or(in_flight_for), rejects_stale_fences }
    }

    /// Earliest time to run the effect again after a doubt since `since`. If the holder vanished, its last
    /// request may have left just before its lease ended, which was before `since`.
    pub fn retry_from(&self, since: Timestamp, holder_vanished: bool) -> Timestamp {
        match holder_vanished && !self.rejects_stale_fences {
            true => since.plus(self.in_flight_for),
            false => since,
        }
    }

    /// Earliest time at which a probe's denial counts.
    pub fn denial_counts_from(&self, since: Timestamp, holder_vanished: bool) -> Timestamp {
        since.plus(self.settle).max(self.retry_from(since, holder_vanished))
    }
}

/// Decision about a probe's "did not happen".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Denial {
    /// Too early, or not confirmed yet. Ask again at this instant.
    AskAgainAt(Timestamp),
    /// The effect did not happen.
    Believed,
}

/// Decides about a denial to a question asked at `asked_at`. `earlier` is when the last denial that counts
/// was asked for.
pub fn decide_denial(counts_from: Timestamp, earlier: Option<Timestamp>, asked_at: Timestamp) -> Denial {
    if asked_at < counts_from {
        return Denial::AskAgainAt(counts_from);
    }
    let confirmed_from = earlier.unwrap_or(asked_at).plus(DENIAL_PAUSE);
    match earlier.is_some() && asked_at >= confirmed_from {
        true => Denial::Believed,
        false => Denial::AskAgainAt(confirmed_from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Timestamp = Timestamp::from_millis(1_000_000);

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn by_default_a_denial_counts_only_after_the_request_must_be_over() {
        let timeout = secs(20);
        let times = SettleTime::new(Some(timeout), None, false);
        for holder_vanished in [false, true] {
            let from = times.denial_counts_from(SINCE, holder_vanished);
            assert_eq!(from, SINCE.plus(timeout + IN_FLIGHT_MARGIN));
        }
        let without_timeout = SettleTime::new(None, None, false);
        let from = without_timeout.denial_counts_from(SINCE, false);
        assert_eq!(from, SINCE.plus(EFFECT_WITHOUT_TIMEOUT + IN_FLIGHT_MARGIN));
    }

    #[test]
    fn after_a_vanished_holder_nothing_is_run_again_before_its_request_must_be_over() {
        let in_flight = secs(20) + IN_FLIGHT_MARGIN;
        let times = SettleTime::new(Some(secs(20)), Some(Duration::ZERO), false);
        assert_eq!(times.retry_from(SINCE, true), SINCE.plus(in_flight));
        assert_eq!(
            times.denial_counts_from(SINCE, true),
            SINCE.plus(in_flight),
            "settle is no way around it"
        );
        assert_eq!(times.retry_from(SINCE, false), SINCE, "this process has cut its own request off");
        assert_eq!(times.denial_counts_from(SINCE, false), SINCE);
    }

    #[test]
    fn a_provider_that_rejects_earlier_holders_needs_no_wait_for_them() {
        let times = SettleTime::new(Some(secs(20)), Some(secs(3)), true);
        assert_eq!(times.retry_from(SINCE, true), SINCE);
        assert_eq!(times.denial_counts_from(SINCE, true), SINCE.plus(secs(3)));
    }

    #[test]
    fn a_denial_counts_when_it_was_asked_for_late_enough_and_twice() {
        let from = SINCE.plus(secs(25));
        let early = from.minus(secs(1));
        assert_eq!(decide_denial(from, None, early), Denial::AskAgainAt(from));
        assert_eq!(decide_denial(from, None, from), Denial::AskAgainAt(from.plus(DENIAL_PAUSE)));
        let too_soon = from.plus(DENIAL_PAUSE).minus(Duration::from_millis(1));
        assert_eq!(decide_denial(from, Some(from), too_soon), Denial::AskAgainAt(from.plus(DENIAL_PAUSE)));
        assert_eq!(decide_denial(from, Some(from), from.plus(DENIAL_PAUSE)), Denial::Believed);
    }
}
