//! The journal: what was tried, found out and decided, beyond what the records of steps tell. Nothing in it is ever changed.

use serde::{Deserialize, Serialize};

use super::{Actor, Failure, Fence, Generation, OwnerId, Resolution, RunId, StepId, Timestamp, WorkspaceId};

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The run it is about.
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
    /// The provider was asked.
    Probed {
        /// What it said: `happened`, `did_not_happen` or `unknown`.
        answer: String,
    },
    /// An outcome was refused, because its writer no longer held the run.
    Refused {
        /// Which attempt.
        attempt: u32,
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
    /// A person had an after-effect delivered once more.
    Redelivered {
        /// Why.
        reason: String,
    },
}
