//! Entities and the operations that move them.

use std::any::Any;
use std::fmt;

use async_trait::async_trait;

use super::{PlacedEntry, StoreResult};
use crate::model::{
    BeginOperation, ClaimTo, EffectKey, Entity, EntityId, EntityNote, EntityRef, Failure, FinishOperation,
    Finished, Home, IdempotencyKey, Name, Operation, OperationBegun, OperationId, OperationStatus, OwnerId,
    Payload, TableRef, Timestamp, WorkspaceId,
};

/// Keeps entities, or finds them in tables of the user's, and moves them by operations.
///
/// An entity that lives in a table of the user's ([`Home::Table`]) is the row with that id. Its id and status are read and written as text; its
/// version is a whole number; `updated_at` is written as the column's type asks for (an instant, or milliseconds since 1970 in a column of whole numbers).
/// What is known of it is an object of the columns in [`TableRef::data`]. A table that is not there, or lacks a column, is
/// [`super::StoreError::Refused`], which says so.
#[async_trait]
pub trait EntityStore: Send + Sync {
    /// Makes an entity in the store's own table, with version 1; one that is there stays as it is.
    async fn create_entity(&self, request: NewEntity) -> StoreResult<CreatedEntity>;

    /// One entity.
    async fn find_entity(
        &self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &Home,
    ) -> StoreResult<Option<Entity>>;

    /// Entities of one kind in the order of their ids; those in a table of the user's in the order in which the database sorts that column.
    async fn list_entities(&self, request: ListEntities) -> StoreResult<Vec<Entity>>;

    /// Begins an operation, by [`crate::model::decide_begin_operation`]: the operation and the entity's claim are one write.
    ///
    /// If the request names a document, that has the version of [`crate::model::BeginFacts::document`] until the write is committed: whoever replaces it
    /// ([`super::Catalog::put_item`]) comes before it or after it.
    ///
    /// At most one operation per workspace and key, and at most one that holds an entity ([`Operation::holds_entity`]). The row of a table of the
    /// user's is only written where it still has the status and the version that were decided on.
    async fn begin_operation(&self, request: BeginOperation) -> StoreResult<OperationBegun>;

    /// Ends an operation, or leaves it to people, by [`crate::model::decide_finish_operation`]: the entity's new status, the operation, the after-effects (one
    /// whose id is there stays as it is) and the notes are one write.
    async fn finish_operation(&self, request: FinishOperation) -> StoreResult<Finished>;

    /// Does work of the user's in a transaction of the store's own and finishes an operation in the same commit, as [`super::Store::transact`] does for
    /// steps: if the work fails, or finishing does not take effect, nothing is there.
    async fn transact_operation(&self, request: TransactOperation) -> StoreResult<TransactedOperation> {
        drop(request);
        Err(super::StoreError::Refused("this store has no transactions that user code could share".into()))
    }

    /// Says that the holder of these pending operations lives; answers with those it no longer holds (another owner or attempt, or no
    /// longer pending). One that a run carries out has no other holder than the run: whoever follows it may say that it lives. At most [`crate::limits::MAX_HEARD`], more are [`super::StoreError::Refused`].
    async fn hear_of_operations(
        &self,
        owner: OwnerId,
        held: Vec<HeldOperation>,
    ) -> StoreResult<Vec<OperationId>>;

