//! Retry policies: whether and when a failed attempt is repeated.

use std::time::Duration;

use super::{Failure, FailureClass, Timestamp};
use crate::limits::{MAX_ATTEMPTS, MAX_SPAN, RETRY_FOR};

/// Retry policy of a step: exponential backoff with a cap and full jitter, limited by time and by number of
/// attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    give_up_after: Duration,
    max_attempts: Option<u32>,
    first_wait: Duration,
    factor: f64,
    max_wait: Duration,
    on_exhausted: OnExhausted,
}

/// Policy for a step whose last allowed attempt has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnExhausted {
    /// The step fails. The run fails too, unless its code handles the failure.
    #[default]
    Fail,
    /// The run pauses. When it is resumed, the step starts over with the whole policy.
    Pause,
}

impl Default for RetryPolicy {
    /// Retries for 24 hours. Waits 1 s, then twice as long each time, at most 60 s.
    fn default() -> Self {
        RetryPolicy {
            give_up_after: RETRY_FOR,
            max_attempts: None,
            first_wait: Duration::from_secs(1),
            factor: 2.0,
            max_wait: Duration::from_secs(60),
            on_exhausted: OnExhausted::Fail,
        }
    }
}

impl RetryPolicy {
    /// One attempt, no retries.
    pub fn never() -> Self {
        RetryPolicy::default().max_attempts(1)
    }

    /// Sets how long after the start of the first attempt the last one may be made.
    #[must_use]
    pub fn give_up_after(mut self, span: Duration) -> Self {
        self.give_up_after = span.min(MAX_SPAN);
        self
    }

    /// Limits the number of attempts, including the first; at least 1. Without it only the time is limited.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts.clamp(1, MAX_ATTEMPTS));
        self
    }

    /// Sets the longest wait after the first failed attempt.
    #[must_use]
    pub fn first_wait(mut self, wait: Duration) -> Self {
        self.first_wait = wait.min(MAX_SPAN);
        self
    }

    /// Sets the factor between consecutive waits; at least 1.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = if factor.is_finite() { factor.max(1.0) } else { 1.0 };
        self
    }

    /// Sets the longest wait between attempts. A provider may ask for a longer one.
    #[must_use]
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait.min(MAX_SPAN);
        self
    }

    /// Sets what happens when the last attempt has failed.
    #[must_use]
    pub fn on_exhausted(mut self, on_exhausted: OnExhausted) -> Self {
        self.on_exhausted = on_exhausted;
        self
    }

    /// How long after the start of the first attempt the last one may be made.
    pub fn time_limit(&self) -> Duration {
        self.give_up_after
    }

    /// Limit on the number of attempts, if there is one.
    pub fn attempt_limit(&self) -> Option<u32> {
        self.max_attempts
    }

    /// Longest wait after the first failed attempt, the factor between consecutive waits, and the longest wait of all.
    pub fn waits(&self) -> (Duration, f64, Duration) {
        (self.first_wait, self.factor, self.max_wait)
    }

    /// Maximum number of attempts.
    pub fn attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(u32::MAX)
    }

    /// Returns true if the run pauses when the last attempt has failed.
    pub fn pauses(&self) -> bool {
        self.on_exhausted == OnExhausted::Pause
    }

    /// Returns true if time is up for a step whose first attempt began at `since`.
    pub(crate) fn is_over(&self, since: Timestamp, now: Timestamp) -> bool {
        now.since(since) >= self.give_up_after
    }

    fn backoff(&self, attempts_made: u32) -> Duration {
        let exponent = i32::try_from(attempts_made.saturating_sub(1)).unwrap_or(i32::MAX);
        let wait = self.first_wait.as_secs_f64() * self.factor.powi(exponent);
        Duration::try_from_secs_f64(wait).unwrap_or(self.max_wait).min(self.max_wait)
    }
}

/// Decision after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum RetryDecision {
    /// Try again at this instant.
    At(Timestamp),
    /// Do not try again. The failure is the outcome of the step.
    GiveUp,
    /// Do not try again until the run is resumed.
    Pause,
}

/// Attempts of a step so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptsMade {
    /// Number of attempts.
    pub count: u32,
    /// When the first one began.
    pub since: Timestamp,
}

