//! What becomes of an operation when nobody knows whether its action happened.

use std::time::Duration;

use super::{Action, Failure, Operation, Recovery, StepView};
use crate::limits::{ACTION_PAUSE, MAX_ACTION_PAUSE, MAX_ACTION_TRIES};

/// The code of the failure of an action that panicked.
pub const PANICKED: &str = "panicked";
/// The code of the failure of a request that was answered well, by an answer that could not be used.
pub const ANSWER_UNUSABLE: &str = "expression_failed";

/// What to do about an action that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AfterFailure {
    /// Enter it again after a pause, under the same effect key.
    TryAgain {
        /// The pause.
        after: Duration,
    },
    /// Keep the claim, and let a probe or people find out whether it happened.
    Doubt,
    /// Give the claim back. If it may have happened, the next operation of the step acts under the same effect key.
    Release,
}

/// Decides what to do about an action of `operation` that failed after `tries` tries.
///
/// A known failure and a panic release at once. An unknown outcome (whatever class the failure has: a document may call a 5xx retryable) is tried again under the same key where the class of the action allows it. What is declared
/// not to be idempotent, and what people want to look at (`recovery: hold`), is held in doubt; so is what a run carried out, which cannot be started again
/// under the same key, and what happened but gave no usable answer. What has no claim cannot be held.
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
    // What shares the transaction of its record did not happen if it failed.
    if operation.tries == 0 && !is_run {
        return AfterFailure::Release;
    }
    let has_answer = failure.code() == Some(ANSWER_UNUSABLE);
    let may_try_again = !view.non_idempotent && !is_run && !has_answer;
    match () {
        () if may_try_again && tries < MAX_ACTION_TRIES => {
            let pause = ACTION_PAUSE * 2_u32.saturating_pow(tries.saturating_sub(1));
            let after = failure.wait_asked().map_or(pause, |asked| asked.max(pause));
            AfterFailure::TryAgain { after: after.min(MAX_ACTION_PAUSE) }
        }
        () if operation.claim.is_none() => AfterFailure::Release,
        () if may_try_again && view.recovery == Recovery::Revert => AfterFailure::Release,
        () => AfterFailure::Doubt,
    }
}

#[cfg(test)]
mod tests;
