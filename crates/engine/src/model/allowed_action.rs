//! What may be done with an entity as it stands, and why the rest may not: computed from the same rules that operations are judged by.

use std::fmt;

use super::{
    Entity, EntityWorkflow, Irreversible, Name, Operation, OperationId, OperationState, OperationStatus,
    Timestamp,
};

/// A step, and whether it may be taken now.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowedAction {
    /// The step's number.
    pub step_id: u32,
    /// The step.
    pub step: Name,
    /// The status after it.
    pub to: Name,
    /// Can it not be taken back?
    pub irreversible: bool,
    /// Why it may not be taken; `None` if it may.
    pub hindrance: Option<Hindrance>,
}

/// Why a step may not be taken now.
#[derive(Debug, Clone, PartialEq)]
pub enum Hindrance {
    /// The entity is in a status where the step does not apply.
    OtherStatus {
        /// Where the entity stands.
        is: Name,
        /// Where the step applies.
        applies: Vec<Name>,
    },
    /// Another operation is in progress.
    Pending {
        /// Which.
        operation: OperationId,
        /// Of which step.
        step: Name,
        /// Since when.
        since: Timestamp,
    },
    /// Nobody knows whether another operation happened; people must decide first.
    InDoubt {
        /// Which.
        operation: OperationId,
        /// Of which step.
        step: Name,
        /// Since when.
        since: Timestamp,
    },
    /// Somebody else has claimed the entity.
    Claimed {
        /// The transient status it is in.
        status: Name,
    },
    /// It is done, or may be, and cannot be taken back: only a manager can have it done again.
    OverrideRequired {
        /// The operation that did it, or may have.
        operation: OperationId,
    },
}

impl Hindrance {
    /// The reason in one word.
    pub const fn code(&self) -> &'static str {
        match self {
            Hindrance::OtherStatus { .. } => "other_status",
            Hindrance::Pending { .. } => "operation_pending",
            Hindrance::InDoubt { .. } => "operation_in_doubt",
            Hindrance::Claimed { .. } => "claimed",
            Hindrance::OverrideRequired { .. } => "override_required",
        }
    }

    /// The operation that is in the way, if one is.
    pub const fn operation(&self) -> Option<OperationId> {
        match self {
            Hindrance::Pending { operation, .. }
            | Hindrance::InDoubt { operation, .. }
            | Hindrance::OverrideRequired { operation } => Some(*operation),
            Hindrance::OtherStatus { .. } | Hindrance::Claimed { .. } => None,
        }
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hindrance::OtherStatus { is, applies } => {
                let applies: Vec<&str> = applies.iter().map(Name::as_str).collect();
                write!(f, "it is {is}; this step applies to what is {}", applies.join(" or "))
            }
            Hindrance::Pending { operation, step, .. } => {
                write!(f, "another operation is already in progress: {operation} ({step})")
            }
            Hindrance::InDoubt { operation, step, .. } => {
                write!(f, "nobody knows whether {operation} ({step}) happened: people must decide first")
            }
            Hindrance::Claimed { status } => {
                write!(f, "another operation is already in progress: it is {status}")
            }
            Hindrance::OverrideRequired { operation } => {
                write!(
                    f,
                    "{operation} did it or may have, and it cannot be taken back: only a manager can have it done again"
                )
            }
        }
    }
}

/// What `requester` may do with the entity. `holder` is the operation that holds it; `last` has the newest operation of each step. Steps that are not for the requester are
/// not among the answers.
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
                Some(Hindrance::Claimed { status: entity.status.clone() })
            }
            None if !view.status.contains(&entity.status) => {
                Some(Hindrance::OtherStatus { is: entity.status.clone(), applies: view.status.clone() })
            }
            None => earlier
                .filter(|earlier| view.irreversible == Irreversible::Once && earlier.needs_override())
                .map(|earlier| Hindrance::OverrideRequired { operation: earlier.id }),
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

fn held_by(holder: &Operation) -> Hindrance {
    let (operation, step) = (holder.id, holder.step.clone());
    match &holder.state {
        OperationState::InDoubt { since } => Hindrance::InDoubt { operation, step, since: *since },
        state => {
            debug_assert_eq!(state.status(), OperationStatus::Pending, "what has ended holds nothing");
            Hindrance::Pending { operation, step, since: holder.began_at }
        }
    }
}
