//! Errors of the client, as errors of the engine.

use hapax_api::Code;
use hapax_api::client::ClientError;
use hapax_engine::Error;

/// Returns the error of an operation that the server refused, or did not answer.
pub(crate) fn error_of(error: ClientError) -> Error {
    match error {
        ClientError::Refused(problem) => {
            let run = problem.more.get("runId").and_then(|run| run.as_str()).and_then(|run| run.parse().ok());
            match (problem.code, run) {
                (Code::IdempotencyKeySpent, Some(run)) => Error::KeySpent { run },
                (Code::PromiseAlreadySettled, _) => Error::AlreadySettled,
                (Code::PromiseTimedOut, _) => Error::PromiseTimedOut,
                (Code::ShuttingDown, _) => Error::ShuttingDown,
                (code, _) => Error::Server { code: code.as_str().to_owned(), detail: problem.detail },
            }
        }
        ClientError::Unreachable { detail, .. } => Error::NoAnswer(detail),
        error @ (ClientError::Setup(_)
        | ClientError::Tls(_)
        | ClientError::Redirected { .. }
        | ClientError::Protocol { .. }) => Error::NoAnswer(error.to_string()),
    }
}

/// Reaction to a failed request of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryAction {
    /// Send the same again: a lost answer is unknown, never lost.
    SendAgain,
    /// The session is over. Open another.
    NewSession,
    /// No other session would do better.
    GiveUp,
    /// Send something else.
    Refused,
}

pub(crate) fn remedy_of(error: &ClientError) -> RecoveryAction {
    match error {
        ClientError::Refused(problem) => match problem.code {
            Code::SessionUnknown => RecoveryAction::NewSession,
            Code::SessionReplaced | Code::Unauthorized | Code::Forbidden | Code::WorkflowTaken => {
                RecoveryAction::GiveUp
            }
            _ if problem.retryable || problem.status >= 500 => RecoveryAction::SendAgain,
            _ => RecoveryAction::Refused,
        },
        ClientError::Unreachable { .. } => RecoveryAction::SendAgain,
        // A proxy without a server behind it, or an answer that was cut.
        ClientError::Protocol { status, .. } if status.is_none_or(|status| status >= 500) => {
            RecoveryAction::SendAgain
        }
        ClientError::Protocol { status: Some(404), .. } => RecoveryAction::SendAgain,
        ClientError::Protocol { .. } => RecoveryAction::Refused,
        ClientError::Setup(_) | ClientError::Tls(_) | ClientError::Redirected { .. } => {
            RecoveryAction::GiveUp
        }
    }
}
