//! Entity workflows as documents: the statuses of a business object, and the steps between them.
//!
//! Only [`check_entity`] creates documents, so every existing document has been checked. Serialised as JSON, it is the
//! document again, without default values.

mod call;
mod check;
mod draw;
mod entity_json;

use std::collections::BTreeSet;

use hapax_engine::model::{Action, EntityWorkflow, Name, PerRequester};

pub use call::{Ended, EntityCall, PlannedAfterEffect, Rejection};
pub use check::{CheckedEntity, check_entity, check_entity_bytes, is_entity};
pub use draw::{draw_mermaid, draw_svg};

use crate::expression::Expression;
use crate::model::{Probe, Request};
use crate::span::Span;
use crate::template::Template;

/// Name of HTTP actions in the model.
pub const HTTP_ACTION: &str = "http";
/// Target of after-effects that send requests; the host of documents registers it.
pub const HTTP_TARGET: &str = "hapax.entity-http";
/// Target of after-effects that start runs; the host of documents registers it.
pub const WORKFLOW_TARGET: &str = "hapax.entity-workflow";

/// Variables that all expressions of an entity workflow see.
pub(crate) const VARIABLES: &[&str] = &["entity", "input", "requester", "operation"];
/// Additional variables of mappings of a response.
pub(crate) const OF_ANSWER: &[&str] = &["result", "response"];
/// Additional variables of after-effects.
pub(crate) const AFTER_SUCCESS: &[&str] = &["status", "result"];
/// Additional variables of after-effects of failures.
pub(crate) const AFTER_FAILURE: &[&str] = &["status", "failure"];

/// An entity workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityDocument {
    pub(crate) workflow: EntityWorkflow,
    pub(crate) description: Option<String>,
    /// One entry per step of the workflow.
    pub(crate) details: Vec<StepDetails>,
}

/// Fields of a step that the model does not have.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StepDetails {
    pub(crate) validation: Option<PerRequester<Vec<Validation>>>,
    pub(crate) action: Option<PerRequester<StepAction>>,
    pub(crate) probe: Option<PerRequester<Probe>>,
    pub(crate) success_after_effect: Option<PerRequester<AfterEffect>>,
    pub(crate) failure_after_effect: Option<PerRequester<AfterEffect>>,
}

/// A condition that must hold before a step is claimed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Validation {
    pub(crate) when: Expression,
    pub(crate) message: Template,
    pub(crate) code: Option<String>,
}

/// Action of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StepAction {
    Handler { name: Name, transaction: bool },
    Workflow(RunOf),
    Http(Box<ActionRequest>),
}

/// A run that carries out a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunOf {
    pub(crate) workflow: Name,
    pub(crate) input: Option<Template>,
}

/// A request that carries out a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ActionRequest {
    pub(crate) request: Request,
    pub(crate) timeout: Option<Span>,
    /// The result; the body if absent.
    pub(crate) output: Option<Template>,
    /// Fields to merge into the entity's data.
    pub(crate) data: Option<Template>,
}

/// After-effect, delivered once a step has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AfterEffect {
    Target(Name),
    Workflow(RunOf),
    Http(Box<AfterRequest>),
}

/// A request that is an after-effect.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AfterRequest {
    pub(crate) request: Request,
    pub(crate) timeout: Option<Span>,
}

impl EntityDocument {
    /// The workflow in the engine's model.
    pub fn workflow(&self) -> &EntityWorkflow {
        &self.workflow
    }

    /// Description for people.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The handlers that its actions name.
    pub fn handlers(&self) -> BTreeSet<&Name> {
        let actions = self.workflow.steps.iter().filter_map(|step| step.action.as_ref());
        let actions = actions.flat_map(PerRequester::iter).map(|(_, action)| action);
        actions
            .filter_map(|action| match action {
                Action::Handler { name, .. } => Some(name),
                Action::Workflow(_) | Action::Hosted(_) => None,
            })
            .collect()
    }

    /// The step workflows that its actions and after-effects start.
    pub fn started_workflows(&self) -> BTreeSet<&Name> {
        let of_actions = self.details.iter().filter_map(|step| step.action.as_ref());
        let of_actions = of_actions.flat_map(PerRequester::iter).filter_map(|(_, action)| match action {
            StepAction::Workflow(run) => Some(&run.workflow),
            StepAction::Handler { .. } | StepAction::Http(_) => None,
        });
        let after = self.after_effects().filter_map(|after| match after {
            AfterEffect::Workflow(run) => Some(&run.workflow),
            AfterEffect::Target(_) | AfterEffect::Http(_) => None,
        });
        of_actions.chain(after).collect()
    }

    /// The targets that its after-effects name, except requests and runs.
    pub fn targets(&self) -> BTreeSet<&Name> {
        let targets = self.after_effects().filter_map(|after| match after {
            AfterEffect::Target(name) => Some(name),
            AfterEffect::Workflow(_) | AfterEffect::Http(_) => None,
        });
        targets.collect()
    }

    fn after_effects(&self) -> impl Iterator<Item = &AfterEffect> {
        let fields =
            self.details.iter().flat_map(|step| [&step.success_after_effect, &step.failure_after_effect]);
        fields.flatten().flat_map(PerRequester::iter).map(|(_, after)| after)
    }

    fn find_details(&self, step: &str) -> Option<&StepDetails> {
        let place = self.workflow.steps.iter().position(|known| known.key.as_str() == step)?;
        self.details.get(place)
    }
}
