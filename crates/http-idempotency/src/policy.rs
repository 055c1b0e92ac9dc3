//! Policy for keys: retention, waiting, and when a key is required.

use std::time::Duration;

use http::HeaderName;

use crate::limits::{
    A_DAY, DEFAULT_BODY_BYTES, DEFAULT_HOLD, DEFAULT_WAIT, MAX_BODY_BYTES, MAX_HOLD, MAX_SPAN,
    MAX_STORED_ANSWER_BYTES, MAX_WAIT, MIN_HOLD, SEVEN_DAYS,
};

/// Policy of a service for `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Refuses a mutating request without a key. [`KeyNeed`] overrides it for one request.
    pub required: bool,
    /// Time that an answer is replayed, counted from the answer. [`Keep`] overrides it for one request.
    pub keep_for: Duration,
    /// Allows less than a day. Set by [`Policy::keeping_less_than_a_day`].
    pub may_keep_less_than_a_day: bool,
    /// Grace period of an expired key, which is refused until the key is free again.
    pub grace: Duration,
    /// Time that a request waits for an identical one in progress, unless it sends `Prefer: wait=N`.
    pub max_wait: Duration,
    /// Time without renewal after which a request counts as abandoned. It is renewed while the handler runs, so a slow
    /// handler does not need a longer one. After a crash no other process takes over before it ends.
    pub hold_for: Duration,
    /// Largest body of a request with a key. The body is read completely before the operation begins.
    pub max_body_bytes: usize,
    /// Largest answer stored with its body. Of a larger one, status and headers are stored.
    pub max_stored_answer: usize,
    /// Headers to store with an answer, in addition to [`KEPT_HEADERS`](crate::KEPT_HEADERS).
    pub keep_headers: Vec<HeaderName>,
    /// Treatment of a request whose first attempt crashed.
    pub on_takeover: OnTakeover,
}

/// Treatment of a request whose first attempt ended because its process crashed or lost its connection to the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnTakeover {
    /// Calls the service again, with the same [`OperationId`](crate::OperationId) and marked as
    /// [`Takeover`](crate::Takeover). Use it if every effect is made under that id, so that an existing effect is found
    /// again.
    #[default]
    RunAgain,
    /// Refuses it with 409 `request_in_doubt`, until a person checks the outcome and frees the key.
    Refuse,
}

/// Invalid policy, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The retention is less than a day.
    #[error("keep_for of {0:?} is less than 24 hours; call Policy::keeping_less_than_a_day to allow that")]
    KeptTooShort(Duration),
    /// A value is out of its range.
    #[error("{what} of {given} is out of range: use {range}")]
    OutOfRange {
        /// Name of the setting.
        what: &'static str,
        /// The given value.
        given: String,
        /// Allowed range.
        range: String,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            required: false,
            keep_for: A_DAY,
            may_keep_less_than_a_day: false,
            grace: Duration::ZERO,
            max_wait: DEFAULT_WAIT,
            hold_for: DEFAULT_HOLD,
            max_body_bytes: DEFAULT_BODY_BYTES,
            max_stored_answer: MAX_STORED_ANSWER_BYTES,
            keep_headers: Vec::new(),
            on_takeover: OnTakeover::RunAgain,
        }
    }
}

impl Policy {
    /// Requires keys and keeps answers for seven days: for services that move money.
    pub fn money() -> Self {
        Policy { required: true, keep_for: SEVEN_DAYS, ..Policy::default() }
    }

    /// Allows less than the 24 hours that callers may rely on. A later retry runs again.
    pub fn keeping_less_than_a_day(self, keep_for: Duration) -> Self {
        Policy { keep_for, may_keep_less_than_a_day: true, ..self }
    }

