//! Runs that make no progress until someone acts, and why.

use super::{EventKind, RunEvent, RunHead, RunStatus, StepId, StepKind, StepRecord};

/// Why a run needs attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttentionReason {
    /// A step used up its retries, and its policy pauses the run.
    RetriesExhausted,
    /// The run lost its worker too often without progress.
    Quarantined,
    /// The outcome of an effect is unknown.
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

    /// Name of the reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            AttentionReason::RetriesExhausted => "retries_exhausted",
            AttentionReason::Quarantined => "quarantined",
            AttentionReason::InDoubt => "in_doubt",
            AttentionReason::CompensationFailed => "compensation_failed",
        }
    }
}

/// A reason for attention, and where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attention {
    /// The reason.
    pub reason: AttentionReason,
    /// The step that causes it, if one does.
    pub step: Option<StepId>,
    /// The note of the history event.
    pub note: Option<String>,
}

/// Why a step with an unresolved doubt needs attention.
pub fn attention_for_doubt(step: &StepRecord) -> Attention {
    let reason = match step.kind {
        StepKind::Undo => AttentionReason::CompensationFailed,
        _ => AttentionReason::InDoubt,
    };
    Attention { reason, step: Some(step.id.clone()), note: None }
}

/// Why a paused run needs attention, given the last event of its history. `None` if an operator paused it.
pub fn attention_for_pause(head: &RunHead, last: Option<&RunEvent>) -> Option<Attention> {
    let last = last.filter(|_| head.status() == RunStatus::Paused)?;
    let reason = match (last.kind, &last.note) {
        (EventKind::Quarantined, _) => AttentionReason::Quarantined,
        (EventKind::Paused, Some(_)) => AttentionReason::RetriesExhausted,
        _ => return None,
    };
    Some(Attention { reason, step: None, note: last.note.clone() })
}
