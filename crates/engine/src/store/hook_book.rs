//! Webhooks that came in.

use async_trait::async_trait;

use super::StoreResult;
use crate::model::{Hook, HookId, HookStatus, Name, Payload, Timestamp, WorkspaceId};

/// Takes in events of webhook sources, each once.
#[async_trait]
pub trait HookBook: Send + Sync {
    /// Takes in an event; durable when it answers. One that was taken in before is counted as a duplicate, whatever it carries, and
    /// nothing else of it changes.
    async fn receive_hook(&self, hook: NewHook) -> StoreResult<ReceivedHook>;

    /// Writes what became of an event, or that it is yet to be processed and why, if it has been processed `attempts` times so far; answers whether it had. Sent again after it took
    /// effect it answers `false` and changes nothing.
    async fn finish_hook(&self, request: FinishHook) -> StoreResult<bool>;

    /// One event.
    async fn find_hook(&self, id: &HookId) -> StoreResult<Option<Hook>>;

    /// Events, newest first.
    async fn list_hooks(&self, request: ListHooks) -> StoreResult<Vec<Hook>>;

    /// Events over all workspaces that nobody has processed, in the order in which they were received: the process that took them in may be gone.
    async fn list_unprocessed_hooks(&self, request: ListUnprocessedHooks) -> StoreResult<Vec<Hook>>;

    /// Deletes events that were received before `before` and have been processed, oldest first; at most `limit`, cut to
    /// [`crate::limits::MAX_PURGE`]. Answers how many.
    async fn purge_hooks(&self, before: Timestamp, limit: usize) -> StoreResult<usize>;
}

/// An event that came.
#[derive(Debug, Clone)]
pub struct NewHook {
    /// Which.
    pub id: HookId,
    /// Its headers.
    pub headers: Payload,
    /// Its body.
    pub body: Vec<u8>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum ReceivedHook {
    /// It is taken in; what it asks for is to be done.
    New(Hook),
    /// It came before.
    Again(Hook),
}

/// What became of an event when it was processed.
#[derive(Debug, Clone)]
pub struct FinishHook {
    /// Which event.
    pub id: HookId,
    /// How often it had been processed before this time.
    pub attempts: u32,
    /// What became of it.
    pub status: HookStatus,
    /// What was done, or why it was not.
    pub outcome: Option<Payload>,
}

/// Which events that nobody has processed to list.
#[derive(Debug, Clone)]
pub struct ListUnprocessedHooks {
    /// Only those received before this.
    pub before: Timestamp,
    /// Only those after the one that was received then and has this place; where the page before ended.
    pub after: Option<(Timestamp, u64)>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Which events to list.
#[derive(Debug, Clone)]
pub struct ListHooks {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// Only of this source.
    pub source: Option<Name>,
    /// Only those with this status.
    pub status: Option<HookStatus>,
    /// Only those before this place; where the page before ended.
    pub before: Option<u64>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}
