//! Who is told what becomes of runs.

use std::sync::Arc;

use super::Engine;
use crate::model::{Name, Subscribers, WorkspaceId};

/// Knows who wants to be told; asked at each write, so it answers from memory.
pub trait Announcer: Send + Sync {
    /// Those who want to be told of the runs of a workspace.
    fn subscribers(&self, workspace: &WorkspaceId) -> Subscribers;

    /// Is this a target of announcements alone? What a workflow leaves for one is refused, so that nobody is told what did not happen.
    fn is_reserved(&self, _target: &Name) -> bool {
        false
    }
}

impl Engine {
    /// From now on `announcer` says who is told what becomes of runs. The first one stays; answers whether this is it.
    pub fn announce_with(&self, announcer: Arc<dyn Announcer>) -> bool {
        self.inner.announcer.set(announcer).is_ok()
    }
}
