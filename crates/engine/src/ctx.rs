//! What a workflow's code may do: durable steps, waits, children, choices.
//!
//! Between steps the code must be deterministic: given the same recorded outcomes it asks for the same steps. It
//! awaits nothing but what the context gives it.

mod after_effect;
mod awaited;
mod child;
mod claimed;
mod held;
mod promise;
mod scope;
mod select;
mod signal;
mod sleep;
mod step;
mod tracked;
mod transaction;
mod value;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use awaited::AwaitedPromise;
pub use child::Child;
pub use promise::{OpenPromise, PromiseBuilder};
pub use signal::SignalBuilder;
pub use step::{Attempt, Step};

pub(crate) use scope::{Scope, undo_all};

use crate::hold::Hold;
use crate::model::{EffectClass, Failure, Name, Payload, RunId, StepId, StepState, WorkspaceId};
use crate::runtime::{Activation, Computing};

/// A boxed future of a step.
pub type StepFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// A workflow's access to its run. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    pub(crate) activation: Arc<Activation>,
    pub(crate) scope: Arc<Scope>,
}

impl Ctx {
    pub(crate) fn new(activation: Arc<Activation>, scope: Arc<Scope>) -> Self {
        Ctx { activation, scope }
    }

    /// The id of the run.
    pub fn run_id(&self) -> RunId {
        self.activation.facts.id
    }

    /// The right to send effects of the run, for requests that belong to no attempt: those of a probe, say.
    pub fn hold(&self) -> Hold {
        self.activation.active().hold.clone()
    }

    /// The workspace of the run.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.activation.facts.workspace
    }

    /// Tells the engine that the code is about to wait for a computation that follows from its data alone. Until the guard is dropped the
    /// run is told nothing and does not park, so that a replay goes the same way whatever the computation takes.
    pub fn computing(&self) -> Computing<'_> {
        self.activation.compute()
    }

    /// The name of the workflow.
    pub fn workflow_name(&self) -> &str {
        self.activation.facts.workflow.name.as_str()
    }

    /// The version of the workflow this run is pinned to.
    pub fn workflow_version(&self) -> u32 {
        self.activation.facts.workflow.version
    }

    /// No effect may begin from here on; for replays of a history that is all there is to find out about.
    pub(crate) fn hold_effects(&self) {
        self.activation.desk().is_held = true;
    }

    /// Holds a step to what it and its workflow declare.
    fn check_effect(&self, step: &Name, class: EffectClass, non_idempotent: bool) -> Result<(), Failure> {
        let declared = self.activation.declared.get(step.as_str());
        if let Some(declared) = declared
            && declared.class != class
        {
            let text = format!("step {step} is declared {}, but taken as {class}", declared.class);
            return Err(Failure::permanent(text).with_code("undeclared_effect"));
        }
        let repeats = non_idempotent || declared.is_some_and(|declared| declared.non_idempotent);
        if repeats && class == EffectClass::Idempotent {
            let text = format!(
                "step {step} is not idempotent, and nothing keeps it from happening twice: take it with .claimed(), \
                 in ctx.transaction, or as ctx.after_effect"
            );
            return Err(Failure::permanent(text).with_code("unprotected_effect"));
        }
        Ok(())
    }

    /// Begins again with a new input and an empty history, under the same id and key: `return ctx.continue_as_new(&next);`
    pub fn continue_as_new<I: Serialize + ?Sized, T>(&self, input: &I) -> Result<T, Failure> {
        let input = Payload::of(input).map_err(refused)?;
        self.activation.desk().continue_with = Some(input);
        Err(Failure::permanent("the run continues as new").with_code("continue_as_new"))
    }

    /// Runs futures side by side and gives their outcomes in order.
    pub async fn join_all<F: Future>(&self, futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
        futures_util::future::join_all(futures).await
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("run", &self.run_id()).finish()
    }
}

/// Checks a name the workflow's code gives; a bad one fails the run with a clear text instead of a panic.
fn checked_name(what: &'static str, name: &str) -> Result<Name, Failure> {
    Name::new(what, name).map_err(refused)
}

fn refused(invalid: crate::model::Invalid) -> Failure {
    Failure::permanent(invalid).with_code("invalid")
}

/// The recorded outcome of a step, when its turn has come.
async fn recorded_outcome<T: DeserializeOwned>(
    activation: &Activation,
    step: &StepId,
    state: StepState,
) -> Result<T, Failure> {
    activation.its_turn(step).await;
    recorded_value(activation, step.as_str(), state)
}

/// What is recorded, as the code's own type. If it does not fit, the code is not the one that recorded it.
fn recorded_value<T: DeserializeOwned>(
    activation: &Activation,
    step: &str,
    state: StepState,
) -> Result<T, Failure> {
    match state {
        StepState::Completed { output, .. } => decoded(step, &output).inspect_err(|failure| {
            activation.desk().violation.get_or_insert(failure.message().to_string());
        }),
        StepState::Failed { failure, .. } => Err(failure),
        StepState::Cancelled { .. } | StepState::Skipped { .. } => {
            Err(Failure::permanent(format!("step {step} was given up")).with_code("cancelled"))
        }
        StepState::Pending { .. }
        | StepState::Running
        | StepState::Waiting { .. }
        | StepState::InDoubt { .. } => Err(Failure::unknown(format!("step {step} has no outcome"))),
    }
}

fn decoded<T: DeserializeOwned>(what: &str, value: &Payload) -> Result<T, Failure> {
    value.to().map_err(|error| {
        let text = format!("the recorded value of {what} does not fit the type the code asks for: {error}");
        Failure::permanent(text).with_code("output_mismatch")
    })
}
