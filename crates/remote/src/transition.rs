//! Steps with entities on a server.

use std::time::Duration;

use hapax_api::client::RequestOptions;
use hapax_api::{Code, OperationStatus, TakeStep};
use hapax_engine::Error;
use hapax_engine::model::{Failure, OperationId, Payload};

use crate::operations::{failure_of, object_of, payload_of};
use crate::worker::Remote;

/// A request to take a step with an entity.
#[derive(Debug, Clone)]
pub struct RemoteTransition {
    /// Type of the entity.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// The step.
    pub step: String,
    /// Requester of the step.
    pub requester: Option<String>,
    /// Input of the action.
    pub input: Payload,
    /// Its idempotency key.
    pub key: Option<String>,
    /// How long to wait for its action; `None` waits for its end.
    pub wait: Option<Duration>,
}

/// Result of a request to take a step.
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteTransitionOutcome {
    /// The operation, with its state.
    Operation {
        /// The operation.
        id: OperationId,
        /// Its status.
        status: OperationStatus,
        /// Result of its action, if it is done.
        result: Payload,
        /// Why it was rejected or failed.
        failure: Option<Failure>,
        /// True if an earlier request began it.
        recorded: bool,
    },
    /// A validation rejected the step. Nothing was done.
    Rejected(Failure),
    /// Another operation is in progress. Nothing was done.
    ClaimFailed,
    /// The step does not apply. Nothing was done.
    NotAllowed(String),
    /// The key belongs to another operation. Nothing was done.
    KeyConflict,
    /// The step is irreversible and may have happened. Nothing was done.
    OverrideRequired,
}

impl Remote {
    /// Takes a step with an entity.
    pub async fn take_step(&self, asked: RemoteTransition) -> Result<RemoteTransitionOutcome, Error> {
        self.ready().await?;
        let RemoteTransition { kind, id, step, requester, input, key, wait } = asked;
        let input = object_of(&input, "the input of a step")?;
        let asked = TakeStep { requester, input, idempotency_key: key, by: None };
        let taken =
            self.client().take_step((&kind, &id), &step, &asked, wait, RequestOptions::default()).await;
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => return refused(error),
        };
        let operation = taken.operation;
        Ok(RemoteTransitionOutcome::Operation {
            id: operation.id.parse()?,
            status: operation.status,
            result: payload_of(operation.result),
            failure: operation.failure.as_ref().map(failure_of),
            recorded: taken.replayed || !taken.created,
        })
    }
}

fn refused(error: hapax_api::client::ClientError) -> Result<RemoteTransitionOutcome, Error> {
    let Some(problem) = error.problem() else { return Err(Remote::error(error)) };
    let failure = || Failure::permanent(&problem.detail).with_code(problem.code.as_str());
    let operation = || problem.more.get("operationId")?.as_str()?.parse::<OperationId>().ok();
    let ended = |id, status, failure| RemoteTransitionOutcome::Operation {
        id,
        status,
        result: Payload::null(),
        failure: Some(failure),
        recorded: false,
    };
    Ok(match (problem.code, operation()) {
        (Code::ClaimFailed | Code::OperationPending, _) => RemoteTransitionOutcome::ClaimFailed,
        (Code::StepNotAllowed, _) => RemoteTransitionOutcome::NotAllowed(problem.detail.clone()),
        (Code::StepRejected, Some(id)) => ended(id, OperationStatus::Rejected, failure()),
        (Code::StepRejected, None) => RemoteTransitionOutcome::Rejected(failure()),
        (Code::ActionFailed | Code::ActionPanicked, Some(id)) => {
            ended(id, OperationStatus::Failed, failure())
        }
        (Code::OperationInDoubt, Some(id)) => ended(id, OperationStatus::InDoubt, failure()),
        (Code::IdempotencyKeyConflict, _) => RemoteTransitionOutcome::KeyConflict,
        (Code::OverrideRequired, _) => RemoteTransitionOutcome::OverrideRequired,
        _ => return Err(Remote::error(error)),
    })
}
