//! Entities and the operations that move them.

use std::any::Any;
use std::fmt;

use async_trait::async_trait;

use super::{StoreResult, StoredJournalEntry};
use crate::model::{
    BeginOperation, BeginOperationOutcome, ClaimTo, EffectKey, Entity, EntityId, EntityJournalEntry,
    EntityRef, EntityStorage, Failure, FinishOperation, FinishOperationOutcome, IdempotencyKey, Name,
    Operation, OperationId, OperationStatus, OwnerId, Payload, TableRef, Timestamp, WorkspaceId,
};

/// Stores entities, or finds them in tables of the user, and moves them by operations.
///
/// An entity in a user's table ([`EntityStorage::UserTable`]) is the row with its id. Id and status are read
/// and written as text. The version is an integer. `updated_at` is written in the type of its column: an
/// instant, or milliseconds since 1970 in an integer column. The data of the entity is an object of the
/// columns in [`TableRef::data`]. If the table or a column is missing, calls return
/// [`super::StoreError::Refused`] with the reason.
#[async_trait]
pub trait EntityStore: Send + Sync {
    /// Creates an entity in the store's own table, with version 1. An existing entity is left unchanged.
    async fn create_entity(&self, request: NewEntity) -> StoreResult<CreateEntityOutcome>;

    /// Finds an entity.
    async fn find_entity(
        &self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &EntityStorage,
    ) -> StoreResult<Option<Entity>>;

    /// Lists entities of one kind in the order of their ids. For a user's table, the database defines the
    /// order of the id column.
    async fn list_entities(&self, request: ListEntities) -> StoreResult<Vec<Entity>>;

    /// Begins an operation, by [`crate::model::decide_begin_operation`]. The operation and the claim on the
    /// entity are one write.
    ///
    /// If the request names a document, the document keeps the version in
    /// [`crate::model::BeginFacts::document`] until the write is committed. A concurrent
    /// [`super::Catalog::put_item`] takes effect either before or after.
    ///
    /// There is at most one operation per workspace and key, and at most one that holds an entity
    /// ([`Operation::holds_entity`]). A row of a user's table is written only if it still has the status and
    /// version that the decision was based on.
    async fn begin_operation(&self, request: BeginOperation) -> StoreResult<BeginOperationOutcome>;

    /// Ends an operation or puts it in doubt, by [`crate::model::decide_finish_operation`]. The new status of
    /// the entity, the operation, the outbox messages and the journal entries are one write. A message whose
    /// id exists is left unchanged.
    async fn finish_operation(&self, request: FinishOperation) -> StoreResult<FinishOperationOutcome>;

    /// Runs user code in a transaction of the store and finishes an operation in the same commit, as
    /// [`super::Store::transact`] does for steps. If the code fails, or finishing does not take effect,
    /// nothing is written.
    async fn transact_operation(&self, request: TransactOperation) -> StoreResult<TransactOperationOutcome> {
        drop(request);
        Err(super::StoreError::Refused("this store has no transactions that user code could share".into()))
    }

    /// Records a heartbeat of the holder of these pending operations. Returns the operations that it no
    /// longer holds: they have another owner or attempt, or are no longer pending. If a run carries out an
    /// operation, any engine that follows the run may send the heartbeat. More than
    /// [`crate::limits::MAX_HEARTBEATS`] operations are [`super::StoreError::Refused`].
    async fn heartbeat_operations(
        &self,
        owner: OwnerId,
        held: Vec<HeldOperation>,
    ) -> StoreResult<Vec<OperationId>>;

