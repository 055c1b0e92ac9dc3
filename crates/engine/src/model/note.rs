//! The journal: what was tried, found out and decided, beyond what the records of steps tell. Nothing in it is ever changed.

use serde::{Deserialize, Serialize};

use super::{
    Actor, Evidence, Failure, Fence, Generation, Occurrence, OwnerId, Resolution, RunId, StepId, Timestamp,
    WorkspaceId,
};

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
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
    pub what: Noted,
    /// What it proves of one attempt at an effect, if it proves anything. The counts of repeated effects are computed from this.
    pub evidence: Option<Evidence>,
}

impl Note {
    /// A note that a person makes on the workspace as a whole.
    pub fn on_workspace(workspace: WorkspaceId, by: Actor, at: Timestamp, what: Noted) -> Self {
        Note {
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

    /// Does it say that a retry of the run dropped the record of a step?
    pub fn is_of_rerun(&self) -> bool {
        matches!(self.what, Noted::Superseded { .. })
    }
}

/// What a note tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Noted {
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
        /// What was known of it.
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
    /// A manager had an irreversible step done that may have happened before.
    Overridden {
        /// The operation that may have done it.
        operation: String,
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
        did: Box<Noted>,
    },
}