/// Decides by failure class, time, number of attempts, and the wait that the provider asked for. `jitter` in
/// `[0, 1)` spreads the waits. The last attempt is made when time is up, even if the provider asked for a
/// longer wait.
pub fn decide_retry(
    policy: &RetryPolicy,
    made: AttemptsMade,
    failure: &Failure,
    now: Timestamp,
    jitter: f64,
) -> RetryDecision {
    match failure.class() {
        FailureClass::Permanent => return RetryDecision::GiveUp,
        FailureClass::Retryable | FailureClass::Unknown => {}
    }
    if failure.is_final() {
        return RetryDecision::GiveUp;
    }
    let left = policy.give_up_after.saturating_sub(now.since(made.since));
    if made.count >= policy.attempts() || left.is_zero() {
        return match policy.on_exhausted {
            OnExhausted::Fail => RetryDecision::GiveUp,
            OnExhausted::Pause => RetryDecision::Pause,
        };
    }
    let wait = match failure.requested_wait() {
        Some(asked) => asked,
        None => policy.backoff(made.count).mul_f64(jitter.clamp(0.0, 1.0)),
    };
    RetryDecision::At(now.plus(wait.min(left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(
        policy: &RetryPolicy,
        attempts: u32,
        failure: &Failure,
        now: i64,
        jitter: f64,
    ) -> RetryDecision {
        let made = AttemptsMade { count: attempts, since: Timestamp::EPOCH };
        decide_retry(policy, made, failure, Timestamp::from_millis(now), jitter)
    }

    fn after(attempts: u32, failure: &Failure, jitter: f64) -> Option<u64> {
        match decide(&RetryPolicy::default(), attempts, failure, 0, jitter) {
            RetryDecision::At(at) => Some(at.since(Timestamp::EPOCH).as_millis() as u64),
            RetryDecision::GiveUp | RetryDecision::Pause => None,
        }
    }

    #[test]
    fn waits_double_up_to_a_minute_with_full_jitter() {
        let failure = Failure::retryable("busy");
        assert_eq!(after(1, &failure, 1.0), Some(1_000));
        assert_eq!(after(2, &failure, 1.0), Some(2_000));
        assert_eq!(after(2, &failure, 0.25), Some(500));
        assert_eq!(after(7, &failure, 1.0), Some(60_000));
        assert_eq!(after(2_000, &failure, 1.0), Some(60_000));
    }

    /// CONTRACT 5: a short outage never ends an order.
    #[test]
    fn a_step_is_tried_for_a_day_and_the_last_time_when_the_day_is_over() {
        let (policy, failure) = (RetryPolicy::default(), Failure::retryable("busy"));
        let day = 24 * 3_600_000;
        let last = RetryDecision::At(Timestamp::from_millis(day));
        assert_eq!(decide(&policy, 5_000, &failure, day - 10, 1.0), last);
        assert_eq!(decide(&policy, 5_001, &failure, day, 1.0), RetryDecision::GiveUp);
        let narrow = RetryPolicy::default().give_up_after(Duration::from_secs(5));
        assert_eq!(decide(&narrow, 9, &failure, 5_000, 1.0), RetryDecision::GiveUp);
        let three = RetryPolicy::default().max_attempts(3);
        assert!(matches!(decide(&three, 2, &failure, 0, 1.0), RetryDecision::At(_)));
        assert_eq!(decide(&three, 3, &failure, 0, 1.0), RetryDecision::GiveUp);
    }

    #[test]
    fn an_exhausted_policy_may_pause_the_run_but_a_permanent_failure_never_does() {
        let policy = RetryPolicy::never().on_exhausted(OnExhausted::Pause);
        assert_eq!(decide(&policy, 1, &Failure::unknown("lost"), 0, 1.0), RetryDecision::Pause);
        assert_eq!(decide(&policy, 1, &Failure::permanent("declined"), 0, 1.0), RetryDecision::GiveUp);
    }

    #[test]
    fn permanent_failures_are_final_and_unknown_ones_are_not() {
        assert_eq!(after(1, &Failure::permanent("no such card"), 1.0), None);
        assert_eq!(after(1, &Failure::unknown("timed out"), 1.0), Some(1_000));
        assert_eq!(after(1, &Failure::unknown("it happened; its answer is unusable").finally(), 1.0), None);
    }

    #[test]
    fn a_providers_wish_is_honoured_until_the_time_is_up() {
        let asks = |wait| Failure::retryable("429").retry_after(wait);
        assert_eq!(after(1, &asks(Duration::from_secs(7)), 0.0), Some(7_000));
        assert_eq!(after(1, &asks(Duration::from_secs(3_600)), 0.0), Some(3_600_000), "beyond the cap");
        assert_eq!(after(1, &asks(Duration::MAX), 0.0), Some(24 * 3_600_000));
    }

    /// Invariant 37: waits have a cap, whatever the policy says.
    #[test]
    fn no_policy_waits_beyond_its_cap() {
        let wild = RetryPolicy::default().max_attempts(u32::MAX).factor(f64::MAX).first_wait(Duration::MAX);
        assert_eq!(wild.attempts(), MAX_ATTEMPTS);
        let RetryDecision::At(at) = decide(&wild, 900, &Failure::retryable("x"), 0, 1.0) else {
            panic!("attempts are left");
        };
        assert_eq!(at.since(Timestamp::EPOCH), Duration::from_secs(60));
    }
}
