//! Durable promises: values that someone outside will supply.

use std::time::Duration;

use super::{Failure, IdempotencyKey, Payload, PromiseId, RunId, Timestamp};

/// How a promise is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// With this value.
    Resolved(Payload),
    /// Without a value, for this reason.
    Rejected(Failure),
    /// Called off. Waiting runs see a rejection.
    Cancelled(Failure),
}

/// State of a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromiseState {
    /// Not settled.
    Pending,
    /// Settled. The first commit won.
    Settled {
        /// When it was settled.
        at: Timestamp,
        /// The settlement.
        settlement: Settlement,
    },
    /// Its deadline passed first.
    TimedOut,
    /// Its key belongs to another promise, so it can never be settled.
    KeyTaken {
        /// The promise that has the key.
        by: PromiseId,
    },
}

/// Name of a promise's state, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromiseStatus {
    /// Not settled.
    Pending,
    /// Has a value.
    Resolved,
    /// Has no value.
    Rejected,
    /// Called off.
    Cancelled,
    /// Its deadline passed.
    TimedOut,
    /// Its key belongs to another promise.
    KeyTaken,
}

impl PromiseStatus {
    /// Every status.
    pub const ALL: [PromiseStatus; 6] = [
        PromiseStatus::Pending,
        PromiseStatus::Resolved,
        PromiseStatus::Rejected,
        PromiseStatus::Cancelled,
        PromiseStatus::TimedOut,
        PromiseStatus::KeyTaken,
    ];

    /// Name of the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            PromiseStatus::Pending => "pending",
            PromiseStatus::Resolved => "resolved",
            PromiseStatus::Rejected => "rejected",
            PromiseStatus::Cancelled => "cancelled",
            PromiseStatus::TimedOut => "timed_out",
            PromiseStatus::KeyTaken => "key_taken",
        }
    }

    /// The status with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        PromiseStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl PromiseState {
    /// The state without its data.
    pub const fn status(&self) -> PromiseStatus {
        match self {
            PromiseState::Pending => PromiseStatus::Pending,
            PromiseState::Settled { settlement: Settlement::Resolved(_), .. } => PromiseStatus::Resolved,
            PromiseState::Settled { settlement: Settlement::Rejected(_), .. } => PromiseStatus::Rejected,
            PromiseState::Settled { settlement: Settlement::Cancelled(_), .. } => PromiseStatus::Cancelled,
            PromiseState::TimedOut => PromiseStatus::TimedOut,
            PromiseState::KeyTaken { .. } => PromiseStatus::KeyTaken,
        }
    }
}

/// Business key of a promise. Lets callers find the promise without knowing its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromiseKey {
    /// The key.
    pub key: IdempotencyKey,
    /// How long the key still names the promise after it is settled or has timed out. While the promise is
    /// pending the key never expires.
    pub keep_for: Duration,
}

/// A durable promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Id of the promise.
    pub id: PromiseId,
    /// The run that created it. [`RunId::NONE`] for a standalone promise.
    pub run: RunId,
    /// Business key.
    pub key: Option<PromiseKey>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it times out, if it does.
    pub deadline_at: Option<Timestamp>,
    /// State when it was last written.
    pub state: PromiseState,
    /// Idempotency key of the creation, if it was created from outside.
    pub create_key: Option<IdempotencyKey>,
    /// Data that the creator attached.
    pub about: Option<Payload>,
    /// Idempotency key of the settlement.
    pub complete_key: Option<IdempotencyKey>,
    /// The settler's original data, if that is more than the settlement.
    pub said: Option<Payload>,
}

impl Promise {
    /// A pending promise without a key.
    pub fn pending(
        id: PromiseId,
        run: RunId,
        created_at: Timestamp,
        deadline_at: Option<Timestamp>,
    ) -> Promise {
        Promise {
            id,
            run,
            key: None,
            created_at,
            deadline_at,
            state: PromiseState::Pending,
            create_key: None,
            about: None,
            complete_key: None,
            said: None,
        }
    }

    /// Returns true if it belongs to no run.
    pub fn is_standalone(&self) -> bool {
        self.run == RunId::NONE
    }

    /// State at `now`. A pending promise past its deadline has timed out, whether or not that was written.
    pub fn state_at(&self, now: Timestamp) -> PromiseState {
        match (&self.state, self.deadline_at) {
            (PromiseState::Pending, Some(deadline)) if now >= deadline => PromiseState::TimedOut,
            (state, _) => state.clone(),
        }
    }

