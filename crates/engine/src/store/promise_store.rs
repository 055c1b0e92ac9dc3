//! Standalone promises, and promises found by key or token.

use async_trait::async_trait;

use super::StoreResult;
use crate::model::{
    EarlySettlement, IdempotencyKey, JournalEntry, Promise, PromiseId, PromiseStatus, RunId, Timestamp,
    WorkspaceId, WriteToken,
};

/// Stores standalone promises, and finds promises by what outsiders know about them.
#[async_trait]
pub trait PromiseStore: Send + Sync {
    /// Creates a standalone promise, by [`crate::model::decide_open`].
    ///
    /// If a promise with this id was created with the same token, it is the caller's own from an earlier
    /// attempt: `Created`. Any other promise with this id is `Exists`, and its key is not checked. A key that
    /// names another promise is `KeyConflict`, and nothing is written.
    async fn create_promise(&self, request: CreatePromise) -> StoreResult<CreateOutcome>;

    /// Finds the promise that a key names, with its current state. `None` if the key has expired or never
    /// existed.
    async fn find_promise_by_key(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Promise>>;

    /// Lists promises with their current state, in the order of their ids. Promises that resolve doubts are
    /// left out. With a status filter a page may be short or empty although more follow, because one call
    /// scans at most [`crate::limits::MAX_PROMISES_SCANNED`].
    async fn list_promises(&self, request: ListPromises) -> StoreResult<PromisePage>;

    /// Lists early settlements that still wait for their promise, in the order of workspace and key.
    async fn list_early_settlements(
        &self,
        request: ListEarlySettlements,
    ) -> StoreResult<Vec<StoredEarlySettlement>>;

    /// Stores the digest of a token that settles a promise without a credential. Returns `false` if the
    /// promise does not exist. Tokens are deleted with their promise.
    async fn put_settle_token(&self, request: PutSettleToken) -> StoreResult<bool>;

    /// Finds a token, expired or not.
    async fn find_settle_token(&self, digest: &TokenDigest) -> StoreResult<Option<SettleToken>>;

    /// Deletes standalone promises that ended ([`Promise::ends_at`]) before `over_before`, with their keys
    /// and tokens. The oldest go first. A promise that an open run waits for is kept. `limit` is at most
    /// [`crate::limits::MAX_PURGE`]. Returns the number of promises deleted.
    async fn purge_promises(&self, over_before: Timestamp, limit: usize) -> StoreResult<usize>;
}

/// A promise to create.
#[derive(Debug, Clone)]
pub struct CreatePromise {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The promise. It must be standalone.
    pub promise: Promise,
    /// Identifies this creation.
    pub token: WriteToken,
}

/// Outcome of [`CreatePromise`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CreateOutcome {
    /// It exists now. It is settled if a settlement came early.
    Created(Box<Promise>),
    /// A promise with that id existed before, with its current state.
    Exists(Box<Promise>),
    /// Its key names another promise.
    KeyConflict {
        /// The other promise.
        existing: PromiseId,
    },
}

/// Selects promises to list.
#[derive(Debug, Clone)]
pub struct ListPromises {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Only promises of this run. [`RunId::NONE`] for standalone promises.
    pub run: Option<RunId>,
    /// Only this status.
    pub status: Option<PromiseStatus>,
    /// Only promises after this id, the last of the previous page.
    pub after: Option<PromiseId>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// One page of promises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromisePage {
    /// The promises.
    pub promises: Vec<Promise>,
    /// Where the next page continues. `None` at the end.
    pub next: Option<PromiseId>,
}

impl PromisePage {
    /// Builds a page of at most `limit` promises. `looked_upto` is the last promise scanned, or `None` if all
    /// were.
    pub fn new(promises: Vec<Promise>, limit: usize, looked_upto: Option<PromiseId>) -> Self {
        let last = promises.last().filter(|_| promises.len() >= limit).map(|last| last.id.clone());
        PromisePage { next: last.or(looked_upto), promises }
    }

    /// Keeps the first `limit` promises. A caller that requests one more than it needs learns whether there
    /// is another page.
    #[must_use]
    pub fn cut_to(mut self, limit: usize) -> Self {
        if self.promises.len() > limit {
            self.promises.truncate(limit);
            self.next = self.promises.last().map(|last| last.id.clone());
        }
        self
    }
}

/// Selects early settlements to list.
#[derive(Debug, Clone)]
pub struct ListEarlySettlements {
    /// Only this workspace. `None` lists all.
    pub workspace: Option<WorkspaceId>,
    /// Only settlements after this one, the last of the previous page.
    pub after: Option<(WorkspaceId, IdempotencyKey)>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// An early settlement with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEarlySettlement {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The key.
    pub key: IdempotencyKey,
    /// The settlement.
    pub early: EarlySettlement,
}

/// Digest of a token. The token itself is stored nowhere.
pub type TokenDigest = [u8; 32];

/// A token that settles one promise without a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleToken {
    /// Digest of the token.
    pub digest: TokenDigest,
    /// Workspace of the promise.
    pub workspace: WorkspaceId,
    /// The promise.
    pub promise: PromiseId,
    /// When the token expires.
    pub expires_at: Timestamp,
}

/// A token to store.
#[derive(Debug, Clone)]
pub struct PutSettleToken {
    /// The token.
    pub token: SettleToken,
    /// Journal entry to append if the token is stored.
    pub note: Option<JournalEntry>,
}
