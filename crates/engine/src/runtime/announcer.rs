//! Finds the subscribers of run events.

use std::sync::Arc;

use super::Engine;
use crate::model::{Name, Subscribers, WorkspaceId};

/// Source of the subscribers that receive run events. It is called on every commit, so it must answer from
/// memory.
pub trait Announcer: Send + Sync {
    /// Returns the subscribers for runs of a workspace.
    fn subscribers(&self, workspace: &WorkspaceId) -> Subscribers;

    /// Returns whether only the engine may send to this target. Workflows cannot send after-effects to it, so
    /// its receivers never see an event that did not happen.
    fn is_reserved(&self, _target: &Name) -> bool {
        false
    }
}

impl Engine {
    /// Sets the source of subscribers. Only the first call takes effect; returns whether this was the first.
    pub fn set_announcer(&self, announcer: Arc<dyn Announcer>) -> bool {
        self.inner.announcer.set(announcer).is_ok()
    }
}
