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
    /// Is a mutating request without a key refused? [`KeyNeed`] decides for one request.
    pub required: bool,
    /// For how long an answer is given again, counted from the answer; [`Keep`] decides for one request.
    pub keep_for: Duration,
    /// May that be less than a day? Set by [`Policy::keeping_less_than_a_day`].
    pub may_keep_less_than_a_day: bool,
    /// For how long an expired key is refused before it is free again.
    pub grace: Duration,
    /// For how long a request waits for the first of the same, unless it says `Prefer: wait=N`.
    pub max_wait: Duration,
    /// For how long a request counts as worked on without a sign of life. It is renewed while the handler runs, so a slow handler
    /// needs no longer one; after a crash nobody takes over before it ends.
    pub hold_for: Duration,
    /// Largest body of a request with a key; it is read whole before anything begins.
    pub max_body_bytes: usize,
    /// Largest answer that is kept whole. Of a larger one status and headers are kept.
    pub max_stored_answer: usize,
    /// Headers that are kept with an answer beyond [`KEPT_HEADERS`](crate::KEPT_HEADERS).
    pub keep_headers: Vec<HeaderName>,
    /// What to do with a request whose first try vanished.
    pub on_takeover: OnTakeover,
}

/// What to do with a request whose first try vanished because its process died or was cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnTakeover {
    /// The service is called again, with the same [`OperationId`](crate::OperationId) and marked as [`Takeover`](crate::Takeover). Right
    /// where every effect is made under that id, so that what was made is found again.
    #[default]
    RunAgain,
    /// It is refused as 409 `request_in_doubt`, until a person looks and frees the key: nobody knows whether it happened.
    Refuse,
}

/// A policy that cannot be kept, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Answers would be kept for less than a day.
    #[error(
        "keep_for of {0:?} is less than 24 hours; if that is meant, say it with Policy::keeping_less_than_a_day"
    )]
    KeptTooShort(Duration),
    /// A value is out of its range.
    #[error("{what} of {given} is out of range: use {range}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// The given value.
        given: String,
        /// What may be.
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
    /// Keys are a must, and answers are kept for seven days: for services that move money.
    pub fn money() -> Self {
        Policy { required: true, keep_for: SEVEN_DAYS, ..Policy::default() }
    }

    /// Keeps answers for less than the 24 hours that callers may count on. A retry that comes later runs again.
    pub fn keeping_less_than_a_day(self, keep_for: Duration) -> Self {
        Policy { keep_for, may_keep_less_than_a_day: true, ..self }
    }

    /// Checks that the policy can be kept.
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

    /// For how long an answer is kept if `asked` says so: never less than a day unless the policy allows it.
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

/// Whether one request must have a key: an extension of the request, set by an outer layer, or what
/// [`IdempotencyLayer::needed_by`](crate::IdempotencyLayer::needed_by) says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNeed {
    /// Refused without one.
    Required,
    /// With a key it is protected, without one it is passed on as it is.
    Optional,
    /// Passed on as it is, key or not.
    Ignored,
}

/// For how long the answer of one request is kept: an extension of the request or of the response; that of the response counts.
///
/// Less than a day is taken as a day, unless the policy itself is [`Policy::keeping_less_than_a_day`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep(pub Duration);

#[cfg(test)]
mod tests {
    use super::*;

    /// S2.11: at least 24 hours, 7 days for money; less has to be said twice.
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
