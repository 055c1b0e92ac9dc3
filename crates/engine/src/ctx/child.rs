//! Child runs.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Ctx, Home, StepFuture, checked_name, decoded, invalid_failure, recorded_outcome};
use crate::model::{
    ClosePolicy, Failure, Invalid, KeyRetention, NewRun, Parent, Payload, RunFacts, RunId, RunResult,
    StepKind, StepState, StepTransition, WorkflowSelector,
};
use crate::remote::{OperationBody, OperationRequest, RecordKind};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::{ReplayState, StepLookup};

/// Builder for a child run. Await it to start the child and get its output.
#[must_use = "a child does nothing until it is awaited"]
pub struct Child<'a, T> {
    ctx: &'a Ctx,
    workflow: String,
    step: Option<String>,
    input: Result<Payload, Invalid>,
    on_close: ClosePolicy,
    output: PhantomData<fn() -> T>,
}

impl Ctx {
    /// Starts a child run of another workflow, once, and waits for its output: `order` is its latest version,
    /// `order@2` version 2. If the child fails, the wait fails.
    pub fn child<I: Serialize + ?Sized, T: DeserializeOwned + Send>(
        &self,
        workflow: &str,
        input: &I,
    ) -> Child<'_, T> {
        let input = Payload::of(input);
        Child {
            ctx: self,
            workflow: workflow.to_string(),
            step: None,
            input,
            on_close: ClosePolicy::Cancel,
            output: PhantomData,
        }
    }
}

impl<T> Child<'_, T> {
    /// Sets the name of the step; the default is the name of the workflow.
    pub fn recorded_as(mut self, step: &str) -> Self {
        self.step = Some(step.to_string());
        self
    }

    /// Sets what happens to the child if this run ends first; by default the child is cancelled.
    pub fn on_close(mut self, policy: ClosePolicy) -> Self {
        self.on_close = policy;
        self
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for Child<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let selector: WorkflowSelector = self.workflow.parse().map_err(invalid_failure)?;
            let step = match &self.step {
                Some(step) => checked_name("step name", step)?,
                None => selector.name.clone(),
            };
            let activation = match &self.ctx.home {
                Home::Engine(engine) => &*engine.activation,
                Home::Server(worker) => {
                    let what = OperationBody::Child {
                        workflow: self.workflow,
                        input: self.input.map_err(invalid_failure)?,
                        recorded_as: self.step,
                        on_close: self.on_close,
                    };
                    return worker.ask(OperationRequest::wait(RecordKind::Child, step, what)).value().await;
                }
            };
            let id = activation.next_id(&step);
            let now = activation.now();
            let change = |transition, state, began, child| PendingChange::Step {
                id: id.clone(),
                kind: StepKind::Child,
                transition,
                state,
                attempts: 1,
                started_at: began,
                child,
            };
            let (child, began) = match activation.look_up_step(&id, StepKind::Child) {
                StepLookup::Done(record) => return recorded_outcome(activation, &id, record.state).await,
                StepLookup::Cancelled => return activation.wait_as_cancelled().await,
                StepLookup::Open(record) => match record.child {
                    Some(child) => (child, record.started_at),
                    None => return Err(Failure::permanent(format!("the record of {id} names no child"))),
                },
                StepLookup::NotRecorded => {
                    let workflow = activation
                        .engine
                        .registry
                        .select(&activation.facts.workspace, &selector)
                        .map_err(|error| Failure::permanent(error).with_code("unknown_workflow"))?;
                    let child = RunId::new(now);
                    let parent = activation.facts.as_parent(id.clone(), self.on_close);
                    let facts = RunFacts {
                        workspace: activation.facts.workspace.clone(),
                        id: child,
                        workflow: workflow.reference.clone(),
                        key: None,
                        fingerprint: None,
                        retention: KeyRetention::default(),
                        subject: None,
                        priority: activation.facts.priority,
                        deadline_at: activation.facts.deadline_at,
                        parent: Some(parent),
                        created_at: now,
                    };
                    let input = self.input.map_err(invalid_failure)?;
                    let options = &activation.engine.options;
                    let rate_limit = |()| {
                        let rate_limit = &activation.engine.child_rate;
                        rate_limit.next(&facts.workspace, now, options.children_per_second)
                    };
                    let checked = workflow
                        .check_input(&input)
                        .map_err(|error| Failure::permanent(error).with_code("input_invalid"))
                        .and_then(|()| check_depth(facts.parent.as_ref(), options.max_child_depth));
                    match checked.and_then(rate_limit) {
                        Ok(due_at) => {
                            let new = NewRun { facts: Arc::new(facts), input, due_at, grant: None };
                            let started = PendingChange::StartChild(Box::new(new), options.max_descendants);
                            let until = StepState::Waiting { until: None };
                            let waits = change(StepTransition::Await, until, now, Some(child));
                            activation.queue([started, waits]);
                            due_at.into_iter().for_each(|at| activation.engine.wake_scheduler_by(at));
                        }
                        Err(failure) => drop(activation.replay().refused_children.insert(child, failure)),
                    }
                    (child, now)
                }
            };
            let look = move |replay: &mut ReplayState, _| replay.child_result(child);
            let result = activation.wait_for(id.clone(), None, look).await;
            let at = activation.now();
            match result {
                Err(failure) => {
                    let state = StepState::Failed { at, failure: failure.clone() };
                    activation.queue([change(StepTransition::Fail, state, began, None)]);
                    Err(failure)
                }
                Ok(RunResult::Completed(output)) => {
                    let state = StepState::Completed { at, output: output.clone() };
                    activation.queue([change(StepTransition::Complete, state, began, Some(child))]);
                    decoded(id.as_str(), &output)
                }
                Ok(RunResult::Failed(failure) | RunResult::Cancelled(failure)) => {
                    let state = StepState::Failed { at, failure: failure.clone() };
                    activation.queue([change(StepTransition::Fail, state, began, Some(child))]);
                    Err(failure)
                }
            }
        })
    }
}

/// Refuses a child that is too deep below its root.
fn check_depth(parent: Option<&Parent>, most: u32) -> Result<(), Failure> {
    let Some(Parent { depth, root, .. }) = parent.filter(|parent| parent.depth > most) else { return Ok(()) };
    let text = format!(
        "the child would be {depth} runs below run {root}, and {most} is the limit. Does the workflow start itself without end? If it is \
         meant to be that deep, raise `max-child-depth`"
    );
    Err(Failure::permanent(text).with_code("child_too_deep"))
}
