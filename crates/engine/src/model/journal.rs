//! The journal: attempts, findings and decisions that step records do not show. Entries are never changed.

use serde::{Deserialize, Serialize};

use super::{
    Actor, Evidence, Failure, Fence, Generation, Occurrence, OwnerId, Promise, Resolution, RunHead, RunId,
    StepId, Timestamp, WorkspaceId,
};

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The run it is about. [`RunId::NONE`] if it is about configuration.
    pub run: RunId,
    /// Generation of the run.
    pub generation: Generation,
    /// The step it is about, if any.
    pub step: Option<StepId>,
    /// When it was written.
    pub at: Timestamp,
    /// Fence of the writer.
    pub fence: Fence,
    /// The engine that acted, if one did.
    pub owner: Option<OwnerId>,
    /// The person who acted, if one did. These entries form the audit log and outlive the run.
    pub by: Option<Actor>,
    /// The event.
    pub what: JournalEvent,
    /// What it shows about one attempt at an effect, if anything. Counts of repeated effects are computed
    /// from this.
    pub evidence: Option<Evidence>,
}

impl JournalEntry {
    /// An entry of a person about the workspace as a whole.
    pub fn on_workspace(workspace: WorkspaceId, by: Actor, at: Timestamp, what: JournalEvent) -> Self {
        JournalEntry {
            workspace,
            run: RunId::NONE,
            generation: Generation::default(),
            step: None,
            at,
            fence: Fence::default(),
            owner: None,
            by: Some(by),
            what,
            evidence: None,
        }
    }

    /// An entry of a person about a run, or one of its steps.
    pub fn on_run(
        head: &RunHead,
        step: Option<StepId>,
        by: Actor,
        at: Timestamp,
        what: JournalEvent,
    ) -> Self {
        JournalEntry {
            run: head.id(),
            generation: head.generation,
            step,
            fence: head.fence,
            ..JournalEntry::on_workspace(head.facts.workspace.clone(), by, at, what)
        }
    }

    /// Sets the promise that was settled. Only the store knows it if the request named the promise by key.
    #[must_use]
    pub fn about_promise(mut self, settled: &Promise) -> Self {
        if let JournalEvent::Settled { promise, .. } = &mut self.what {
            *promise = Some(settled.id.to_string());
            self.run = settled.run;
        }
        self
    }

    /// Returns true if it says that a retry of the run deleted the record of a step.
    pub fn is_superseded_record(&self) -> bool {
        matches!(self.what, JournalEvent::Superseded { .. })
    }
}

