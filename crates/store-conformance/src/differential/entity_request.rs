//! One call of the entity store as data, so that it can be sent twice and its answers compared.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    BeginOperation, BeginOperationOutcome, Entity, EntityId, EntityJournalEntry, EntityRef, EntityStorage,
    FinishOperation, FinishOperationOutcome, IdempotencyKey, JournalEntry, Name, Operation, OperationId,
    OwnerId, Timestamp, WorkspaceId,
};
use hapax_engine::store::*;

#[derive(Debug, Clone)]
pub(super) enum EntityRequest {
    Create(NewEntity),
    Begin(Box<BeginOperation>),
    Finish(Box<FinishOperation>),
    Hear(OwnerId, Vec<HeldOperation>),
    ListStale(Name, Timestamp),
    ListDoubted(Name, Option<(Timestamp, OperationId)>),
    ListOpenClaims(Option<WorkspaceId>),
    FindLatestOperations(FindLatestOperations),
    PutDocument(Box<PutCatalogItem>),
    RevertStrays(RevertStrays),
    Purge(PurgeOperations),
    AppendJournal(Vec<EntityJournalEntry>),
    FindEntity(WorkspaceId, EntityRef, EntityStorage),
    ListEntities(ListEntities),
    FindOperation(WorkspaceId, OperationId),
    FindKeyed(WorkspaceId, IdempotencyKey),
    ListOperations(ListOperations),
    /// Number of notes to skip: each store has its own positions.
    ListJournal(ListEntityJournal, usize),
    ListEvidence(ListEvidence),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum EntityAnswer {
    Create(CreateEntityOutcome),
    Begin(Box<BeginOperationOutcome>),
    Finish(Box<FinishOperationOutcome>),
    Hear(Vec<OperationId>),
    ListStale(Vec<Operation>),
    ListDoubted(Vec<Operation>),
    ListOpenClaims(Vec<OpenClaim>),
    FindLatestOperations(Box<LatestOperations>),
    PutDocument(Box<PutOutcome>),
    RevertStrays(Vec<EntityId>),
    Purge(PurgeOperationsOutcome),
    AppendJournal,
    FindEntity(Option<Entity>),
    ListEntities(Vec<Entity>),
    FindOperation(Option<Box<Operation>>),
    FindKeyed(Option<Box<Operation>>),
    ListOperations(Vec<Operation>),
    ListJournal(Vec<EntityJournalEntry>),
    ListEvidence(Vec<JournalEntry>),
}

impl EntityRequest {
    pub(super) async fn send(self, store: &dyn Store) -> StoreResult<EntityAnswer> {
        let book = store.entity_store().expect("the store keeps entities");
        Ok(match self {
            EntityRequest::Create(new) => EntityAnswer::Create(book.create_entity(new).await?),
            EntityRequest::Begin(request) => {
                EntityAnswer::Begin(Box::new(book.begin_operation(*request).await?))
            }
            EntityRequest::Finish(request) => {
                EntityAnswer::Finish(Box::new(book.finish_operation(*request).await?))
            }
            EntityRequest::Hear(owner, held) => {
                let mut lost = book.heartbeat_operations(owner, held).await?;
                lost.sort();
                EntityAnswer::Hear(lost)
            }
            EntityRequest::ListStale(module, unheard_since) => {
                let mut stale = book.list_stale_operations(&module, unheard_since, usize::MAX).await?;
                assert!(
                    stale.is_sorted_by_key(|operation| operation.state.at()),
                    "the longest unheard first"
                );
                // The order of operations with the same heartbeat time is undefined.
                stale.sort_by_key(|operation| (operation.state.at(), operation.id));
                EntityAnswer::ListStale(stale)
            }
            EntityRequest::ListDoubted(module, after) => {
                EntityAnswer::ListDoubted(book.list_doubted_operations(&module, after, usize::MAX).await?)
            }
            EntityRequest::ListOpenClaims(workspace) => {
                EntityAnswer::ListOpenClaims(book.list_open_claims(workspace.as_ref(), usize::MAX).await?)
            }
            EntityRequest::FindLatestOperations(request) => {
                EntityAnswer::FindLatestOperations(Box::new(book.find_latest_operations(request).await?))
            }
            EntityRequest::PutDocument(request) => {
                let catalog = store.catalog().expect("the store has a catalog");
                EntityAnswer::PutDocument(Box::new(catalog.put_item(*request).await?))
            }
            EntityRequest::RevertStrays(request) => {
                let mut reverted = book.revert_strays(request).await?;
                reverted.sort();
                EntityAnswer::RevertStrays(reverted)
            }
            EntityRequest::Purge(request) => EntityAnswer::Purge(book.purge_operations(request).await?),
            EntityRequest::AppendJournal(notes) => {
                book.append_entity_journal(notes).await?;
                EntityAnswer::AppendJournal
            }
            EntityRequest::FindEntity(workspace, entity, home) => {
                EntityAnswer::FindEntity(book.find_entity(&workspace, &entity, &home).await?)
            }
            EntityRequest::ListEntities(request) => {
                EntityAnswer::ListEntities(book.list_entities(request).await?)
            }
            EntityRequest::FindOperation(workspace, id) => {
                EntityAnswer::FindOperation(book.find_operation(&workspace, id).await?.map(Box::new))
            }
            EntityRequest::FindKeyed(workspace, key) => {
                EntityAnswer::FindKeyed(book.find_keyed_operation(&workspace, &key).await?.map(Box::new))
            }
            EntityRequest::ListOperations(request) => {
                EntityAnswer::ListOperations(book.list_operations(request).await?)
            }
            EntityRequest::ListEvidence(request) => {
                let found = book.list_evidence(request).await?;
                EntityAnswer::ListEvidence(found.into_iter().map(|placed| placed.note).collect())
            }
            EntityRequest::ListJournal(request, skip) => {
                EntityAnswer::ListJournal(list_journal(book, request, skip).await?)
            }
        })
    }

