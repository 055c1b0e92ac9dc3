//! Request keys, and usage counts of keys.

use async_trait::async_trait;

use super::{StoreError, StoreResult, StoredKey};
use crate::limits::MAX_KEY_USAGE_BATCH;
use crate::model::{
    BeginOutcome, BeginRequest, FinishRequest, IdempotencyKey, JournalEntry, KeyKind, KeyedStart,
    KeyedStartOutcome, RequestRecord, RequestScope, RunId, Timestamp, WorkspaceId,
};

/// Stores requests under their keys, and counts how keys are used.
#[async_trait]
pub trait RequestKeyStore: Send + Sync {
    /// Begins a request under a key, by [`crate::model::decide_begin_request`]. At most one process works on
    /// a request at a time.
    ///
    /// Sent again with the same token, it finds its own hold and extends it. A call that only returns a
    /// stored outcome writes nothing, so a replay costs no commit.
    async fn begin_request(&self, request: BeginRequest) -> StoreResult<BeginOutcome>;

    /// Records how a request ended, by [`crate::model::decide_finish_request`]. Returns whether the caller
    /// held it. Sent again after it took effect, it returns `false` and changes nothing.
    async fn finish_request(&self, request: FinishRequest) -> StoreResult<bool>;

    /// Stores a request, the run that it starts and its answer in one write, by
    /// [`crate::model::decide_keyed_start`]. If the request key, the run's own key or its subject is in use,
    /// nothing is written. Parts that do not belong together ([`KeyedStart::is_consistent`]) are
    /// [`StoreError::Refused`].
    ///
    /// Sent again after it took effect, it finds its own run and answer.
    async fn start_keyed_run(&self, start: KeyedStart) -> StoreResult<KeyedStartOutcome>;

    /// Finds the record of a request key, expired or not.
    async fn find_request(
        &self,
        scope: &RequestScope,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<RequestRecord>>;

    /// Releases a key before it expires, and appends `note` to the journal in the same write if it takes
    /// effect.
    ///
    /// - A run key expires now.
    /// - A promise key expires now if its promise has ended or its run has ended. If it is claimed for a
    ///   future promise, the early settlement is deleted too.
    /// - A request key is deleted.
    ///
    /// The entry is a [`crate::model::JournalEvent::KeyReleased`]. It tells [`crate::fsck`] that a key which
    /// ended early is not a fault.
    async fn release_key(&self, request: ReleaseKey) -> StoreResult<ReleaseOutcome>;

    /// Adds to the usage counts of keys. Keys that do not exist are ignored. The counts start again when the
    /// key is given to another run or request, and are deleted with the key. More than
    /// [`crate::limits::MAX_KEY_USAGE_BATCH`] keys are [`super::StoreError::Refused`].
    async fn add_key_usage(&self, uses: Vec<KeyUsageDelta>) -> StoreResult<()>;

    /// Finds the usage counts of a key. Zeros if nothing was counted.
    async fn find_key_usage(&self, place: &KeyRef) -> StoreResult<KeyUsage>;

    /// Deletes request keys that are free ([`RequestRecord::is_free`]), with their counts, the longest free
    /// first. Also deletes requests that no process took over within [`crate::limits::ABANDONED_REQUEST_FOR`]
    /// after their hold ended. `limit` is at most [`crate::limits::MAX_PURGE`]. Returns the number deleted.
    /// The counts of run keys are deleted when [`super::Store::purge`] deletes the key.
    async fn purge_requests(&self, limit: usize) -> StoreResult<usize>;

    /// Finds when the oldest request key that is not free was first seen, in all workspaces.
    async fn find_oldest_request(&self) -> StoreResult<Option<Timestamp>>;
}

/// Identifies a key of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyRef {
    /// The key of a run.
    Run {
        /// The workspace.
        workspace: WorkspaceId,
        /// The key.
        key: IdempotencyKey,
    },
    /// The key of a promise, or one that is claimed for a future promise.
    Promise {
        /// The workspace.
        workspace: WorkspaceId,
        /// The key.
        key: IdempotencyKey,
    },
    /// The key of a request.
    Request {
        /// Scope of the key.
        scope: RequestScope,
        /// The key.
        key: IdempotencyKey,
    },
}

impl KeyRef {
    /// Workspace of the key.
    pub fn workspace(&self) -> &WorkspaceId {
        match self {
            KeyRef::Run { workspace, .. } | KeyRef::Promise { workspace, .. } => workspace,
            KeyRef::Request { scope, .. } => &scope.workspace,
        }
    }
}

impl From<StoredKey> for KeyRef {
    fn from(stored: StoredKey) -> Self {
        let StoredKey { workspace, kind, key } = stored;
        match kind {
            KeyKind::Run => KeyRef::Run { workspace, key },
            KeyKind::Promise => KeyRef::Promise { workspace, key },
        }
    }
}

/// An operator's request to release a key.
#[derive(Debug, Clone)]
pub struct ReleaseKey {
    /// The key.
    pub place: KeyRef,
    /// Entry for the journal.
    pub note: JournalEntry,
}

/// Outcome of [`ReleaseKey`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum ReleaseOutcome {
    /// The key is free.
    Released,
    /// The key is in use: its run is open, or its request is in progress.
    InUse {
        /// The run, if the key names one.
        run: Option<RunId>,
    },
    /// The key does not exist, or is free already.
    NoSuchKey,
}

/// Usage of a key since it was last counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUsageDelta {
    /// The key.
    pub place: KeyRef,
    /// Its usage.
    pub uses: KeyUsage,
}

/// Number of repeated uses of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyUsage {
    /// With the same request.
    pub replays: u64,
    /// With another request.
    pub conflicts: u64,
}

/// Rejects a batch that is too large.
pub fn check_usage_batch(uses: &[KeyUsageDelta]) -> StoreResult<()> {
    match uses.len() {
        many if many > MAX_KEY_USAGE_BATCH => Err(StoreError::Refused(format!(
            "{many} keys are more than the {MAX_KEY_USAGE_BATCH} that may be counted at once"
        ))),
        _ => Ok(()),
    }
}
