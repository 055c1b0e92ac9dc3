//! Child runs.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Ctx, StepFuture, checked_name, decoded, recorded_outcome, refused};
use crate::model::{
    ClosePolicy, Failure, Invalid, KeyRetention, NewRun, Parent, Payload, RunFacts, RunId, RunResult,
    StepKind, StepState, StepTransition, WorkflowSelector,
};
use crate::runtime::change::Change;
use crate::runtime::replay_state::{Entered, ReplayState};

/// A child run about to be started; await it for its output.
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
    /// Starts a run of another workflow, once, and waits for its output: `order` is its newest version, `order@2` version 2. A child that
    /// fails fails the wait.
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
    /// Record it as a step of this name; it has the workflow's unless said otherwise.
    pub fn recorded_as(mut self, step: &str) -> Self {
        self.step = Some(step.to_string());
        self
    }

    /// What becomes of the child if this run ends first; it is cancelled unless said otherwise.
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
            let activation = &*self.ctx.activation;
            let selector: WorkflowSelector = self.workflow.parse().map_err(refused)?;
            let step = match &self.step {
                Some(step) => checked_name("step name", step)?,
                None => selector.name.clone(),
            };
            let id = activation.next_id(&step);
            let now = activation.now();
            let change = |transition, state, began, child| Change::Step {
                id: id.clone(),
                kind: StepKind::Child,
                transition,
                state,
                attempts: 1,
                started_at: began,
                child,
            };
            let (child, began) = match activation.enter(&id, StepKind::Child) {
                Entered::Done(record) => return recorded_outcome(activation, &id, record.state).await,
                Entered::GivenUp => return activation.stay_given_up().await,
                Entered::Open(record) => match record.child {
                    Some(child) => (child, record.started_at),
                    None => return Err(Failure::permanent(format!("the record of {id} names no child"))),
                },
                Entered::Fresh => {
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
                    let input = self.input.map_err(refused)?;
                    let options = &activation.engine.options;
                    let pace = |()| {
                        let pace = &activation.engine.child_pace;
                        pace.next(&facts.workspace, now, options.children_per_second)
                    };
                    match check_depth(facts.parent.as_ref(), options.max_child_depth).and_then(pace) {
                        Ok(due_at) => {
                            let new = NewRun { facts: Arc::new(facts), input, due_at, grant: None };
                            let started = Change::StartChild(Box::new(new), options.max_descendants);
                            let until = StepState::Waiting { until: None };
                            let waits = change(StepTransition::Await, until, now, Some(child));
                            activation.queue([started, waits]);
                            due_at.into_iter().for_each(|at| activation.engine.look_by(at));
                        }
                        Err(failure) => drop(activation.desk().refused_children.insert(child, failure)),
                    }
                    (child, now)
                }
            };
            let look = move |desk: &mut ReplayState, _| desk.child_result(child);
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

/// Refuses a run that is too deep in its family.
fn check_depth(parent: Option<&Parent>, most: u32) -> Result<(), Failure> {
    let Some(Parent { depth, root, .. }) = parent.filter(|parent| parent.depth > most) else { return Ok(()) };
    let text = format!(
        "the child would be {depth} runs below run {root}, and {most} is the limit. Does the workflow start itself without end? If it is \
         meant to be that deep, raise `max-child-depth`"
    );
    Err(Failure::permanent(text).with_code("child_too_deep"))
}
