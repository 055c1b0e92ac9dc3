//! Whether and when a failed attempt is made again.

use std::time::Duration;

use super::{Failure, FailureClass, Timestamp};
use crate::limits::{MAX_ATTEMPTS, MAX_SPAN};

/// How often a step is tried and how long it waits in between: exponential backoff, capped, with full jitter.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    max_attempts: u32,
    first_wait: Duration,
    factor: f64,
    max_wait: Duration,
}

impl Default for RetryPolicy {
    /// Three attempts, 1 s then twice as long each time, at most 300 s.
    fn default() -> Self {
        RetryPolicy {
            max_attempts: 3,
            first_wait: Duration::from_secs(1),
            factor: 2.0,
            max_wait: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// One attempt and no other.
    pub fn never() -> Self {
        RetryPolicy::default().max_attempts(1)
    }

    /// How many attempts, the first included; at least 1.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.clamp(1, MAX_ATTEMPTS);
        self
    }

    /// The longest wait after the first failed attempt.
    #[must_use]
    pub fn first_wait(mut self, wait: Duration) -> Self {
        self.first_wait = wait.min(MAX_SPAN);
        self
    }

    /// What each further wait is multiplied by; at least 1.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = if factor.is_finite() { factor.max(1.0) } else { 1.0 };
        self
    }

    /// No wait is longer than this, whatever the attempt or the provider says.
    #[must_use]
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait.min(MAX_SPAN);
        self
    }

    /// How many attempts may be made in all.
    pub fn attempts(&self) -> u32 {
        self.max_attempts
    }

    fn backoff(&self, attempts_made: u32) -> Duration {
        let exponent = i32::try_from(attempts_made.saturating_sub(1)).unwrap_or(i32::MAX);
        let wait = self.first_wait.as_secs_f64() * self.factor.powi(exponent);
        Duration::try_from_secs_f64(wait).unwrap_or(self.max_wait).min(self.max_wait)
    }
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum RetryDecision {
    /// Try again at this instant.
    At(Timestamp),
    /// Do not try again: the failure is the step's outcome.
    GiveUp,
}

/// Decides by class, count and the provider's wish; `jitter` in `[0, 1)` spreads the waits.
pub fn decide_retry(
    policy: &RetryPolicy,
    attempts_made: u32,
    failure: &Failure,
    now: Timestamp,
    jitter: f64,
) -> RetryDecision {
    match failure.class() {
        FailureClass::Permanent => return RetryDecision::GiveUp,
        FailureClass::Retryable | FailureClass::Unknown => {}
    }
    if attempts_made >= policy.max_attempts {
        return RetryDecision::GiveUp;
    }
    let wait = match failure.wait_asked() {
        Some(asked) => asked.min(policy.max_wait),
        None => policy.backoff(attempts_made).mul_f64(jitter.clamp(0.0, 1.0)),
    };
    RetryDecision::At(now.plus(wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(attempts: u32, failure: &Failure, jitter: f64) -> Option<u64> {
        match decide_retry(&RetryPolicy::default(), attempts, failure, Timestamp::EPOCH, jitter) {
            RetryDecision::At(at) => Some(at.since(Timestamp::EPOCH).as_millis() as u64),
            RetryDecision::GiveUp => None,
        }
    }

    #[test]
    fn waits_double_and_the_third_failure_is_final() {
        let failure = Failure::retryable("busy");
        assert_eq!(after(1, &failure, 1.0), Some(1_000));
        assert_eq!(after(2, &failure, 1.0), Some(2_000));
        assert_eq!(after(2, &failure, 0.25), Some(500));
        assert_eq!(after(3, &failure, 1.0), None);
    }

    #[test]
    fn permanent_failures_are_final_and_unknown_ones_are_not() {
        assert_eq!(after(1, &Failure::permanent("no such card"), 1.0), None);
        assert_eq!(after(1, &Failure::unknown("timed out"), 1.0), Some(1_000));
    }

    #[test]
    fn a_providers_wish_is_honoured_up_to_the_cap() {
        assert_eq!(
            after(1, &Failure::retryable("429").retry_after(Duration::from_secs(7)), 0.0),
            Some(7_000)
        );
        assert_eq!(after(1, &Failure::retryable("429").retry_after(Duration::MAX), 0.0), Some(300_000));
    }

    /// Invariant 37: waits have a cap, whatever the policy says.
    #[test]
    fn no_policy_waits_beyond_its_cap() {
        let wild = RetryPolicy::default().max_attempts(u32::MAX).factor(f64::MAX).first_wait(Duration::MAX);
        assert_eq!(wild.attempts(), MAX_ATTEMPTS);
        let RetryDecision::At(at) = decide_retry(&wild, 900, &Failure::retryable("x"), Timestamp::EPOCH, 1.0)
        else {
            panic!("attempts are left");
        };
        assert_eq!(at.since(Timestamp::EPOCH), Duration::from_secs(300));
    }
}
