//! Keys of requests, and what became of keys in use.

use async_trait::async_trait;

use super::{StoreError, StoreResult, StoredKey};
use crate::limits::MAX_KEY_USES;
use crate::model::{
    BeginRequest, Begun, FinishRequest, IdempotencyKey, JournalEntry, KeyKind, RequestRecord, RequestScope,
    RunId, Timestamp, WorkspaceId,
};

/// Keeps requests under their keys, and counts how keys are used.
#[async_trait]
pub trait RequestKeyStore: Send + Sync {
    /// Takes in a request under a key, by [`crate::model::decide_begin`]: at most one of the same is worked on at a time.
    ///
    /// Sent again with the same token it finds its own hold and prolongs it. A request that only has to be told something writes
    /// nothing, so that a replay costs no commit.
    async fn begin_request(&self, request: BeginRequest) -> StoreResult<Begun>;

    /// Writes how a request ended, by [`crate::model::decide_finish`]; answers whether it was the caller's to say. Sent again after
    /// it took effect it answers `false` and changes nothing.
    async fn finish_request(&self, request: FinishRequest) -> StoreResult<bool>;

    /// What a request key stands for, expired or not.
    async fn find_request(
        &self,
        scope: &RequestScope,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<RequestRecord>>;

    /// Frees a key before its time, and appends `note` to the journal in the same write, if it takes effect. A run key expires
    /// now; the key of a promise that is over, or whose run has ended, expires now, and with one that is claimed for a promise goes the settlement
    /// that is kept for it; a request key is deleted. The note says [`crate::model::JournalEvent::KeyReleased`], by which [`crate::fsck`] knows that nothing
    /// is wrong with a run whose key ended early.
    async fn release_key(&self, request: ReleaseKey) -> StoreResult<ReleaseOutcome>;

    /// Adds to the counts of keys that are there; those that are not are left out. They are counted anew when the key is
    /// given to another run or operation, and go with the key. At most
    /// [`crate::limits::MAX_KEY_USES`] at once; more are [`super::StoreError::Refused`].
    async fn count_uses(&self, uses: Vec<KeyUse>) -> StoreResult<()>;

    /// How a key was used so far; zeros if nobody counted.
    async fn find_uses(&self, place: &KeyPlace) -> StoreResult<Uses>;

    /// Deletes request keys that are free ([`RequestRecord::is_free`]), with their counts, the longest free first; at most `limit`, cut to
    /// [`crate::limits::MAX_PURGE`]. So go requests that nobody took over within [`crate::limits::ABANDONED_REQUEST_FOR`] of the end of
    /// their hold. Answers how many. The counts of run keys go when [`super::Store::purge`] deletes the key.
    async fn purge_requests(&self, limit: usize) -> StoreResult<usize>;

    /// When the oldest request key that is not free yet first came, over all workspaces.
    async fn find_oldest_request(&self) -> StoreResult<Option<Timestamp>>;
}

/// Where a key is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPlace {
    /// It names a run.
    Run {
        /// The workspace.
        workspace: WorkspaceId,
        /// The key.
        key: IdempotencyKey,
    },
    /// It names a promise, or is claimed for one.
    Promise {
        /// The workspace.
        workspace: WorkspaceId,
        /// The key.
        key: IdempotencyKey,
    },
    /// It names a request.
    Request {
        /// Whose key.
        scope: RequestScope,
        /// The key.
        key: IdempotencyKey,
    },
}

impl KeyPlace {
    /// The workspace of the key.
    pub fn workspace(&self) -> &WorkspaceId {
        match self {
            KeyPlace::Run { workspace, .. } | KeyPlace::Promise { workspace, .. } => workspace,
            KeyPlace::Request { scope, .. } => &scope.workspace,
        }
    }
}

impl From<StoredKey> for KeyPlace {
    fn from(stored: StoredKey) -> Self {
        let StoredKey { workspace, kind, key } = stored;
        match kind {
            KeyKind::Run => KeyPlace::Run { workspace, key },
            KeyKind::Promise => KeyPlace::Promise { workspace, key },
        }
    }
}

/// A person frees a key.
#[derive(Debug, Clone)]
pub struct ReleaseKey {
    /// Which.
    pub place: KeyPlace,
    /// Who and why, for the journal.
    pub note: JournalEntry,
}

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum ReleaseOutcome {
    /// The key is free.
    Released,
    /// What the key names is not over: the run is open, or the request is worked on.
    InUse {
        /// The run, if the key names one.
        run: Option<RunId>,
    },
    /// There is no such key, or it is free already.
    NoSuchKey,
}

/// How a key was used since it was last counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Which key.
    pub place: KeyPlace,
    /// How it was used.
    pub uses: Uses,
}

/// How often a key came again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uses {
    /// With the same request.
    pub replays: u64,
    /// With another one.
    pub conflicts: u64,
}

/// Refuses more counts than may come at once.
pub fn check_uses(uses: &[KeyUse]) -> StoreResult<()> {
    match uses.len() {
        many if many > MAX_KEY_USES => Err(StoreError::Refused(format!(
            "{many} keys are more than the {MAX_KEY_USES} that may be counted at once"
        ))),
        _ => Ok(()),
    }
}