    /// The promise with its state at `now`.
    #[must_use]
    pub fn seen_at(mut self, now: Timestamp) -> Promise {
        self.state = self.state_at(now);
        self
    }

    /// Returns true if the run that opened it, or began to wait for it, must learn more than that it is open. A run
    /// already knows the state of its own promises without a key.
    pub fn is_reported_on_open(&self, now: Timestamp) -> bool {
        let is_over = self.state_at(now) != PromiseState::Pending;
        match self.is_standalone() {
            true => is_over || self.deadline_at.is_some(),
            false => self.key.is_some() && is_over,
        }
    }

    /// When it ended, or will end unless it changes: settled or timed out.
    pub fn ends_at(&self) -> Option<Timestamp> {
        match &self.state {
            PromiseState::Settled { at, .. } => Some(*at),
            PromiseState::Pending | PromiseState::TimedOut => self.deadline_at,
            PromiseState::KeyTaken { .. } => Some(self.created_at),
        }
    }

    /// When its key expires, unless the promise changes. Never while it can be settled: the settler could not find it
    /// any more, and its run would wait forever (G4.2).
    pub fn key_expires_at(&self) -> Option<Timestamp> {
        let keep_for = self.key.as_ref()?.keep_for;
        self.ends_at().map(|at| at.plus(keep_for))
    }
}

impl Settlement {
    /// Returns true if both settle a promise in the same way. Values are compared by meaning, not by spelling.
    pub fn is_same_as(&self, other: &Settlement) -> bool {
        match (self, other) {
            (Settlement::Resolved(a), Settlement::Resolved(b)) => a == b || same_meaning(a, b),
            (Settlement::Rejected(a), Settlement::Rejected(b))
            | (Settlement::Cancelled(a), Settlement::Cancelled(b)) => a == b,
            (Settlement::Resolved(_) | Settlement::Rejected(_) | Settlement::Cancelled(_), _) => false,
        }
    }

    /// Status of a promise settled in this way.
    pub const fn status(&self) -> PromiseStatus {
        match self {
            Settlement::Resolved(_) => PromiseStatus::Resolved,
            Settlement::Rejected(_) => PromiseStatus::Rejected,
            Settlement::Cancelled(_) => PromiseStatus::Cancelled,
        }
    }
}

fn same_meaning(a: &Payload, b: &Payload) -> bool {
    match (a.to(), b.to()) {
        (Ok(a), Ok(b)) => super::canonical_json(&a) == super::canonical_json(&b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(deadline: Option<i64>) -> Promise {
        let deadline = deadline.map(Timestamp::from_millis);
        let id = PromiseId::from_stored("run_1:p");
        Promise::pending(id, RunId::from_u128(1), Timestamp::EPOCH, deadline)
    }

    #[test]
    fn a_read_after_the_deadline_says_timed_out() {
        let promise = promise(Some(10));
        assert_eq!(promise.state_at(Timestamp::from_millis(9)), PromiseState::Pending);
        assert_eq!(promise.state_at(Timestamp::from_millis(10)), PromiseState::TimedOut);
    }

    #[test]
    fn values_are_compared_by_meaning() {
        let resolved = |text: &str| Settlement::Resolved(Payload::parse(text).unwrap());
        assert!(resolved(r#"{"a":1,"b":2}"#).is_same_as(&resolved(r#"{"b":2.0,"a":1}"#)));
        assert!(!resolved("1").is_same_as(&resolved("2")));
        assert!(!resolved("1").is_same_as(&Settlement::Rejected(Failure::permanent("1"))));
        let failure = Failure::permanent("no");
        assert!(!Settlement::Cancelled(failure.clone()).is_same_as(&Settlement::Rejected(failure)));
    }

    /// G4.2: the key of a promise never expires before the promise ends.
    #[test]
    fn a_key_outlives_its_promise() {
        let key = IdempotencyKey::new("stripe:ch_1").unwrap();
        let keyed = |promise: Promise| Promise {
            key: Some(PromiseKey { key: key.clone(), keep_for: Duration::from_millis(5) }),
            ..promise
        };
        assert_eq!(promise(Some(10)).key_expires_at(), None);
        assert_eq!(keyed(promise(None)).key_expires_at(), None);
        assert_eq!(keyed(promise(Some(10))).key_expires_at(), Some(Timestamp::from_millis(15)));
        let at = Timestamp::from_millis(3);
        let state = PromiseState::Settled { at, settlement: Settlement::Resolved(Payload::null()) };
        let settled = Promise { state, ..keyed(promise(Some(10))) };
        assert_eq!(settled.key_expires_at(), Some(Timestamp::from_millis(8)));
    }
}
