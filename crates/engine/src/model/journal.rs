//! The journal: what was tried, found out and decided, beyond what the records of steps tell. Nothing in it is ever changed.

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
    /// The run it is about; [`RunId::NONE`] if it is about something that is set up.
    pub run: RunId,
    /// The generation of the run.
    pub generation: Generation,
    /// The step it is about, if it is about one.
    pub step: Option<StepId>,
    /// When.
    pub at: Timestamp,
    /// The fence of whoever wrote it.
    pub fence: Fence,
    /// The engine that did it, if one did.
    pub owner: Option<OwnerId>,
    /// The person who did it, if one did. Such entries are the audit log, and outlive the run.
    pub by: Option<Actor>,
    /// What happened.
    pub what: JournalEvent,
    /// What it proves of one attempt at an effect, if it proves anything. The counts of repeated effects are computed from this.
    pub evidence: Option<Evidence>,
}

impl JournalEntry {
    /// A note that a person makes on the workspace as a whole.
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

    /// A note that a person makes on a run as a whole, or on one step of it.
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

    /// Names the promise that the person settled, which only the store knows if it was named by key.
    #[must_use]
    pub fn about_promise(mut self, settled: &Promise) -> Self {
        if let JournalEvent::Settled { promise, .. } = &mut self.what {
            *promise = Some(settled.id.to_string());
            self.run = settled.run;
        }
        self
    }

    /// Does it say that a retry of the run dropped the record of a step?
    pub fn is_of_rerun(&self) -> bool {
        matches!(self.what, JournalEvent::Superseded { .. })
    }
}

/// What a note tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum JournalEvent {
    /// An attempt of a claimed effect is about to be entered.
    Claimed {
        /// Which attempt.
        attempt: u32,
    },
    /// An attempt failed, and another will follow.
    Failed {
        /// Which attempt.
        attempt: u32,
        /// Why.
        failure: Failure,
    },
    /// Nobody knows whether an attempt happened.
    Doubted {
        /// Which attempt.
        attempt: u32,
        /// Why.
        failure: Failure,
    },
    /// Something became known of an attempt that no other entry tells.
    Attempted {
        /// Which attempt.
        attempt: u32,
        /// What.
        occurrence: Occurrence,
    },
    /// A retry of the run dropped the record of a step, which runs again. Attempts are counted on from here.
    Superseded {
        /// The last attempt of the dropped record.
        attempt: u32,
        /// What the record said of it.
        occurrence: Occurrence,
    },
    /// A person allowed an effect that has happened to run again, with a retry of the run.
    RepeatAllowed {
        /// The attempt that happened.
        attempt: u32,
        /// Who agreed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconded_by: Option<Actor>,
        /// Why.
        reason: String,
    },
    /// The provider was asked.
    Probed {
        /// What it said: `happened`, `did_not_happen` or `unknown`.
        answer: String,
    },
    /// An outcome was refused, because its writer no longer held the run. What it proves of the attempt counts all the same.
    Refused {
        /// Which attempt.
        attempt: u32,
        /// What the writer knew of it; absent if nobody said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        occurrence: Option<Occurrence>,
    },
    /// A person decided.
    Resolved {
        /// What.
        resolution: Resolution,
        /// Who agreed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconded_by: Option<Actor>,
        /// Why.
        reason: String,
        /// Identifies the request that decided, so that the same request sent again knows its own decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// A person answered an approval that a workflow asks for.
    Answered {
        /// The decision.
        decision: String,
        /// What they said about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// Identifies the request that answered, so that the same request sent again knows its own answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// A person settled a promise.
    Settled {
        /// Id of the promise. Absent while none has the key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        promise: Option<String>,
        /// The key by which it was named.
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
        /// The step.
        step: String,
        /// Business key of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A person gave a command on the run as a whole.
    Steered {
        /// Which.
        command: String,
        /// Why.
        reason: String,
    },
    /// A person freed an idempotency key before its time.
    KeyReleased {
        /// Of which kind: `run` or `request`.
        kind: String,
        /// The key.
        key: String,
        /// Whose, if it is a request key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller: Option<String>,
        /// Why.
        reason: String,
    },
    /// A person set something up, or changed it.
    SetUp {
        /// What kind of thing.
        kind: String,
        /// Its id.
        id: String,
        /// What was done: `created`, `rotated`, `revoked`, ...
        change: String,
    },
    /// A person wrote something down.
    Remarked {
        /// What.
        text: String,
    },
    /// A person had an after-effect delivered once more.
    Redelivered {
        /// Why.
        reason: String,
    },
    /// A claim whose holder vanished was given back, so that the step can be tried again.
    Reverted {
        /// Which attempt.
        attempt: u32,
        /// When its holder was last heard of.
        last_heard_at: String,
        /// Where the entity stands again; absent if it was not claimed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
    },
    /// A row in a transient status that nothing held was given back.
    StrayReverted {
        /// Where the entity stands again.
        status: String,
    },
    /// A claim whose holder vanished is left for people to look at.
    Held {
        /// Which attempt.
        attempt: u32,
        /// When its holder was last heard of.
        last_heard_at: String,
    },
    /// An operation that had been given back is tried again.
    TriedAgain {
        /// Which attempt.
        attempt: u32,
    },
    /// A manager took a step with an override.
    Overridden {
        /// The operation that may have done the step before. Absent if nothing stood in the way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
        /// Why.
        reason: String,
    },
    /// Something about an entity, in the audit log.
    OnEntity {
        /// What kind of thing.
        kind: String,
        /// Which.
        id: String,
        /// The operation, if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
        /// What.
        did: Box<JournalEvent>,
    },
}

impl JournalEvent {
    /// What was done, in one word, as the audit log is filtered by it. What is set up has its kind behind a colon.
    ///
    /// The SQL stores compute the same from the stored entry (`audit_action`).
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
            JournalEvent::Answered { .. } => "answered",
            JournalEvent::Settled { .. } => "settled",
            JournalEvent::TokenIssued { .. } => "token_issued",
            JournalEvent::Stepped { .. } => "stepped",
            JournalEvent::Steered { .. } => "steered",
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

    /// What it is about beside a run, as the audit log is filtered by it: see [`AuditSubject`].
    ///
    /// The SQL stores compute the same from the stored entry (`audit_subject`).
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
            | JournalEvent::Answered { .. }
            | JournalEvent::Stepped { .. }
            | JournalEvent::Steered { .. }
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

/// What an entry of the audit log is about, if not a run: `entity:TYPE/ID`, `promise:ID`, `key:SCOPE/KEY`, or `KIND:ID` of what is set up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditSubject(String);

impl AuditSubject {
    /// An entity.
    pub fn entity(kind: &str, id: &str) -> Self {
        AuditSubject(format!("entity:{kind}/{id}"))
    }

    /// An idempotency key; `scope` is `run`, `promise` or `request`.
    pub fn key(scope: &str, key: &str) -> Self {
        AuditSubject(format!("key:{scope}/{key}"))
    }

    /// A promise.
    pub fn promise(id: &str) -> Self {
        AuditSubject(format!("promise:{id}"))
    }

    /// Something that is set up: a credential, a workspace, a definition.
    pub fn set_up(kind: &str, id: &str) -> Self {
        AuditSubject(format!("{kind}:{id}"))
    }

    /// The subject as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
