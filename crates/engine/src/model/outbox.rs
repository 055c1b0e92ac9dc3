//! Outbox messages (after-effects): written in the commit that causes them, delivered at least once under one
//! id.

use std::time::Duration;

use super::{
    AttemptsMade, EffectKey, Failure, Name, OwnerId, Payload, RetryDecision, RetryPolicy, RunId, Timestamp,
    WorkspaceId, decide_retry,
};

/// One outbox message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxMessage {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Id that every delivery carries, so the receiver can recognise duplicates.
    pub id: EffectKey,
    /// The run that caused it.
    pub run: RunId,
    /// Name of the receiver.
    pub target: Name,
    /// Content.
    pub payload: Payload,
    /// When it was created.
    pub created_at: Timestamp,
    /// Delivery attempts begun.
    pub attempts: u32,
    /// Failure of the last attempt, if it failed.
    pub failure: Option<Failure>,
    /// Current state.
    pub state: OutboxState,
}

/// State of an outbox message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxState {
    /// Waits to be delivered.
    Due {
        /// Earliest delivery time.
        at: Timestamp,
    },
    /// A worker is delivering it. If the worker has not reported by the end of the claim, it is due again.
    Claimed {
        /// The worker.
        owner: OwnerId,
        /// End of the claim.
        until: Timestamp,
    },
    /// The receiver accepted it.
    Delivered {
        /// When it was delivered.
        at: Timestamp,
    },
    /// Given up. An operator may redeliver it.
    Dead {
        /// When it was given up.
        at: Timestamp,
    },
}

/// Name of a message's state, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxStatus {
    /// Waits to be delivered.
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

    /// Name of the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            OutboxStatus::Due => "due",
            OutboxStatus::Claimed => "claimed",
            OutboxStatus::Delivered => "delivered",
            OutboxStatus::Dead => "dead",
        }
    }

    /// Returns true if nothing is left to do.
    pub const fn is_settled(self) -> bool {
        matches!(self, OutboxStatus::Delivered | OutboxStatus::Dead)
    }
}

impl OutboxState {
    /// The state without its data.
    pub const fn status(self) -> OutboxStatus {
        match self {
            OutboxState::Due { .. } => OutboxStatus::Due,
            OutboxState::Claimed { .. } => OutboxStatus::Claimed,
            OutboxState::Delivered { .. } => OutboxStatus::Delivered,
            OutboxState::Dead { .. } => OutboxStatus::Dead,
        }
    }

    /// When it may be claimed next, if ever.
    pub const fn due_at(self) -> Option<Timestamp> {
        match self {
            OutboxState::Due { at } => Some(at),
            OutboxState::Claimed { until, .. } => Some(until),
            OutboxState::Delivered { .. } | OutboxState::Dead { .. } => None,
        }
    }
}

impl OutboxMessage {
    /// The message after `owner` claimed it for `lease_for`.
    #[must_use]
    pub fn claimed(mut self, owner: OwnerId, lease_for: Duration, now: Timestamp) -> Self {
        self.attempts += 1;
        self.state = OutboxState::Claimed { owner, until: now.plus(lease_for) };
        self
    }

    /// Returns true if this attempt of `owner` is still current.
    pub fn is_held_by(&self, owner: OwnerId, attempt: u32) -> bool {
        let holds = matches!(self.state, OutboxState::Claimed { owner: holder, .. } if holder == owner);
        holds && self.attempts == attempt
    }
}

/// Decides the next state after a delivery attempt.
pub fn decide_delivery(
    policy: &RetryPolicy,
    attempts: u32,
    outcome: Result<(), Failure>,
    now: Timestamp,
    chance: f64,
) -> (OutboxState, Option<Failure>) {
    let Err(failure) = outcome else { return (OutboxState::Delivered { at: now }, None) };
    // Only the number of attempts is limited. The time limit of a policy is meant for steps, where a run
    // waits.
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
