//! Takes steps with entities.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use hapax_engine::Error;
use hapax_engine::model::{Failure, Invalid, OperationId, OperationState, Payload};
use hapax_engine::runtime::TransitionOutcome;
use serde::Serialize;

use crate::Hapax;
use crate::backend::Backend;

/// Builder for taking a step with an entity. Await it to take the step.
#[must_use = "nothing happens until it is awaited"]
#[derive(Debug)]
pub struct TakeStep {
    hapax: Hapax,
    kind: String,
    entity: String,
    step: String,
    requester: Option<String>,
    input: Result<Payload, Invalid>,
    key: Option<String>,
    wait: Option<Duration>,
}

/// Result of a request to take a step.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum StepOutcome {
    /// The step is done.
    Done {
        /// The operation.
        operation: OperationId,
        /// Result of the action.
        result: Payload,
        /// True if this is the recorded result of an earlier request.
        recorded: bool,
    },
    /// A validation (without an operation) or the action rejected the step. The entity is unchanged.
    Rejected {
        /// The operation, if there is one.
        operation: Option<OperationId>,
        /// Reason.
        failure: Failure,
        /// True if this is the recorded result of an earlier request.
        recorded: bool,
    },
    /// The action failed, or its claim was given back. The entity is unchanged.
    Failed {
        /// The operation.
        operation: OperationId,
        /// Reason.
        failure: Failure,
        /// True if this is the recorded result of an earlier request.
        recorded: bool,
    },
    /// Another operation is in progress. Nothing was done.
    ClaimFailed,
    /// The step does not apply to the entity's status, or not to the requester. Nothing was done.
    NotAllowed {
        /// Reason.
        reason: String,
    },
    /// The outcome is unknown and needs a ruling.
    InDoubt {
        /// The operation.
        operation: OperationId,
    },
    /// The action is still running, and the caller's wait is over.
    Pending {
        /// The operation.
        operation: OperationId,
        /// True if an earlier request began the operation.
        recorded: bool,
    },
    /// The key belongs to another operation. Nothing was done.
    KeyConflict,
    /// The step is irreversible and may already have happened. A manager must override it. Nothing was done.
    OverrideRequired,
}

impl TakeStep {
    pub(crate) fn new(hapax: Hapax, kind: &str, entity: &str, step: &str) -> Self {
        TakeStep {
            hapax,
            kind: kind.to_owned(),
            entity: entity.to_owned(),
            step: step.to_owned(),
            requester: None,
            input: Ok(Payload::null()),
            key: None,
            wait: None,
        }
    }

    /// Sets the requester. Fields of the step may differ by requester.
    pub fn requester(mut self, requester: impl Into<String>) -> Self {
        self.requester = Some(requester.into());
        self
    }

    /// Sets the input of the action. On a server it is a JSON object.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.input = Payload::of(input);
        self
    }

    /// Sets the idempotency key: a second request with this key and the same input returns the recorded result.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Limits how long to wait for the action, which continues in any case.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    async fn run(self) -> Result<StepOutcome, Error> {
        let TakeStep { hapax, kind, entity, step, requester, input, key, wait } = self;
        match &hapax.backend {
            Backend::Engine(engine) => {
                let mut transition = engine.transition(&kind, &entity, &step).input_payload(input?);
                if let Some(requester) = requester {
                    transition = transition.requester(requester);
                }
                if let Some(key) = key {
                    transition = transition.idempotency_key(key);
                }
                if let Some(wait) = wait {
                    transition = transition.wait(wait);
                }
                Ok(transition.await?.into())
            }
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                let asked = hapax_remote::RemoteTransition {
                    kind,
                    id: entity,
                    step,
                    requester,
                    input: input?,
                    key,
                    wait,
                };
                Ok(remote.take_step(asked).await?.into())
            }
        }
    }
}

impl IntoFuture for TakeStep {
    type Output = Result<StepOutcome, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl From<TransitionOutcome> for StepOutcome {
    fn from(outcome: TransitionOutcome) -> Self {
        match outcome {
            TransitionOutcome::Done { operation, recorded, .. } => {
                let result = match &operation.state {
                    OperationState::Done { result, .. } => result.clone(),
                    _ => Payload::null(),
                };
                StepOutcome::Done { operation: operation.id, result, recorded }
            }
            TransitionOutcome::Rejected { operation, failure, recorded } => {
                StepOutcome::Rejected { operation: operation.map(|known| known.id), failure, recorded }
            }
            TransitionOutcome::Failed { operation, failure, recorded } => {
                StepOutcome::Failed { operation: operation.id, failure, recorded }
            }
            TransitionOutcome::ClaimFailed { .. } => StepOutcome::ClaimFailed,
            TransitionOutcome::NotAllowed { reason, .. } => StepOutcome::NotAllowed { reason },
            TransitionOutcome::InDoubt { operation } => StepOutcome::InDoubt { operation: operation.id },
            TransitionOutcome::Pending { operation, recorded } => {
                StepOutcome::Pending { operation: operation.id, recorded }
            }
            TransitionOutcome::KeyConflict { .. } => StepOutcome::KeyConflict,
            TransitionOutcome::OverrideRequired { .. } => StepOutcome::OverrideRequired,
        }
    }
}

#[cfg(feature = "remote")]
impl From<hapax_remote::RemoteTransitionOutcome> for StepOutcome {
    fn from(outcome: hapax_remote::RemoteTransitionOutcome) -> Self {
        use hapax_api::OperationStatus;
        use hapax_remote::RemoteTransitionOutcome as Outcome;
        match outcome {
            Outcome::Operation { id, status, result, failure, recorded } => {
                let reverted = || Failure::unknown("its claim was given back").with_code("reverted");
                match status {
                    OperationStatus::Done => StepOutcome::Done { operation: id, result, recorded },
                    OperationStatus::Pending => StepOutcome::Pending { operation: id, recorded },
                    OperationStatus::InDoubt => StepOutcome::InDoubt { operation: id },
                    OperationStatus::Rejected => StepOutcome::Rejected {
                        operation: Some(id),
                        failure: failure.unwrap_or_else(reverted),
                        recorded,
                    },
                    OperationStatus::Failed | OperationStatus::Reverted => {
                        let failure = failure.unwrap_or_else(reverted);
                        StepOutcome::Failed { operation: id, failure, recorded }
                    }
                }
            }
            Outcome::Rejected(failure) => StepOutcome::Rejected { operation: None, failure, recorded: false },
            Outcome::ClaimFailed => StepOutcome::ClaimFailed,
            Outcome::NotAllowed(reason) => StepOutcome::NotAllowed { reason },
            Outcome::KeyConflict => StepOutcome::KeyConflict,
            Outcome::OverrideRequired => StepOutcome::OverrideRequired,
        }
    }
}