    /// Reads of the data that the request is about.
    pub(super) fn reads(&self) -> Vec<EntityRequest> {
        match self {
            EntityRequest::Create(new) => {
                vec![EntityRequest::FindEntity(
                    new.workspace.clone(),
                    new.entity.clone(),
                    EntityStorage::BuiltIn,
                )]
            }
            EntityRequest::Begin(request) => {
                let (workspace, entity) = (request.workspace.clone(), request.entity.clone());
                vec![
                    EntityRequest::FindEntity(workspace.clone(), entity, request.home.clone()),
                    EntityRequest::FindOperation(workspace, request.id),
                ]
            }
            EntityRequest::Finish(request) => {
                vec![EntityRequest::FindOperation(request.workspace.clone(), request.operation)]
            }
            _ => Vec::new(),
        }
    }
}

impl EntityAnswer {
    /// The operations that the answer contains, in their current state.
    pub(super) fn operations(&self) -> Vec<Operation> {
        match self {
            EntityAnswer::Begin(begun) => match &**begun {
                BeginOperationOutcome::Begun { operation, .. } => vec![(**operation).clone()],
                _ => Vec::new(),
            },
            EntityAnswer::ListStale(operations) => operations.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn label(&self) -> String {
        let some = |verb: &str, none: bool| format!("{verb}: {}", if none { "none" } else { "some" });
        match self {
            EntityAnswer::Create(CreateEntityOutcome::Created(_)) => "create entity: created".into(),
            EntityAnswer::Create(CreateEntityOutcome::Exists(_)) => "create entity: exists".into(),
            EntityAnswer::Begin(begun) => format!("begin: {}", begin(begun)),
            EntityAnswer::Finish(finished) => format!("finish: {}", finish(finished)),
            EntityAnswer::Hear(lost) => {
                format!("hear: {}", if lost.is_empty() { "all held" } else { "some lost" })
            }
            EntityAnswer::ListStale(stale) => some("list stale operations", stale.is_empty()),
            EntityAnswer::ListDoubted(doubted) => some("list doubted operations", doubted.is_empty()),
            EntityAnswer::ListOpenClaims(open) => some("list open claims", open.is_empty()),
            EntityAnswer::FindLatestOperations(found) => {
                some("find latest operations", found.holder.is_none() && found.last.is_empty())
            }
            EntityAnswer::PutDocument(_) => "put document".into(),
            EntityAnswer::RevertStrays(reverted) => some("revert strays", reverted.is_empty()),
            EntityAnswer::Purge(purged) => format!("purge operations: {}", purge(purged)),
            EntityAnswer::AppendJournal => "append entity notes".into(),
            EntityAnswer::FindEntity(found) => some("find entity", found.is_none()),
            EntityAnswer::ListEntities(entities) => some("list entities", entities.is_empty()),
            EntityAnswer::FindOperation(found) => some("find operation", found.is_none()),
            EntityAnswer::FindKeyed(found) => some("find keyed operation", found.is_none()),
            EntityAnswer::ListOperations(operations) => some("list operations", operations.is_empty()),
            EntityAnswer::ListJournal(notes) => some("list entity notes", notes.is_empty()),
            EntityAnswer::ListEvidence(notes) => some("list evidence", notes.is_empty()),
        }
    }
}

/// Every answer that a run of seeds must produce.
pub(super) const WANTED: &[&str] = &[
    "create entity: created",
    "create entity: exists",
    "begin: begun",
    "begin: begun, another attempt",
    "begin: begun, overridden",
    "begin: recorded",
    "begin: key conflict",
    "begin: claim failed",
    "begin: not allowed",
    "begin: override required",
    "begin: begun, in place of what may have happened",
    "begin: document changed",
    "begin: stale",
    "begin: no such entity",
    "finish: done",
    "finish: rejected or failed",
    "finish: reverted",
    "finish: did not happen",
    "finish: in doubt",
    "finish: tried again",
    "list doubted operations: some",
    "list doubted operations: none",
    "list open claims: some",
    "find latest operations: some",
    "find latest operations: none",
    "put document",
    "finish: without a change of the entity",
    "finish: again",
    "finish: lost",
    "finish: no such operation",
    "finish: stale",
    "hear: all held",
    "hear: some lost",
    "list stale operations: some",
    "list stale operations: none",
    "purge operations: some",
    "purge operations: some with after-effects",
    "purge operations: more to do",
    "purge operations: nothing",
    "append entity notes",
    "find entity: some",
    "find entity: none",
    "list entities: some",
    "list entities: none",
    "find operation: some",
    "find operation: none",
    "find keyed operation: some",
    "find keyed operation: none",
    "list operations: some",
    "list operations: none",
    "list entity notes: some",
    "list entity notes: none",
    "list evidence: some",
    "list evidence: none",
];

/// Additional answers if the stores have tables of the user.
pub(super) const WANTED_OF_TABLES: &[&str] =
    &["begin: claim failed, by nobody known", "revert strays: some", "revert strays: none"];

fn begin(begun: &BeginOperationOutcome) -> &'static str {
    match begun {
        BeginOperationOutcome::Begun { notes, .. } if notes.iter().any(|note| note.by.is_some()) => {
            "begun, overridden"
        }
        BeginOperationOutcome::Begun { operation, .. } if operation.attempt > 1 => "begun, another attempt",
        BeginOperationOutcome::Begun { operation, .. } if operation.effect_of != operation.id => {
            "begun, in place of what may have happened"
        }
        BeginOperationOutcome::Begun { .. } => "begun",
        BeginOperationOutcome::DocumentChanged(_) => "document changed",
        BeginOperationOutcome::Recorded(_) => "recorded",
        BeginOperationOutcome::KeyConflict(_) => "key conflict",
        BeginOperationOutcome::ClaimFailed(Some(_)) => "claim failed",
        BeginOperationOutcome::ClaimFailed(None) => "claim failed, by nobody known",
        BeginOperationOutcome::NotAllowed(_) => "not allowed",
        BeginOperationOutcome::OverrideRequired(_) => "override required",
        BeginOperationOutcome::Stale(_) => "stale",
        BeginOperationOutcome::NoSuchEntity => "no such entity",
    }
}

fn finish(finished: &FinishOperationOutcome) -> &'static str {
    use hapax_engine::model::{OperationState, OperationStatus};
    match finished {
        FinishOperationOutcome::Finished { operation, entity, .. } => {
            match (operation.state.status(), entity) {
                (OperationStatus::Done, _) => "done",
                (OperationStatus::InDoubt, _) => "in doubt",
                (OperationStatus::Pending, _) => "tried again",
                (OperationStatus::Reverted, _)
                    if matches!(operation.state, OperationState::Reverted { settled: true, .. }) =>
                {
                    "did not happen"
                }
                (_, None) => "without a change of the entity",
                (OperationStatus::Reverted, Some(_)) => "reverted",
                (_, Some(_)) => "rejected or failed",
            }
        }
        FinishOperationOutcome::Again(_) => "again",
        FinishOperationOutcome::Lost(Some(_)) => "lost",
        FinishOperationOutcome::Lost(None) => "no such operation",
        FinishOperationOutcome::Stale(_) => "stale",
    }
}

fn purge(purged: &PurgeOperationsOutcome) -> &'static str {
    match purged {
        PurgeOperationsOutcome { next: Some(_), .. } => "more to do",
        PurgeOperationsOutcome { posts: 1.., .. } => "some with after-effects",
        PurgeOperationsOutcome { operations: 1.., .. } => "some",
        PurgeOperationsOutcome { .. } => "nothing",
    }
}

/// The page after the first `skip` matching notes.
async fn list_journal(
    book: &dyn EntityStore,
    request: ListEntityJournal,
    skip: usize,
) -> StoreResult<Vec<EntityJournalEntry>> {
    let all = ListEntityJournal { after: 0, limit: MAX_PAGE, ..request.clone() };
    let all = book.list_entity_journal(all).await?;
    assert!(all.len() < MAX_PAGE && all.is_sorted_by(|a, b| a.place < b.place), "{all:#?}");
    let after = skip.checked_sub(1).and_then(|last| all.get(last)).map_or(0, |placed| placed.place);
    let page = book.list_entity_journal(ListEntityJournal { after, ..request }).await?;
    Ok(page.into_iter().map(|placed| placed.note).collect())
}
