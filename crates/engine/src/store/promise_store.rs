//! Promises that outsiders make, look for and are handed.

use async_trait::async_trait;

use super::StoreResult;
use crate::model::{
    EarlySettlement, IdempotencyKey, JournalEntry, Promise, PromiseId, PromiseStatus, RunId, Timestamp,
    WorkspaceId, WriteToken,
};

/// Keeps promises that stand alone, and finds promises by what outsiders know of them.
#[async_trait]
pub trait PromiseStore: Send + Sync {
    /// Makes a promise that stands alone, by [`crate::model::decide_open`].
    ///
    /// One that was made with the same token is the caller's own from an earlier try: `Created`. One that is there is `Exists`,
    /// and its key is not looked at. A key that names another promise is `KeyConflict`, and nothing is written.
    async fn create_promise(&self, request: CreatePromise) -> StoreResult<CreateOutcome>;

    /// The promise that a key names, as it stands now; `None` if the key has expired or was never given.
    async fn find_promise_by_key(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Promise>>;

    /// Promises as they stand now, in the order of their ids. Those by which people rule on doubts are left out. A page of those that stand so
    /// may be short, or empty, and yet not be the last: no more than [`crate::limits::MAX_PROMISES_LOOKED_AT`] are looked at for it.
    async fn list_promises(&self, request: ListPromises) -> StoreResult<PromisePage>;

    /// Settlements that came before their promise and still wait for it, in the order of workspaces and keys.
    async fn list_early(&self, request: ListEarly) -> StoreResult<Vec<KeptEarly>>;

    /// HostServices out a token by which a stranger may settle a promise; only its digest is kept. False if there is no such promise.
    /// Tokens go with their promise.
    async fn put_settle_token(&self, request: PutSettleToken) -> StoreResult<bool>;

    /// What a token is for, expired or not.
    async fn find_settle_token(&self, digest: &TokenDigest) -> StoreResult<Option<SettleToken>>;

    /// Deletes promises that stand alone and were over ([`Promise::over_at`]) before `over_before`, with their keys and tokens, the
    /// longest over first; at most `limit`, cut to [`crate::limits::MAX_PURGE`]. One that an open run waits for is kept. Answers how many.
    async fn purge_promises(&self, over_before: Timestamp, limit: usize) -> StoreResult<usize>;
}

/// A promise to be made.
#[derive(Debug, Clone)]
pub struct CreatePromise {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The promise; it stands alone.
    pub promise: Promise,
    /// Marks this making.
    pub token: WriteToken,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CreateOutcome {
    /// It is there, as it stands now: settled already if a settlement came early.
    Created(Box<Promise>),
    /// One with that id was there, as it stands now.
    Exists(Box<Promise>),
    /// Its key names another promise.
    KeyConflict {
        /// Which.
        existing: PromiseId,
    },
}

/// Which promises to list.
#[derive(Debug, Clone)]
pub struct ListPromises {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// Only of this run; [`RunId::NONE`] for those that stand alone.
    pub run: Option<RunId>,
    /// Only those that stand so now.
    pub status: Option<PromiseStatus>,
    /// Only those after this one; where the page before ended.
    pub after: Option<PromiseId>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// One page of promises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromisePage {
    /// The promises.
    pub promises: Vec<Promise>,
    /// Where the next page goes on; `None` if there are no more.
    pub next: Option<PromiseId>,
}

impl PromisePage {
    /// What was found of at most `limit`, when those up to `looked_upto` were looked at, or all if that is `None`.
    pub fn new(promises: Vec<Promise>, limit: usize, looked_upto: Option<PromiseId>) -> Self {
        let last = promises.last().filter(|_| promises.len() >= limit).map(|last| last.id.clone());
        PromisePage { next: last.or(looked_upto), promises }
    }

    /// Only the first `limit`: who asks for one more knows whether there is one.
    #[must_use]
    pub fn cut_to(mut self, limit: usize) -> Self {
        if self.promises.len() > limit {
            self.promises.truncate(limit);
            self.next = self.promises.last().map(|last| last.id.clone());
        }
        self
    }
}

/// Which early settlements to list.
#[derive(Debug, Clone)]
pub struct ListEarly {
    /// Of this workspace; `None` lists all.
    pub workspace: Option<WorkspaceId>,
    /// Only those after this one; where the page before ended.
    pub after: Option<(WorkspaceId, IdempotencyKey)>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// A settlement that waits for its promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptEarly {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The key it came under.
    pub key: IdempotencyKey,
    /// What it says.
    pub early: EarlySettlement,
}

/// The digest of a token; the token itself is kept nowhere.
pub type TokenDigest = [u8; 32];

/// A token by which a stranger may settle one promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleToken {
    /// Its digest.
    pub digest: TokenDigest,
    /// The workspace of the promise.
    pub workspace: WorkspaceId,
    /// The promise.
    pub promise: PromiseId,
    /// From when on it is worth nothing.
    pub expires_at: Timestamp,
}

/// A token to keep.
#[derive(Debug, Clone)]
pub struct PutSettleToken {
    /// The token.
    pub token: SettleToken,
    /// What the journal is told, if it is kept.
    pub note: Option<JournalEntry>,
}
