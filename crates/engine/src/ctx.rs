//! The context of a workflow: durable steps, waits, child runs and concurrency.
//!
//! Between steps, workflow code must be deterministic: given the same recorded outcomes, it requests the same
//! steps. It awaits only futures of its context.

mod after_effect;
mod await_promise;
mod branches;
mod child;
mod claimed;
mod effect_tracker;
mod promise;
mod remote;
mod scope;
mod select;
mod signal;
mod sleep;
mod step;
mod transaction;
mod value;
mod while_held;
mod worker;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use await_promise::PromiseWait;
pub use branches::{Branch, Branches};
pub use child::Child;
pub use promise::{OpenPromise, PromiseBuilder};
pub use remote::{DropReason, RecordedStep, ReturnHandle};
pub use signal::SignalBuilder;
pub use step::{Attempt, Step};

pub(crate) use scope::{Scope, Undo, undo_all};
pub(crate) use worker::{attempt_of, caught};

use crate::hold::Hold;
use crate::model::{
    EffectClass, Failure, Name, Payload, RunId, StepId, StepState, Timestamp, WorkflowRef, WorkspaceId,
};
use crate::remote::WorkerCtx;
use crate::runtime::{Activation, ComputationGuard};

/// Boxed future of a step.
pub type StepFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Context of a workflow: gives its code access to steps, waits and child runs. Clones are cheap.
#[derive(Clone)]
pub struct Ctx {
    home: Home,
}

/// Where the records of the run are, and the rules.
#[derive(Clone)]
enum Home {
    /// In the engine of this process.
    Engine(EngineCtx),
    /// On a server. This process runs the code and makes the attempts.
    Server(WorkerCtx),
}

/// Context of code that the engine of this process drives.
#[derive(Clone)]
struct EngineCtx {
    activation: Arc<Activation>,
    scope: Arc<Scope>,
}

impl Ctx {
    pub(crate) fn new(activation: Arc<Activation>, scope: Arc<Scope>) -> Self {
        Ctx { home: Home::Engine(EngineCtx { activation, scope }) }
    }

    pub(crate) fn in_worker(worker: WorkerCtx) -> Self {
        Ctx { home: Home::Server(worker) }
    }

    /// Id of the run.
    pub fn run_id(&self) -> RunId {
        match &self.home {
            Home::Engine(engine) => engine.activation.facts.id,
            Home::Server(worker) => worker.machine.facts.run,
        }
    }

    /// Right to send effects of the run, for requests outside an attempt, such as a probe.
    pub fn hold(&self) -> Hold {
        match &self.home {
            Home::Engine(engine) => engine.activation.slot().hold.clone(),
            Home::Server(worker) => worker.machine.hold.clone(),
        }
    }

    /// Workspace of the run.
    pub fn workspace(&self) -> &WorkspaceId {
        match &self.home {
            Home::Engine(engine) => &engine.activation.facts.workspace,
            Home::Server(worker) => &worker.machine.facts.workspace,
        }
    }

