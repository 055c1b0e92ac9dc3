//! Who is told what becomes of runs.

use std::sync::Arc;

use super::Engine;
use crate::model::{Subscribers, WorkspaceId};

/// Knows who wants to be told; asked at each write, so it answers from memory.
pub trait Announcer: Send + Sync {
    /// Those who want to be told of the runs of a workspace.
    fn subscribers(&self, workspace: &WorkspaceId) -> Subscribers;
}

impl Engine {
    /// From now on `announcer` says who is told what becomes of runs. The first one stays; answers whether this is it.
    pub fn announce_with(&self, announcer: Arc<dyn Announcer>) -> bool {
        self.inner.announcer.set(announcer).is_ok()
    }
}