    /// Checks the policy.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.keep_for < A_DAY && !self.may_keep_less_than_a_day {
            return Err(PolicyError::KeptTooShort(self.keep_for));
        }
        within("keep_for", self.keep_for, Duration::from_millis(1), MAX_SPAN)?;
        within("grace", self.grace, Duration::ZERO, MAX_SPAN)?;
        within("max_wait", self.max_wait, Duration::ZERO, MAX_WAIT)?;
        within("hold_for", self.hold_for, MIN_HOLD, MAX_HOLD)?;
        within("max_body_bytes", self.max_body_bytes, 0, MAX_BODY_BYTES)?;
        within("max_stored_answer", self.max_stored_answer, 0, MAX_STORED_ANSWER_BYTES)
    }

    /// Retention of an answer, given the requested one: never less than a day unless the policy allows it.
    pub(crate) fn keep_for(&self, asked: Option<Keep>) -> Duration {
        let Some(Keep(span)) = asked else { return self.keep_for };
        let least = if self.may_keep_less_than_a_day { Duration::from_millis(1) } else { A_DAY };
        span.clamp(least, MAX_SPAN)
    }
}

fn within<T: PartialOrd + std::fmt::Debug>(
    what: &'static str,
    given: T,
    least: T,
    most: T,
) -> Result<(), PolicyError> {
    if given >= least && given <= most {
        return Ok(());
    }
    let range = format!("{least:?} to {most:?}");
    Err(PolicyError::OutOfRange { what, given: format!("{given:?}"), range })
}

/// Request extension, set by an outer layer, or result of
/// [`IdempotencyLayer::needed_by`](crate::IdempotencyLayer::needed_by): whether one request needs a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNeed {
    /// Refused without a key.
    Required,
    /// Protected with a key, and passed on unchanged without one.
    Optional,
    /// Passed on unchanged, with or without a key.
    Ignored,
}

/// Retention of one answer: a request or response extension. The response's extension counts.
///
/// Less than a day is raised to a day, unless the policy allows less ([`Policy::keeping_less_than_a_day`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep(pub Duration);

#[cfg(test)]
mod tests {
    use super::*;

    /// S2.11: at least 24 hours, and 7 days for money. Less needs an explicit call.
    #[test]
    fn less_than_a_day_has_to_be_said_twice() {
        let hour = Duration::from_secs(3600);
        assert_eq!(Policy::default().keep_for, A_DAY);
        assert_eq!(Policy::money().keep_for, SEVEN_DAYS);
        assert!(Policy::money().required);
        let once = Policy { keep_for: hour, ..Policy::default() };
        assert_eq!(once.check(), Err(PolicyError::KeptTooShort(hour)));
        assert_eq!(Policy::default().keeping_less_than_a_day(hour).check(), Ok(()));
    }

    #[test]
    fn one_request_cannot_undercut_the_policy() {
        let hour = Keep(Duration::from_secs(3600));
        assert_eq!(Policy::default().keep_for(Some(hour)), A_DAY);
        assert_eq!(Policy::default().keep_for(Some(Keep(SEVEN_DAYS))), SEVEN_DAYS);
        assert_eq!(Policy::default().keeping_less_than_a_day(A_DAY).keep_for(Some(hour)), hour.0);
        assert_eq!(Policy::money().keep_for(None), SEVEN_DAYS);
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_its_range() {
        let bad = [
            Policy { max_wait: MAX_WAIT + Duration::from_secs(1), ..Policy::default() },
            Policy { hold_for: Duration::ZERO, ..Policy::default() },
            Policy { grace: Duration::MAX, ..Policy::default() },
            Policy { keep_for: Duration::MAX, ..Policy::default() },
            Policy { max_body_bytes: usize::MAX, ..Policy::default() },
            Policy { max_stored_answer: usize::MAX, ..Policy::default() },
            Policy::default().keeping_less_than_a_day(Duration::ZERO),
        ];
        for policy in bad {
            assert!(matches!(policy.check(), Err(PolicyError::OutOfRange { .. })), "{policy:?}");
        }
        assert_eq!(Policy::default().check(), Ok(()));
        assert_eq!(Policy::money().check(), Ok(()));
    }
}