    /// Announces a computation that depends only on the run's own data.
    ///
    /// Until the guard is dropped, the run receives no outcome and does not park. A replay therefore takes
    /// the same path, however long the computation takes.
    pub fn begin_computation(&self) -> ComputationGuard<'_> {
        match &self.home {
            Home::Engine(engine) => engine.activation.begin_computation(),
            // The server gives nothing to code that has not said how far it went.
            Home::Server(_) => ComputationGuard::of_nothing(),
        }
    }

    /// Fence of the lease that the run is driven under.
    pub fn fence(&self) -> u64 {
        match &self.home {
            Home::Engine(engine) => engine.activation.slot().fence.get(),
            Home::Server(worker) => worker.machine.facts.fence.get(),
        }
    }

    /// Time of the store, not recorded; in a program that is remote, the time of this machine. Code of a workflow uses
    /// [`Ctx::now`].
    pub fn current_time(&self) -> Timestamp {
        match &self.home {
            Home::Engine(engine) => engine.activation.now(),
            Home::Server(worker) => worker.machine.clock.now(),
        }
    }

    /// Name of the workflow.
    pub fn workflow_name(&self) -> &str {
        self.workflow().name.as_str()
    }

    /// Version of the workflow that this run is pinned to.
    pub fn workflow_version(&self) -> u32 {
        self.workflow().version
    }

    fn workflow(&self) -> &WorkflowRef {
        match &self.home {
            Home::Engine(engine) => &engine.activation.facts.workflow,
            Home::Server(worker) => &worker.machine.facts.workflow,
        }
    }

    /// Blocks all further effects. For replays that only check a recorded history.
    pub(crate) fn hold_effects(&self) {
        if let Home::Engine(engine) = &self.home {
            engine.activation.replay().effects_blocked = true;
        }
    }

    /// Checks the effect class of a step against the declarations of the step and its workflow.
    fn check_effect(&self, step: &Name, class: EffectClass, non_idempotent: bool) -> Result<(), Failure> {
        let declared = match &self.home {
            Home::Engine(engine) => engine.activation.declared.get(step.as_str()),
            Home::Server(worker) => worker.machine.facts.declared.get(step.as_str()),
        };
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

    /// Continues as new: restarts the run with a new input and an empty history, under the same id and key.
    ///
    /// Return its result: `return ctx.continue_as_new(&next);`
    pub fn continue_as_new<I: Serialize + ?Sized, T>(&self, input: &I) -> Result<T, Failure> {
        let input = Payload::of(input).map_err(invalid_failure)?;
        match &self.home {
            Home::Engine(engine) => engine.activation.replay().continue_with = Some(input),
            Home::Server(worker) => worker.continue_as_new(input),
        }
        Err(Failure::permanent("the run continues as new").with_code("continue_as_new"))
    }

    /// Runs steps, child runs or other futures concurrently and returns their outcomes in order.
    ///
    /// ```
    /// # use hapax_engine::{Ctx, Failure};
    /// # async fn count_words(page: &str) -> Result<usize, Failure> { Ok(page.split(' ').count()) }
    /// # async fn count(ctx: Ctx, pages: Vec<String>) -> Result<usize, Failure> {
    /// let steps = pages.iter().map(|page| ctx.step("count", move |_| count_words(page)));
    /// let counts = ctx.join_all(steps).await;
    /// # counts.into_iter().sum()
    /// # }
    /// ```
    pub async fn join_all<F: IntoFuture>(&self, futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
        futures_util::future::join_all(futures.into_iter().map(IntoFuture::into_future)).await
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("run", &self.run_id()).finish()
    }
}

/// Validates a name from workflow code. An invalid name fails the run with a clear message instead of a
/// panic.
fn checked_name(what: &'static str, name: &str) -> Result<Name, Failure> {
    Name::new(what, name).map_err(invalid_failure)
}

fn invalid_failure(invalid: crate::model::Invalid) -> Failure {
    Failure::permanent(invalid).with_code("invalid")
}

/// Returns the recorded outcome of a step when its turn has come.
async fn recorded_outcome<T: DeserializeOwned>(
    activation: &Activation,
    step: &StepId,
    state: StepState,
) -> Result<T, Failure> {
    activation.wait_for_turn(step).await;
    recorded_value(activation, step.as_str(), state)
}

/// Returns the recorded value in the type that the code requests. If it does not fit, other code recorded it.
fn recorded_value<T: DeserializeOwned>(
    activation: &Activation,
    step: &str,
    state: StepState,
) -> Result<T, Failure> {
    match state {
        StepState::Completed { output, .. } => decoded(step, &output).inspect_err(|failure| {
            activation.replay().violation.get_or_insert(failure.message().to_string());
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

pub(crate) fn decoded<T: DeserializeOwned>(what: &str, value: &Payload) -> Result<T, Failure> {
    value.to().map_err(|error| {
        let text = format!("the recorded value of {what} does not fit the type the code asks for: {error}");
        Failure::permanent(text).with_code("output_mismatch")
    })
}