    /// Lists pending operations of the module, in all workspaces, without a heartbeat since `unheard_since`.
    /// The oldest heartbeat comes first. `limit` is at most [`crate::limits::MAX_STALE_CLAIMS`].
    async fn list_stale_operations(
        &self,
        module: &Name,
        unheard_since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Operation>>;

    /// Lists operations of the module, in all workspaces, that are in doubt. The oldest doubt comes first.
    /// Starts after `after`. `limit` is at most [`crate::limits::MAX_STALE_CLAIMS`].
    async fn list_doubted_operations(
        &self,
        module: &Name,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> StoreResult<Vec<Operation>>;

    /// Lists the claims that pending operations of a workspace hold, or those of all workspaces, each once, in
    /// the order of modules. `limit` is at most [`crate::limits::MAX_PAGE`].
    async fn list_open_claims(
        &self,
        workspace: Option<&WorkspaceId>,
        limit: usize,
    ) -> StoreResult<Vec<OpenClaim>>;

    /// Finds the operation that holds an entity, and the newest operation of each of these steps on it.
    async fn find_latest_operations(&self, request: FindLatestOperations) -> StoreResult<LatestOperations>;

    /// Reverts rows of a user's table that are in a transient status although no operation of any workspace
    /// holds them, because something else put them there. Only rows last changed before `before` are
    /// reverted, at most `limit`. Returns their ids.
    async fn revert_strays(&self, request: RevertStrays) -> StoreResult<Vec<EntityId>>;

    /// Finds an operation.
    async fn find_operation(
        &self,
        workspace: &WorkspaceId,
        id: OperationId,
    ) -> StoreResult<Option<Operation>>;

    /// Finds the operation under a key.
    async fn find_keyed_operation(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Operation>>;

    /// Lists operations, newest (greatest id) first.
    async fn list_operations(&self, request: ListOperations) -> StoreResult<Vec<Operation>>;

    /// Deletes operations that ended before an instant, by [`Operation::is_purgeable`], each with its key and
    /// its outbox messages. One pass looks at a limited number, in the order of workspace and id. The next
    /// pass continues where it stopped. Journal entries about the entity are kept.
    async fn purge_operations(&self, request: PurgeOperations) -> StoreResult<PurgeOperationsOutcome>;

    /// Appends entries to the journals of entities. Evidence and entries of people also go to the journal of
    /// the workspace ([`EntityJournalEntry::to_journal_entry`]).
    async fn append_entity_journal(&self, notes: Vec<EntityJournalEntry>) -> StoreResult<()>;

    /// Lists entries about an entity, oldest first.
    async fn list_entity_journal(&self, request: ListEntityJournal) -> StoreResult<Vec<StoredEntityEntry>>;

    /// Lists the evidence in the journal about one effect key. Evidence found by the key comes first, the one
    /// after the most attempts leading. Then come single attempts in their order; for one attempt, the weakest
    /// evidence comes first, then the oldest.
    async fn list_evidence(&self, request: ListEvidence) -> StoreResult<Vec<StoredJournalEntry>>;

    /// Rejects a table that cannot be used: it does not exist, lacks one of its columns, or has no unique
    /// index on the id alone.
    async fn check_table(&self, table: &TableRef) -> StoreResult<()>;
}

/// An entity to create.
#[derive(Debug, Clone)]
pub struct NewEntity {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Identifies the entity.
    pub entity: EntityRef,
    /// Initial status.
    pub status: Name,
    /// Data of the entity: a JSON object.
    pub data: Payload,
}

/// Outcome of [`EntityStore::create_entity`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CreateEntityOutcome {
    /// Created.
    Created(Entity),
    /// An entity with that id exists.
    Exists(Entity),
}

/// A claim that at least one operation holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenClaim {
    /// The module whose janitor is responsible for it.
    pub module: Name,
    /// The entity workflow.
    pub workflow: Name,
    /// The transient status.
    pub claim_into: Name,
}

/// Selects the operations to find.
#[derive(Debug, Clone)]
pub struct FindLatestOperations {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The entity.
    pub entity: EntityRef,
    /// The steps, at most [`crate::limits::MAX_PAGE`]. Further ones are ignored.
    pub steps: Vec<Name>,
}

/// Outcome of [`FindLatestOperations`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatestOperations {
    /// The operation that holds the entity ([`Operation::holds_entity`]).
    pub holder: Option<Operation>,
    /// The newest operation of each step ([`Operation::begin_order`]), in the order of the request. Steps
    /// without operations are left out.
    pub last: Vec<Operation>,
}

