//! Decisions about an operation when the outcome of its action is unknown.

use std::time::Duration;

use super::{Action, Failure, Operation, Recovery, StepView};
use crate::limits::{ACTION_PAUSE, MAX_ACTION_PAUSE, MAX_ACTION_TRIES};

/// Failure code of an action that panicked.
pub const PANICKED: &str = "panicked";
/// Failure code of a request that succeeded with an answer that could not be used.
pub const ANSWER_UNUSABLE: &str = "expression_failed";

/// Decision about an action that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AfterFailure {
    /// Enter it again after a pause, under the same effect key.
    TryAgain {
        /// The pause.
        after: Duration,
    },
    /// Keep the claim until a probe or a ruling resolves it.
    Doubt,
    /// Release the claim. If the action may have happened, the next operation of the step uses the same
    /// effect key.
    Release,
}

/// Decides what to do after the action of `operation` failed in attempt number `tries`.
///
/// - A known failure or a panic releases the claim at once.
/// - An unknown outcome is tried again under the same key, if the action may be run again. The failure class
///   does not matter: a document may call a 5xx retryable.
/// - An action that is declared non-idempotent, or has `recovery: hold`, is held in doubt. So is a run, which
///   cannot be started again under the same key, and an action that happened but gave no usable answer.
/// - Without a claim nothing can be held.
pub fn decide_after_failure(
    view: &StepView,
    operation: &Operation,
    failure: &Failure,
    tries: u32,
) -> AfterFailure {
    if !failure.may_have_happened() || failure.code() == Some(PANICKED) {
        return AfterFailure::Release;
    }
    let is_run = matches!(view.action, Some(Action::Workflow(_)));
    // An action that shares the transaction of its record did not happen if it failed.
    if operation.tries == 0 && !is_run {
        return AfterFailure::Release;
    }
    let has_answer = failure.code() == Some(ANSWER_UNUSABLE);
    let may_try_again = !view.non_idempotent && !is_run && !has_answer;
    match () {
        () if may_try_again && tries < MAX_ACTION_TRIES => {
            let pause = ACTION_PAUSE * 2_u32.saturating_pow(tries.saturating_sub(1));
            let after = failure.requested_wait().map_or(pause, |asked| asked.max(pause));
            AfterFailure::TryAgain { after: after.min(MAX_ACTION_PAUSE) }
        }
        () if operation.claim.is_none() => AfterFailure::Release,
        () if may_try_again && view.recovery == Recovery::Revert => AfterFailure::Release,
        () => AfterFailure::Doubt,
    }
}

#[cfg(test)]
mod tests;
