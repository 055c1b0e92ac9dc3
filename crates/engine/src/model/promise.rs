//! A value that somebody outside will supply.

use std::time::Duration;

use super::{Failure, IdempotencyKey, Payload, PromiseId, RunId, Timestamp};

/// What a settler says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The value.
    Resolved(Payload),
    /// There will be none, and why.
    Rejected(Failure),
    /// Nobody wants it any more; to those who wait this is a rejection.
    Cancelled(Failure),
}

/// Where a promise stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromiseState {
    /// Nobody has settled it.
    Pending,
    /// Somebody did; the first commit won.
    Settled {
        /// When.
        at: Timestamp,
        /// What they said.
        settlement: Settlement,
    },
    /// Its time ran out first.
    TimedOut,
    /// It never was one to be settled: its key names another.
    KeyTaken {
        /// The promise that has the key.
        by: PromiseId,
    },
}

/// The bare name of a promise's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromiseStatus {
    /// Nobody has settled it.
    Pending,
    /// It has a value.
    Resolved,
    /// It will have none.
    Rejected,
    /// It was called off.
    Cancelled,
    /// Its time ran out.
    TimedOut,
    /// Its key names another.
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

    /// The status as shown.
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

    /// The status spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        PromiseStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl PromiseState {
    /// The bare name.
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

/// A promise's business key: by it, who does not know the promise's id finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromiseKey {
    /// The key.
    pub key: IdempotencyKey,
    /// For how long it still names the promise once that is settled or has timed out. While it is pending the key lives,
    /// however long that takes.
    pub keep_for: Duration,
}

/// One promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Its id.
    pub id: PromiseId,
    /// The run that made it; [`RunId::NONE`] if it stands alone.
    pub run: RunId,
    /// Its business key.
    pub key: Option<PromiseKey>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it times out, if it does.
    pub deadline_at: Option<Timestamp>,
    /// Where it stood when it was last written.
    pub state: PromiseState,
    /// What its maker, from outside, knows the making by.
    pub create_key: Option<IdempotencyKey>,
    /// What its maker said about it.
    pub about: Option<Payload>,
    /// What its settler knows the settling by.
    pub complete_key: Option<IdempotencyKey>,
    /// What its settler said, word for word, if that is more than the settlement.
    pub said: Option<Payload>,
}

impl Promise {
    /// A promise that nobody has settled, without a key.
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

    /// Does it belong to no run?
    pub fn stands_alone(&self) -> bool {
        self.run == RunId::NONE
    }

    /// Where it stands at `now`: past its deadline a pending promise has timed out, whether or not anybody wrote so.
    pub fn state_at(&self, now: Timestamp) -> PromiseState {
        match (&self.state, self.deadline_at) {
            (PromiseState::Pending, Some(deadline)) if now >= deadline => PromiseState::TimedOut,
            (state, _) => state.clone(),
        }
    }

    /// The promise as it stands at `now`.
    #[must_use]
    pub fn seen_at(mut self, now: Timestamp) -> Promise {
        self.state = self.state_at(now);
        self
    }

    /// Is there more to know about it, for the run that just opened it or began to wait for it, than that it is open? Its own
    /// promises without a key are as it left them.
    pub fn is_worth_telling(&self, now: Timestamp) -> bool {
        let is_over = self.state_at(now) != PromiseState::Pending;
        match self.stands_alone() {
            true => is_over || self.deadline_at.is_some(),
            false => self.key.is_some() && is_over,
        }
    }

    /// When it was, or will be, over as things are now: settled, or out of time.
    pub fn over_at(&self) -> Option<Timestamp> {
        match &self.state {
            PromiseState::Settled { at, .. } => Some(*at),
            PromiseState::Pending | PromiseState::TimedOut => self.deadline_at,
            PromiseState::KeyTaken { .. } => Some(self.created_at),
        }
    }

    /// When its key stops naming it, as things are now. Never while it can still be settled: a key that ended sooner would
    /// leave it waiting for a settler who cannot find it (G4.2).
    pub fn key_expires_at(&self) -> Option<Timestamp> {
        let keep_for = self.key.as_ref()?.keep_for;
        self.over_at().map(|at| at.plus(keep_for))
    }
}

impl Settlement {
    /// Do both say the same? Values are compared by meaning, not by spelling.
    pub fn says_same(&self, other: &Settlement) -> bool {
        match (self, other) {
            (Settlement::Resolved(a), Settlement::Resolved(b)) => a == b || same_meaning(a, b),
            (Settlement::Rejected(a), Settlement::Rejected(b))
            | (Settlement::Cancelled(a), Settlement::Cancelled(b)) => a == b,
            (Settlement::Resolved(_) | Settlement::Rejected(_) | Settlement::Cancelled(_), _) => false,
        }
    }

    /// The status of a promise that is settled so.
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
        assert!(resolved(r#"{"a":1,"b":2}"#).says_same(&resolved(r#"{"b":2.0,"a":1}"#)));
        assert!(!resolved("1").says_same(&resolved("2")));
        assert!(!resolved("1").says_same(&Settlement::Rejected(Failure::permanent("1"))));
        let failure = Failure::permanent("no");
        assert!(!Settlement::Cancelled(failure.clone()).says_same(&Settlement::Rejected(failure)));
    }

    /// G4.2: the key of a promise never ends before the promise does.
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
