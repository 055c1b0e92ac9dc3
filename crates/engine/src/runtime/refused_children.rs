//! Handles children that the store refused to start: their steps fail, and nothing is written about them.

use super::drive::Driver;
use super::pending_change::PendingChange;
use crate::model::{ChildrenRefused, RunId};

impl Driver {
    /// Requeues a commit without its children after the store refused them.
    pub(super) fn refuse_children(&mut self, changes: Vec<PendingChange>, refused: &ChildrenRefused) {
        let failure = refused.failure();
        tracing::warn!(run = %self.activation.facts.id, code = failure.code(), "children refused: {refused}");
        let children: Vec<RunId> = changes.iter().filter_map(started_child).collect();
        let is_of_child = |change: &PendingChange| match change {
            PendingChange::StartChild(..) => true,
            PendingChange::Step { child: Some(child), .. } => children.contains(child),
            _ => false,
        };
        let mut replay = self.activation.replay();
        let mut kept: Vec<PendingChange> =
            changes.into_iter().filter(|change| !is_of_child(change)).collect();
        kept.append(&mut replay.changes);
        replay.changes = kept;
        for child in children {
            replay.refused_children.insert(child, failure.clone());
        }
        drop(replay);
        self.activation.wake_all();
    }
}

fn started_child(change: &PendingChange) -> Option<RunId> {
    match change {
        PendingChange::StartChild(new, _) => Some(new.facts.id),
        _ => None,
    }
}
