//! A value that somebody outside will supply.

use super::{Failure, Payload, PromiseId, RunId, Timestamp};

/// What a settler says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The value.
    Resolved(Payload),
    /// There will be none, and why.
    Rejected(Failure),
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
}

/// One promise of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Its id.
    pub id: PromiseId,
    /// The run that waits for it.
    pub run: RunId,
    /// When it times out, if it does.
    pub deadline_at: Option<Timestamp>,
    /// Where it stood when it was last written.
    pub state: PromiseState,
}

impl Promise {
    /// Where it stands at `now`: past its deadline a pending promise has timed out, whether or not anybody wrote so.
    pub fn state_at(&self, now: Timestamp) -> PromiseState {
        match (&self.state, self.deadline_at) {
            (PromiseState::Pending, Some(deadline)) if now >= deadline => PromiseState::TimedOut,
            (state, _) => state.clone(),
        }
    }
}

impl Settlement {
    /// Do both say the same? Values are compared by meaning, not by spelling.
    pub fn says_same(&self, other: &Settlement) -> bool {
        match (self, other) {
            (Settlement::Resolved(a), Settlement::Resolved(b)) => a == b || same_meaning(a, b),
            (Settlement::Rejected(a), Settlement::Rejected(b)) => a == b,
            (Settlement::Resolved(_), Settlement::Rejected(_))
            | (Settlement::Rejected(_), Settlement::Resolved(_)) => false,
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

    #[test]
    fn a_read_after_the_deadline_says_timed_out() {
        let promise = Promise {
            id: PromiseId::from_stored("run_1:p"),
            run: RunId::from_u128(1),
            deadline_at: Some(Timestamp::from_millis(10)),
            state: PromiseState::Pending,
        };
        assert_eq!(promise.state_at(Timestamp::from_millis(9)), PromiseState::Pending);
        assert_eq!(promise.state_at(Timestamp::from_millis(10)), PromiseState::TimedOut);
    }

    #[test]
    fn values_are_compared_by_meaning() {
        let resolved = |text: &str| Settlement::Resolved(Payload::parse(text).unwrap());
        assert!(resolved(r#"{"a":1,"b":2}"#).says_same(&resolved(r#"{"b":2.0,"a":1}"#)));
        assert!(!resolved("1").says_same(&resolved("2")));
        assert!(!resolved("1").says_same(&Settlement::Rejected(Failure::permanent("1"))));
    }
}
