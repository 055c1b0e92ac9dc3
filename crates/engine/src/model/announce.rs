//! Announcements: outbox messages to subscribers about the end of a run or a doubt, written in the same
//! commit as the event.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::{
    EffectKey, Ending, Generation, Name, OutboxMessage, OutboxState, Payload, RunFacts, StepId, Timestamp,
};

/// Kind of event that subscribers can receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnnouncementKind {
    /// The run completed.
    RunCompleted,
    /// The run failed.
    RunFailed,
    /// The run was cancelled.
    RunCancelled,
    /// An effect of the run is in doubt and needs a ruling.
    EffectInDoubt,
}

impl AnnouncementKind {
    /// Every kind.
    pub const ALL: [AnnouncementKind; 4] = [
        AnnouncementKind::RunCompleted,
        AnnouncementKind::RunFailed,
        AnnouncementKind::RunCancelled,
        AnnouncementKind::EffectInDoubt,
    ];

    /// Event type as it appears in subscriptions and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            AnnouncementKind::RunCompleted => "run.completed",
            AnnouncementKind::RunFailed => "run.failed",
            AnnouncementKind::RunCancelled => "run.cancelled",
            AnnouncementKind::EffectInDoubt => "effect.in_doubt",
        }
    }

    /// The kind with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        AnnouncementKind::ALL.into_iter().find(|what| what.as_str() == text)
    }

    /// The kind that announces this ending.
    pub const fn from_ending(ending: Ending) -> Self {
        match ending {
            Ending::Completed => AnnouncementKind::RunCompleted,
            Ending::Failed => AnnouncementKind::RunFailed,
            Ending::Cancelled => AnnouncementKind::RunCancelled,
        }
    }
}

/// A subscriber to events of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// Outbox target of the messages to this subscriber.
    pub target: Name,
    /// The kinds of event it receives.
    pub wants: BTreeSet<AnnouncementKind>,
}

/// The subscribers of one workspace. Usually there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscribers(Option<Arc<[Subscriber]>>);

impl Subscribers {
    /// Creates the list.
    pub fn new(subscribers: Vec<Subscriber>) -> Self {
        Subscribers((!subscribers.is_empty()).then(|| subscribers.into()))
    }

    /// Returns true if there are no subscribers.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Messages that announce the end of a run.
    pub fn announce_ending_of(
        &self,
        facts: &RunFacts,
        generation: Generation,
        ending: Ending,
        at: Timestamp,
    ) -> Vec<OutboxMessage> {
        self.tell(facts, generation, AnnouncementKind::from_ending(ending), None, at)
    }

    /// Messages that announce a doubt about a step.
    pub fn announce_doubt(
        &self,
        facts: &RunFacts,
        generation: Generation,
        step: &StepId,
        attempt: u32,
        at: Timestamp,
    ) -> Vec<OutboxMessage> {
        self.tell(facts, generation, AnnouncementKind::EffectInDoubt, Some((step, attempt)), at)
    }

    fn tell(
        &self,
        facts: &RunFacts,
        generation: Generation,
        what: AnnouncementKind,
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
                id: EffectKey::for_announcement(facts.id, generation, what, step, at, &subscriber.target),
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