/// An operation that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOperation {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Id of the operation.
    pub operation: OperationId,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Selects entities to list.
#[derive(Debug, Clone)]
pub struct ListEntities {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Kind of the entities.
    pub kind: Name,
    /// Where they are stored.
    pub home: EntityStorage,
    /// Only this status.
    pub status: Option<Name>,
    /// Only entities after this id, the last of the previous page.
    pub after: Option<EntityId>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Selects operations to list.
#[derive(Debug, Clone)]
pub struct ListOperations {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Only operations on entities of this kind.
    pub kind: Option<Name>,
    /// Only operations on this entity of that kind.
    pub entity: Option<EntityId>,
    /// Only operations of this step.
    pub step: Option<Name>,
    /// Only this status.
    pub status: Option<OperationStatus>,
    /// Only operations before this id, the last of the previous page.
    pub before: Option<OperationId>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// One bounded pass that purges operations.
#[derive(Debug, Clone)]
pub struct PurgeOperations {
    /// Only operations that ended before this instant.
    pub ended_before: Timestamp,
    /// Continue after this operation, where the previous pass stopped.
    pub after: Option<OperationCursor>,
    /// Maximum number of operations to look at, at most [`crate::limits::MAX_PURGE`].
    pub limit: usize,
}

/// Position of an operation in the order of purging.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationCursor {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Id of the operation.
    pub operation: OperationId,
}

/// Outcome of [`PurgeOperations`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PurgeOperationsOutcome {
    /// Operations deleted.
    pub operations: usize,
    /// Outbox messages deleted with them.
    pub posts: usize,
    /// Where the next pass continues. `None` at the end.
    pub next: Option<OperationCursor>,
}

/// Selects journal entries about an entity.
#[derive(Debug, Clone)]
pub struct ListEntityJournal {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The entity.
    pub entity: EntityRef,
    /// Only entries about this operation.
    pub operation: Option<OperationId>,
    /// Only entries after this sequence number, the last of the previous page.
    pub after: u64,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Selects evidence to list.
#[derive(Debug, Clone)]
pub struct ListEvidence {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The effect.
    pub effect: EffectKey,
    /// Only single attempts after this one. 0 for all evidence.
    pub after_try: u32,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// A journal entry with its sequence number. Within one entity, numbers rise in the order of writing.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntityEntry {
    /// Sequence number.
    pub place: u64,
    /// The entry.
    pub note: EntityJournalEntry,
}

/// Selects stray rows to revert: rows in a transient status that no operation holds.
#[derive(Debug, Clone)]
pub struct RevertStrays {
    /// Workspace that records the revert.
    pub workspace: WorkspaceId,
    /// Kind of the entities.
    pub kind: Name,
    /// The table.
    pub table: TableRef,
    /// The transient status, and the status to revert to.
    pub claim: ClaimTo,
    /// Only rows last changed before this instant.
    pub before: Timestamp,
    /// Maximum number, at most [`crate::limits::MAX_STALE_CLAIMS`].
    pub limit: usize,
}

/// User code to run, and an operation to finish, in one commit.
pub struct TransactOperation {
    /// The code, in the form the store requires ([`super::Transact::work`]).
    pub work: Box<dyn Any + Send + Sync>,
    /// Builds the request that finishes the operation from the output of the code. A store may call it more
    /// than once.
    pub finish: Box<dyn Fn(Payload) -> Result<FinishOperation, Failure> + Send + Sync>,
}

impl fmt::Debug for TransactOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransactOperation")
    }
}

/// Outcome of [`TransactOperation`].
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum TransactOperationOutcome {
    /// The code succeeded. Its writes are committed only with [`FinishOperationOutcome::Finished`].
    Worked(FinishOperationOutcome),
    /// The code failed, or its output was refused. Nothing was written.
    WorkFailed(Failure),
}
