//! Children that may not be started: the steps that wanted them are told, and nothing of them is written.

use super::change::Change;
use super::drive::Driver;
use crate::model::{ChildrenRefused, RunId};

impl Driver {
    /// The store refused the children of a write: the rest of it is to be written without them.
    pub(super) fn refuse_children(&mut self, changes: Vec<Change>, refused: &ChildrenRefused) {
        let failure = refused.failure();
        tracing::warn!(run = %self.activation.facts.id, code = failure.code(), "children refused: {refused}");
        let children: Vec<RunId> = changes.iter().filter_map(started_child).collect();
        let is_of_child = |change: &Change| match change {
            Change::StartChild(..) => true,
            Change::Step { child: Some(child), .. } => children.contains(child),
            _ => false,
        };
        let mut desk = self.activation.desk();
        let mut kept: Vec<Change> = changes.into_iter().filter(|change| !is_of_child(change)).collect();
        kept.append(&mut desk.changes);
        desk.changes = kept;
        for child in children {
            desk.refused_children.insert(child, failure.clone());
        }
        drop(desk);
        self.activation.wake_all();
    }
}

fn started_child(change: &Change) -> Option<RunId> {
    match change {
        Change::StartChild(new, _) => Some(new.facts.id),
        _ => None,
    }
}