/// Event of a journal entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum JournalEvent {
    /// An attempt at a claimed effect is about to start.
    Claimed {
        /// Number of the attempt.
        attempt: u32,
    },
    /// An attempt failed, and another will follow.
    Failed {
        /// Number of the attempt.
        attempt: u32,
        /// The failure.
        failure: Failure,
    },
    /// The outcome of an attempt is unknown.
    Doubted {
        /// Number of the attempt.
        attempt: u32,
        /// The failure.
        failure: Failure,
    },
    /// Something became known about an attempt that no other entry shows.
    Attempted {
        /// Number of the attempt.
        attempt: u32,
        /// The new knowledge.
        occurrence: Occurrence,
    },
    /// A retry of the run deleted the record of a step, which runs again. The count of attempts continues
    /// from here.
    Superseded {
        /// Last attempt of the deleted record.
        attempt: u32,
        /// Outcome according to the deleted record.
        occurrence: Occurrence,
    },
    /// A person allowed a retry of the run to repeat an effect that has happened.
    RepeatAllowed {
        /// The attempt that happened.
        attempt: u32,
        /// The second person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconded_by: Option<Actor>,
        /// The reason.
        reason: String,
    },
    /// A probe asked the provider.
    Probed {
        /// Answer: `happened`, `did_not_happen` or `unknown`.
        answer: String,
    },
    /// An outcome was refused because its writer no longer held the run. It still counts as evidence about
    /// the attempt.
    Refused {
        /// Number of the attempt.
        attempt: u32,
        /// What the writer knew about the attempt. Absent if it did not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        occurrence: Option<Occurrence>,
    },
    /// A person ruled on a doubt.
    Resolved {
        /// The ruling.
        resolution: Resolution,
        /// The second person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconded_by: Option<Actor>,
        /// The reason.
        reason: String,
        /// Id of the request. A repeated request recognises its own decision by it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// A person proposed a ruling that takes a second person.
    RulingProposed {
        /// The ruling.
        resolution: Resolution,
        /// The reason.
        reason: String,
        /// Version at which the person saw the doubt. The proposal is about no other.
        seen: u64,
        /// Id of the request, which names the proposal.
        request: String,
    },
    /// A person looked at payloads that are hidden from others.
    PayloadsRevealed {
        /// The reason.
        reason: String,
    },
    /// A sign-in was refused.
    SignInsRefused {
        /// How often since the entry before.
        times: u64,
        /// Caller, address and cause of the first of them.
        examples: Vec<String>,
    },
    /// A person answered an approval.
    Answered {
        /// The decision.
        decision: String,
        /// The comment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// Id of the request. A repeated request recognises its own answer by it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// A person settled a promise.
    Settled {
        /// Id of the promise. Absent if no promise has the key yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        promise: Option<String>,
        /// Key that the request named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// How: `resolved`, `rejected` or `cancelled`.
        settlement: String,
    },
    /// A person issued a token that settles a promise without a credential.
    TokenIssued {
        /// Id of the promise.
        promise: String,
        /// When the token expires.
        expires_at: String,
    },
    /// A person took a step with an entity.
    Stepped {
        /// Key of the step.
        step: String,
        /// Idempotency key of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A person gave a command on a run.
    #[serde(rename = "steered")]
    Commanded {
        /// Name of the command.
        command: String,
        /// The reason.
        reason: String,
    },
    /// A person released an idempotency key before it expired.
    KeyReleased {
        /// Kind of key: `run` or `request`.
        kind: String,
        /// The key.
        key: String,
        /// Owner of the key, if it is a request key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller: Option<String>,
        /// The reason.
        reason: String,
    },
    /// A person created or changed a catalog item.
    SetUp {
        /// Kind of the item.
        kind: String,
        /// Id of the item.
        id: String,
        /// The change: `created`, `rotated`, `revoked`, ...
        change: String,
    },
    /// A person added a remark.
    Remarked {
        /// The remark.
        text: String,
    },
    /// A person had an outbox message delivered again.
    Redelivered {
        /// The reason.
        reason: String,
    },
    /// A claim whose holder vanished was reverted. The step can be tried again.
    Reverted {
        /// Number of the attempt.
        attempt: u32,
        /// Last heartbeat of the holder.
        last_heard_at: String,
        /// Status that the entity reverted to. Absent if it was not claimed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
    },
    /// A row in a transient status without a holder was reverted.
    StrayReverted {
        /// Status that the entity reverted to.
        status: String,
    },
    /// A claim whose holder vanished was put in doubt.
    Held {
        /// Number of the attempt.
        attempt: u32,
        /// Last heartbeat of the holder.
        last_heard_at: String,
    },
    /// A reverted operation is tried again.
    TriedAgain {
        /// Number of the attempt.
        attempt: u32,
    },
    /// A manager took a step with an override.
    Overridden {
        /// The operation that may have taken the step before. Absent if the override was not needed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
        /// The reason.
        reason: String,
    },
    /// Wraps an event about an entity, in the audit log.
    OnEntity {
        /// Kind of the entity.
        kind: String,
        /// Id of the entity.
        id: String,
        /// The operation, if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
        /// The event.
        did: Box<JournalEvent>,
    },
}

impl JournalEvent {
    /// Name of the event, for the action filter of the audit log. For configuration, the kind follows after a
    /// colon.
    ///
    /// The SQL stores compute the same value from the stored entry (`audit_action`).
    pub fn action(&self) -> String {
        let word = match self {
            JournalEvent::Claimed { .. } => "claimed",
            JournalEvent::Failed { .. } => "failed",
            JournalEvent::Doubted { .. } => "doubted",
            JournalEvent::Attempted { .. } => "attempted",
            JournalEvent::Superseded { .. } => "superseded",
            JournalEvent::RepeatAllowed { .. } => "repeat_allowed",
            JournalEvent::Probed { .. } => "probed",
            JournalEvent::Refused { .. } => "refused",
            JournalEvent::Resolved { .. } => "resolved",
            JournalEvent::RulingProposed { .. } => "ruling_proposed",
            JournalEvent::PayloadsRevealed { .. } => "payloads_revealed",
            JournalEvent::SignInsRefused { .. } => "sign_ins_refused",
            JournalEvent::Answered { .. } => "answered",
            JournalEvent::Settled { .. } => "settled",
            JournalEvent::TokenIssued { .. } => "token_issued",
            JournalEvent::Stepped { .. } => "stepped",
            JournalEvent::Commanded { .. } => "steered",
            JournalEvent::KeyReleased { .. } => "key_released",
            JournalEvent::SetUp { kind, .. } => return format!("set_up:{kind}"),
            JournalEvent::Remarked { .. } => "remarked",
            JournalEvent::Redelivered { .. } => "redelivered",
            JournalEvent::Reverted { .. } => "reverted",
            JournalEvent::StrayReverted { .. } => "stray_reverted",
            JournalEvent::Held { .. } => "held",
            JournalEvent::TriedAgain { .. } => "tried_again",
            JournalEvent::Overridden { .. } => "overridden",
            JournalEvent::OnEntity { did, .. } => return did.action(),
        };
        word.into()
    }

    /// What the event is about, if not a run; for the subject filter of the audit log. See [`AuditSubject`].
    ///
    /// The SQL stores compute the same value from the stored entry (`audit_subject`).
    pub fn subject(&self) -> Option<AuditSubject> {
        Some(match self {
            JournalEvent::OnEntity { kind, id, .. } => AuditSubject::entity(kind, id),
            JournalEvent::KeyReleased { kind, key, .. } => AuditSubject::key(kind, key),
            JournalEvent::SetUp { kind, id, .. } => AuditSubject::set_up(kind, id),
            JournalEvent::Settled { promise: Some(promise), .. }
            | JournalEvent::TokenIssued { promise, .. } => AuditSubject::promise(promise),
            JournalEvent::Settled { promise: None, key, .. } => AuditSubject::key("promise", key.as_deref()?),
            JournalEvent::Claimed { .. }
            | JournalEvent::Failed { .. }
            | JournalEvent::Doubted { .. }
            | JournalEvent::Attempted { .. }
            | JournalEvent::Superseded { .. }
            | JournalEvent::RepeatAllowed { .. }
            | JournalEvent::Probed { .. }
            | JournalEvent::Refused { .. }
            | JournalEvent::Resolved { .. }
            | JournalEvent::RulingProposed { .. }
            | JournalEvent::PayloadsRevealed { .. }
            | JournalEvent::SignInsRefused { .. }
            | JournalEvent::Answered { .. }
            | JournalEvent::Stepped { .. }
            | JournalEvent::Commanded { .. }
            | JournalEvent::Remarked { .. }
            | JournalEvent::Redelivered { .. }
            | JournalEvent::Reverted { .. }
            | JournalEvent::StrayReverted { .. }
            | JournalEvent::Held { .. }
            | JournalEvent::TriedAgain { .. }
            | JournalEvent::Overridden { .. } => return None,
        })
    }
}

/// Subject of an audit log entry that is not about a run: `entity:TYPE/ID`, `promise:ID`, `key:SCOPE/KEY`, or
/// `KIND:ID` for configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditSubject(String);

impl AuditSubject {
    /// An entity.
    pub fn entity(kind: &str, id: &str) -> Self {
        AuditSubject(format!("entity:{kind}/{id}"))
    }

    /// An idempotency key. `scope` is `run`, `promise` or `request`.
    pub fn key(scope: &str, key: &str) -> Self {
        AuditSubject(format!("key:{scope}/{key}"))
    }

    /// A promise.
    pub fn promise(id: &str) -> Self {
        AuditSubject(format!("promise:{id}"))
    }

    /// A catalog item, such as a credential, a workspace or a definition.
    pub fn set_up(kind: &str, id: &str) -> Self {
        AuditSubject(format!("{kind}:{id}"))
    }

    /// The subject as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
