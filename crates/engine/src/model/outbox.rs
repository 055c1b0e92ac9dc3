//! After-effects: rows of the commit that caused them, delivered at least once under one id.

use std::time::Duration;

use super::{
    AttemptsMade, EffectKey, Failure, Name, OwnerId, Payload, RetryDecision, RetryPolicy, RunId, Timestamp,
    WorkspaceId, decide_retry,
};

/// One after-effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxMessage {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What every attempt carries, so that the receiver can tell them to be one.
    pub id: EffectKey,
    /// The run it came from.
    pub run: RunId,
    /// Who is to receive it.
    pub target: Name,
    /// What it carries.
    pub payload: Payload,
    /// When it was made.
    pub created_at: Timestamp,
    /// Attempts begun.
    pub attempts: u32,
    /// Why the last one failed, if it did.
    pub failure: Option<Failure>,
    /// Where it stands.
    pub state: OutboxState,
}

/// Where an after-effect stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxState {
    /// To be delivered from this instant on.
    Due {
        /// From when.
        at: Timestamp,
    },
    /// Somebody is delivering it; if they have not said how it went by the end, it is due again.
    Claimed {
        /// Who.
        owner: OwnerId,
        /// Until when.
        until: Timestamp,
    },
    /// The receiver has it.
    Delivered {
        /// When.
        at: Timestamp,
    },
    /// It was given up; people may have it delivered once more.
    Dead {
        /// When.
        at: Timestamp,
    },
}

/// The bare name of an after-effect's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxStatus {
    /// To be delivered.
    Due,
    /// Being delivered.
    Claimed,
    /// Delivered.
    Delivered,
    /// Given up.
    Dead,
}

impl OutboxStatus {
    /// Every status.
    pub const ALL: [OutboxStatus; 4] =
        [OutboxStatus::Due, OutboxStatus::Claimed, OutboxStatus::Delivered, OutboxStatus::Dead];

    /// The status as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            OutboxStatus::Due => "due",
            OutboxStatus::Claimed => "claimed",
            OutboxStatus::Delivered => "delivered",
            OutboxStatus::Dead => "dead",
        }
    }

    /// Is there nothing left to do?
    pub const fn is_settled(self) -> bool {
        matches!(self, OutboxStatus::Delivered | OutboxStatus::Dead)
    }
}

impl OutboxState {
    /// The bare name.
    pub const fn status(self) -> OutboxStatus {
        match self {
            OutboxState::Due { .. } => OutboxStatus::Due,
            OutboxState::Claimed { .. } => OutboxStatus::Claimed,
            OutboxState::Delivered { .. } => OutboxStatus::Delivered,
            OutboxState::Dead { .. } => OutboxStatus::Dead,
        }
    }

    /// From when on it may be claimed, if ever.
    pub const fn due_at(self) -> Option<Timestamp> {
        match self {
            OutboxState::Due { at } => Some(at),
            OutboxState::Claimed { until, .. } => Some(until),
            OutboxState::Delivered { .. } | OutboxState::Dead { .. } => None,
        }
    }
}

impl OutboxMessage {
    /// As it is once `owner` has it for `lease_for`.
    #[must_use]
    pub fn claimed(mut self, owner: OwnerId, lease_for: Duration, now: Timestamp) -> Self {
        self.attempts += 1;
        self.state = OutboxState::Claimed { owner, until: now.plus(lease_for) };
        self
    }

    /// Is this attempt of `owner` still the one under way?
    pub fn is_held_by(&self, owner: OwnerId, attempt: u32) -> bool {
        let holds = matches!(self.state, OutboxState::Claimed { owner: holder, .. } if holder == owner);
        holds && self.attempts == attempt
    }
}

/// How an attempt went: what becomes of the after-effect.
pub fn decide_delivery(
    policy: &RetryPolicy,
    attempts: u32,
    outcome: Result<(), Failure>,
    now: Timestamp,
    chance: f64,
) -> (OutboxState, Option<Failure>) {
    let Err(failure) = outcome else { return (OutboxState::Delivered { at: now }, None) };
    // Only their count ends them: the time of a policy is meant for steps, which somebody waits for.
    let made = AttemptsMade { count: attempts, since: now };
    let state = match decide_retry(policy, made, &failure, now, chance) {
        RetryDecision::At(at) => OutboxState::Due { at },
        RetryDecision::GiveUp | RetryDecision::Pause => OutboxState::Dead { at: now },
    };
    (state, Some(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    #[test]
    fn an_after_effect_is_tried_until_its_attempts_are_spent() {
        let policy = RetryPolicy::default().max_attempts(3);
        let failed = || Err(Failure::retryable("no answer"));
        let (state, why) = decide_delivery(&policy, 1, failed(), NOW, 1.0);
        assert!(matches!(state, OutboxState::Due { at } if at > NOW), "{state:?}");
        assert!(why.is_some());
        assert_eq!(decide_delivery(&policy, 3, failed(), NOW, 1.0).0, OutboxState::Dead { at: NOW });
        let refused = Err(Failure::permanent("gone"));
        assert_eq!(decide_delivery(&policy, 1, refused, NOW, 1.0).0, OutboxState::Dead { at: NOW });
        assert_eq!(decide_delivery(&policy, 1, Ok(()), NOW, 1.0), (OutboxState::Delivered { at: NOW }, None));
    }
}
