//! Telling outsiders what became of runs: an after-effect for each who subscribed, in the commit that tells it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::{
    EffectKey, Ending, Generation, Name, OutboxMessage, OutboxState, Payload, RunFacts, StepId, Timestamp,
};

/// What can be told of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Announced {
    /// It completed.
    RunCompleted,
    /// It failed.
    RunFailed,
    /// It was cancelled.
    RunCancelled,
    /// One of its effects is in doubt: people are asked to rule.
    EffectInDoubt,
}

impl Announced {
    /// All of it.
    pub const ALL: [Announced; 4] =
        [Announced::RunCompleted, Announced::RunFailed, Announced::RunCancelled, Announced::EffectInDoubt];

    /// The name it is subscribed to and told by.
    pub const fn as_str(self) -> &'static str {
        match self {
            Announced::RunCompleted => "run.completed",
            Announced::RunFailed => "run.failed",
            Announced::RunCancelled => "run.cancelled",
            Announced::EffectInDoubt => "effect.in_doubt",
        }
    }

    /// What is spelled so, if anything.
    pub fn from_name(text: &str) -> Option<Self> {
        Announced::ALL.into_iter().find(|what| what.as_str() == text)
    }

    /// What the end of a run announces.
    pub const fn of_ending(ending: Ending) -> Self {
        match ending {
            Ending::Completed => Announced::RunCompleted,
            Ending::Failed => Announced::RunFailed,
            Ending::Cancelled => Announced::RunCancelled,
        }
    }
}

/// Somebody who wants to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// The target of the after-effects that tell them.
    pub target: Name,
    /// What they want to be told.
    pub wants: BTreeSet<Announced>,
}

/// Those who want to be told of the runs of one workspace. Nearly always nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscribers(Option<Arc<[Subscriber]>>);

impl Subscribers {
    /// These.
    pub fn new(subscribers: Vec<Subscriber>) -> Self {
        Subscribers((!subscribers.is_empty()).then(|| subscribers.into()))
    }

    /// Nobody?
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The after-effects that tell of the end of a run.
    pub fn tell_ending(
        &self,
        facts: &RunFacts,
        generation: Generation,
        ending: Ending,
        at: Timestamp,
    ) -> Vec<OutboxMessage> {
        self.tell(facts, generation, Announced::of_ending(ending), None, at)
    }

    /// The after-effects that tell of a doubt about a step.
    pub fn tell_doubt(
        &self,
        facts: &RunFacts,
        generation: Generation,
        step: &StepId,
        attempt: u32,
        at: Timestamp,
    ) -> Vec<OutboxMessage> {
        self.tell(facts, generation, Announced::EffectInDoubt, Some((step, attempt)), at)
    }

    fn tell(
        &self,
        facts: &RunFacts,
        generation: Generation,
        what: Announced,
        step: Option<(&StepId, u32)>,
        at: Timestamp,
    ) -> Vec<OutboxMessage> {
        let interested = self.0.iter().flat_map(|all| all.iter()).filter(|one| one.wants.contains(&what));
        let post = |subscriber: &Subscriber| {
            let mut data = json!({
                "runId": facts.id.to_string(),
                "workflow": facts.workflow.name.as_str(),
                "version": facts.workflow.version,
                "idempotencyKey": facts.key.as_ref().map(|key| key.as_str()),
                "subject": facts.subject.as_ref().map(|subject| subject.as_str()),
            });
            if let Some((step, attempt)) = step {
                data["step"] = json!(step.as_str());
                data["attempt"] = json!(attempt);
            }
            let told = json!({ "type": what.as_str(), "timestamp": at.to_string(), "data": data });
            OutboxMessage {
                workspace: facts.workspace.clone(),
                id: EffectKey::of_announcement(facts.id, generation, what, step, at, &subscriber.target),
                run: facts.id,
                target: subscriber.target.clone(),
                payload: Payload::of(&told).expect("names and keys are printable and bounded"),
                created_at: at,
                attempts: 0,
                failure: None,
                state: OutboxState::Due { at },
            }
        };
        interested.map(post).collect()
    }
}
