//! The steps that may be taken with an entity in its current status, and why the others may not. Uses the
//! same rules that operations are checked against.

use std::fmt;

use super::{
    Entity, EntityWorkflow, Irreversible, Name, Operation, OperationId, OperationState, OperationStatus,
    Timestamp,
};

/// A step, and whether it may be taken now.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowedAction {
    /// Numeric id of the step.
    pub step_id: u32,
    /// Key of the step.
    pub step: Name,
    /// Status of the entity after the step.
    pub to: Name,
    /// True if the step cannot be undone.
    pub irreversible: bool,
    /// Why the step may not be taken now. `None` if it may.
    pub hindrance: Option<BlockedReason>,
}

/// Why a step may not be taken now.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockedReason {
    /// The step does not apply in the entity's status.
    WrongStatus {
        /// Current status of the entity.
        is: Name,
        /// Statuses the step applies to.
        applies: Vec<Name>,
    },
    /// Another operation is in progress.
    Pending {
        /// The other operation.
        operation: OperationId,
        /// Step of the other operation.
        step: Name,
        /// When the other operation began.
        since: Timestamp,
    },
    /// Another operation has an unknown outcome. Someone must rule on it first.
    InDoubt {
        /// The operation in doubt.
        operation: OperationId,
        /// Step of that operation.
        step: Name,
        /// When it came into doubt.
        since: Timestamp,
    },
    /// Something other than an operation of this store has claimed the entity.
    Claimed {
        /// The transient status the entity is in.
        status: Name,
    },
    /// The step is irreversible and has happened, or may have. Only a manager's override allows it again.
    OverrideRequired {
        /// The operation that took the step, or may have.
        operation: OperationId,
    },
}

impl BlockedReason {
    /// Stable code of the reason.
    pub const fn code(&self) -> &'static str {
        match self {
            BlockedReason::WrongStatus { .. } => "other_status",
            BlockedReason::Pending { .. } => "operation_pending",
            BlockedReason::InDoubt { .. } => "operation_in_doubt",
            BlockedReason::Claimed { .. } => "claimed",
            BlockedReason::OverrideRequired { .. } => "override_required",
        }
    }

    /// The operation that blocks the step, if one does.
    pub const fn operation(&self) -> Option<OperationId> {
        match self {
            BlockedReason::Pending { operation, .. }
            | BlockedReason::InDoubt { operation, .. }
            | BlockedReason::OverrideRequired { operation } => Some(*operation),
            BlockedReason::WrongStatus { .. } | BlockedReason::Claimed { .. } => None,
        }
    }
}

impl fmt::Display for BlockedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockedReason::WrongStatus { is, applies } => {
                let applies: Vec<&str> = applies.iter().map(Name::as_str).collect();
                write!(f, "the entity is {is}; this step applies to {}", applies.join(" or "))
            }
            BlockedReason::Pending { operation, step, .. } => {
                write!(f, "another operation is already in progress: {operation} ({step})")
            }
            BlockedReason::InDoubt { operation, step, .. } => {
                write!(
                    f,
                    "the outcome of {operation} ({step}) is unknown: a person must resolve the doubt first"
                )
            }
            BlockedReason::Claimed { status } => {
                write!(f, "another operation is already in progress: the entity is {status}")
            }
            BlockedReason::OverrideRequired { operation } => {
                write!(
                    f,
                    "{operation} did it or may have, and it cannot be taken back: only a manager can have it done again"
                )
            }
        }
    }
}

/// Lists the steps of `requester` and whether each may be taken. `holder` is the operation that holds the
/// entity. `last` has the newest operation of each step. Steps that are not available to the requester are
/// left out.
pub fn allowed_actions(
    workflow: &EntityWorkflow,
    requester: Option<&Name>,
    entity: &Entity,
    holder: Option<&Operation>,
    last: &[Operation],
) -> Vec<AllowedAction> {
    let mut actions = Vec::new();
    for step in &workflow.steps {
        let Some(view) = step.view(requester) else { continue };
        let earlier = last.iter().find(|operation| operation.step == step.key);
        let hindrance = match holder {
            Some(holder) => Some(held_by(holder)),
            None if workflow.is_transient(&entity.status) => {
                Some(BlockedReason::Claimed { status: entity.status.clone() })
            }
            None if !view.status.contains(&entity.status) => {
                Some(BlockedReason::WrongStatus { is: entity.status.clone(), applies: view.status.clone() })
            }
            None => earlier
                .filter(|earlier| view.irreversible == Irreversible::Once && earlier.needs_override())
                .map(|earlier| BlockedReason::OverrideRequired { operation: earlier.id }),
        };
        actions.push(AllowedAction {
            step_id: step.id,
            step: step.key.clone(),
            to: view.successful_state,
            irreversible: view.irreversible.is_irreversible(),
            hindrance,
        });
    }
    actions.sort_by_key(|action| action.step_id);
    actions
}

fn held_by(holder: &Operation) -> BlockedReason {
    let (operation, step) = (holder.id, holder.step.clone());
    match &holder.state {
        OperationState::InDoubt { since } => BlockedReason::InDoubt { operation, step, since: *since },
        state => {
            debug_assert_eq!(state.status(), OperationStatus::Pending, "what has ended holds nothing");
            BlockedReason::Pending { operation, step, since: holder.began_at }
        }
    }
}