    /// Pending operations of all workspaces of the module whose holder has not been heard of since before `unheard_since`, the longest
    /// unheard first, at most `limit`, cut to [`crate::limits::MAX_STALE_CLAIMS`].
    async fn list_stale_operations(
        &self,
        module: &Name,
        unheard_since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Operation>>;

    /// Operations of all workspaces of the module that are in doubt, the longest in doubt first, after `after`; at most `limit`, cut to
    /// [`crate::limits::MAX_STALE_CLAIMS`].
    async fn list_doubted_operations(
        &self,
        module: &Name,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> StoreResult<Vec<Operation>>;

    /// Claims that pending operations of all workspaces hold, each once, in the order of modules; at most `limit`, cut to
    /// [`crate::limits::MAX_PAGE`].
    async fn list_open_claims(&self, limit: usize) -> StoreResult<Vec<OpenClaim>>;

    /// The operation that holds an entity, and the newest operation of each of these steps on it.
    async fn find_latest_operations(&self, request: FindLatest) -> StoreResult<LatestOperations>;

    /// Reverts rows in a table of the user's that are in a transient status without an operation, of whatever workspace, that holds them, because something else put them
    /// there, and that were last changed before `before`; at most `limit`. Answers which.
    async fn revert_strays(&self, request: RevertStrays) -> StoreResult<Vec<EntityId>>;

    /// One operation.
    async fn find_operation(
        &self,
        workspace: &WorkspaceId,
        id: OperationId,
    ) -> StoreResult<Option<Operation>>;

    /// The operation under a key.
    async fn find_keyed_operation(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Operation>>;

    /// Operations, newest (greatest id) first.
    async fn list_operations(&self, request: ListOperations) -> StoreResult<Vec<Operation>>;

    /// Deletes operations that ended before an instant, by [`Operation::is_forgettable`], each with its key and its after-effects. One
    /// pass looks at so many, in the order of workspaces and, within one, of ids; where it stopped, the next goes on. Notes stay: they tell of the entity.
    async fn purge_operations(&self, request: PurgeOperations) -> StoreResult<PurgedOperations>;

    /// Appends notes, and those of people and evidence ([`EntityNote::journalled`]) to the journal as well.
    async fn append_entity_notes(&self, notes: Vec<EntityNote>) -> StoreResult<()>;

    /// Notes about an entity, oldest first.
    async fn list_entity_notes(&self, request: ListEntityNotes) -> StoreResult<Vec<PlacedEntityNote>>;

    /// What the journal says of the tries under one effect key: first that the effect was found by its key, after the most tries first; then in the order of
    /// tries, of one try the weakest evidence first, then the oldest.
    async fn list_evidence(&self, request: ListEvidence) -> StoreResult<Vec<PlacedEntry>>;

    /// Refuses a table that cannot be used: not there, without one of its columns, or without a unique index on the id alone.
    async fn check_table(&self, table: &TableRef) -> StoreResult<()>;
}

/// An entity to be made.
#[derive(Debug, Clone)]
pub struct NewEntity {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Which.
    pub entity: EntityRef,
    /// The status it begins in.
    pub status: Name,
    /// What is known of it: a JSON object.
    pub data: Payload,
}

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CreatedEntity {
    /// It is made.
    Created(Entity),
    /// There is one with that id.
    Exists(Entity),
}

/// A claim that is held now, by one operation or more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenClaim {
    /// The module whose janitor looks after it.
    pub module: Name,
    /// The entity workflow.
    pub workflow: Name,
    /// The transient status.
    pub claim_into: Name,
}

/// Whose operations to look for.
#[derive(Debug, Clone)]
pub struct FindLatest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The entity.
    pub entity: EntityRef,
    /// The steps. More than [`crate::limits::MAX_PAGE`] are cut off.
    pub steps: Vec<Name>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatestOperations {
    /// The operation that holds the entity ([`Operation::holds_entity`]).
    pub holder: Option<Operation>,
    /// The newest of each step ([`Operation::seniority`]), in the order of the request. Steps without operations are left out.
    pub last: Vec<Operation>,
}

/// An operation that somebody holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOperation {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Which.
    pub operation: OperationId,
    /// Which attempt of it.
    pub attempt: u32,
}

/// Which entities to list.
#[derive(Debug, Clone)]
pub struct ListEntities {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// Of this kind.
    pub kind: Name,
    /// Where they live.
    pub home: Home,
    /// Only those in this status.
    pub status: Option<Name>,
    /// Only those after this id; where the page before ended.
    pub after: Option<EntityId>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Which operations to list.
#[derive(Debug, Clone)]
pub struct ListOperations {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// Only those on entities of this kind.
    pub kind: Option<Name>,
    /// Only those on this entity of that kind.
    pub entity: Option<EntityId>,
    /// Only those of this step.
    pub step: Option<Name>,
    /// Only those that stand so.
    pub status: Option<OperationStatus>,
    /// Only those before this id; where the page before ended.
    pub before: Option<OperationId>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// One bounded pass of forgetting operations.
#[derive(Debug, Clone)]
pub struct PurgeOperations {
    /// Only those that ended before this instant.
    pub ended_before: Timestamp,
    /// Go on after this one; where the pass before stopped.
    pub after: Option<OperationPlace>,
    /// How many to look at, at most; cut to [`crate::limits::MAX_PURGE`].
    pub limit: usize,
}

/// Where an operation is, in the order in which they are looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationPlace {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Which.
    pub operation: OperationId,
}

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PurgedOperations {
    /// Operations deleted.
    pub operations: usize,
    /// After-effects deleted with them.
    pub posts: usize,
    /// Where to go on; `None` when the pass reached the end.
    pub next: Option<OperationPlace>,
}

/// Which notes to list.
#[derive(Debug, Clone)]
pub struct ListEntityNotes {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// About this entity.
    pub entity: EntityRef,
    /// Only those about this operation.
    pub operation: Option<OperationId>,
    /// Only those after this place; where the page before ended.
    pub after: u64,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Which evidence to list.
#[derive(Debug, Clone)]
pub struct ListEvidence {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// About this effect.
    pub effect: EffectKey,
    /// Only about single tries after this one; 0 for all evidence.
    pub after_try: u32,
    /// How many entries at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// A note with its place; places rise, within one entity, in the order in which notes were written.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedEntityNote {
    /// Its place.
    pub place: u64,
    /// The note.
    pub note: EntityNote,
}

/// Rows that nothing holds.
#[derive(Debug, Clone)]
pub struct RevertStrays {
    /// The workspace in which it is noted.
    pub workspace: WorkspaceId,
    /// What kind of thing they are.
    pub kind: Name,
    /// The table.
    pub table: TableRef,
    /// The transient status, and where it goes back to.
    pub claim: ClaimTo,
    /// Only those last changed before this instant.
    pub before: Timestamp,
    /// How many at most; cut to [`crate::limits::MAX_STALE_CLAIMS`].
    pub limit: usize,
}

/// Work to be done, and an operation to be finished, in one commit.
pub struct TransactOperation {
    /// The work, in the form the store asks for ([`super::Transact::work`]).
    pub work: Box<dyn Any + Send + Sync>,
    /// Makes the request that finishes the operation out of what the work gave. A store may have to try more than once.
    pub finish: Box<dyn Fn(Payload) -> Result<FinishOperation, Failure> + Send + Sync>,
}

impl fmt::Debug for TransactOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransactOperation")
    }
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum TransactedOperation {
    /// The work was done; whether it stands is what finishing came to: it does only with [`Finished::Finished`].
    Worked(Finished),
    /// The work failed, or what it gave was refused; nothing of it is there.
    WorkFailed(Failure),
}
