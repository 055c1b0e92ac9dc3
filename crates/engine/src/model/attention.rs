//! Which runs stand still until people do something, and why.

use super::{EventKind, RunEvent, RunHead, RunStatus, StepId, StepKind, StepRecord};

/// Why a run needs people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttentionReason {
    /// A step used up its retries, and its policy pauses the run.
    RetriesExhausted,
    /// The run lost its worker too often without progress.
    Quarantined,
    /// Nobody knows whether an effect happened.
    InDoubt,
    /// A compensation failed.
    CompensationFailed,
}

impl AttentionReason {
    /// Every reason.
    pub const ALL: [AttentionReason; 4] = [
        AttentionReason::RetriesExhausted,
        AttentionReason::Quarantined,
        AttentionReason::InDoubt,
        AttentionReason::CompensationFailed,
    ];

    /// The reason as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            AttentionReason::RetriesExhausted => "retries_exhausted",
            AttentionReason::Quarantined => "quarantined",
            AttentionReason::InDoubt => "in_doubt",
            AttentionReason::CompensationFailed => "compensation_failed",
        }
    }
}

/// What people must look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attention {
    /// Why.
    pub reason: AttentionReason,
    /// The step, if one is the cause.
    pub step: Option<StepId>,
    /// What the history says about it.
    pub note: Option<String>,
}

/// Why a step whose doubt nobody has resolved needs people.
pub fn attention_of_doubt(step: &StepRecord) -> Attention {
    let reason = match step.kind {
        StepKind::Undo => AttentionReason::CompensationFailed,
        _ => AttentionReason::InDoubt,
    };
    Attention { reason, step: Some(step.id.clone()), note: None }
}

/// Why a paused run needs people, given the last event of its history. One that people paused does not.
pub fn attention_of_pause(head: &RunHead, last: Option<&RunEvent>) -> Option<Attention> {
    let last = last.filter(|_| head.status() == RunStatus::Paused)?;
    let reason = match (last.kind, &last.note) {
        (EventKind::Quarantined, _) => AttentionReason::Quarantined,
        (EventKind::Paused, Some(_)) => AttentionReason::RetriesExhausted,
        _ => return None,
    };
    Some(Attention { reason, step: None, note: last.note.clone() })
}
