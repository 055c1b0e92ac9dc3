//! Checks entities and their holders: one holder each, and a claim that both agree on.

use std::collections::{BTreeMap, BTreeSet};

use super::invariant::{COMMITTED_TOGETHER, ONE_HOLDER, ONE_RUN_PER_KEY};
use super::report::{Report, Violation};
use crate::limits::MAX_PAGE;
use crate::model::{EntityRef, EntityStorage, Operation, OperationId, OperationStatus, WorkspaceId};
use crate::store::{EntityStore, ListOperations, Store, StoreError, StoreResult};

/// Statuses of operations that may hold an entity.
const HOLDING: [OperationStatus; 2] = [OperationStatus::Pending, OperationStatus::InDoubt];

/// Operations seen to hold each entity.
type Holders = BTreeMap<EntityRef, BTreeSet<OperationId>>;

/// Checks every operation that has not ended. Ended operations are history: their results may have changed
/// since.
pub(super) async fn check_all(
    store: &dyn Store,
    workspaces: &BTreeSet<WorkspaceId>,
    report: &mut Report,
) -> StoreResult<()> {
    let Some(book) = store.entity_store() else { return Ok(()) };
    for workspace in workspaces {
        let mut holders = Holders::new();
        for status in HOLDING {
            check_listed(book, workspace, status, &mut holders, report).await?;
        }
        for (entity, ids) in holders.iter().filter(|(_, ids)| ids.len() > 1) {
            check_holders(book, workspace, entity, ids, report).await?;
        }
    }
    Ok(())
}

async fn check_listed(
    book: &dyn EntityStore,
    workspace: &WorkspaceId,
    status: OperationStatus,
    holders: &mut Holders,
    report: &mut Report,
) -> StoreResult<()> {
    let mut before = None;
    loop {
        let request = ListOperations {
            workspace: workspace.clone(),
            kind: None,
            entity: None,
            step: None,
            status: Some(status),
            before,
            limit: MAX_PAGE,
        };
        let page = book.list_operations(request).await?;
        let Some(last) = page.last() else { return Ok(()) };
        if before.is_some_and(|before| last.id >= before) {
            return Err(StoreError::Broken(format!("the list of operations goes back at {}", last.id)));
        }
        before = Some(last.id);
        for operation in &page {
            report.operations += 1;
            check_key(book, operation, report).await?;
            if operation.holds_entity() {
                holders.entry(operation.entity.clone()).or_default().insert(operation.id);
                check_claim(book, operation, report).await?;
            }
        }
    }
}

/// Checks that the key of an operation names it.
async fn check_key(book: &dyn EntityStore, operation: &Operation, report: &mut Report) -> StoreResult<()> {
    let Some(key) = &operation.key else { return Ok(()) };
    let named = book.find_keyed_operation(&operation.workspace, key).await?.map(|named| named.id);
    if named != Some(operation.id) {
        let named = named.map_or_else(|| "nothing".into(), |named| named.to_string());
        add(report, ONE_RUN_PER_KEY, format!("the key of {} names {named}", operation.id));
    }
    Ok(())
}

/// Checks that the entity is in the status that the operation claimed it into. Only entities in the store's
/// own table are checked, because others may write to a user's table too.
async fn check_claim(book: &dyn EntityStore, operation: &Operation, report: &mut Report) -> StoreResult<()> {
    let (Some(claim), EntityStorage::BuiltIn) = (&operation.claim, &operation.home) else { return Ok(()) };
    let (workspace, entity) = (&operation.workspace, &operation.entity);
    let found = book.find_entity(workspace, entity, &operation.home).await?;
    let stands = found.map(|found| found.status);
    if stands.as_ref() == Some(&claim.into) {
        return Ok(());
    }
    if !still_holds(book, operation).await? {
        report.moving_operations += 1;
        return Ok(());
    }
    let stands = stands.map_or_else(|| "is not there".into(), |status| format!("is {status}"));
    let what = format!("{} claimed {entity} into {}, but it {stands}", operation.id, claim.into);
    add(report, COMMITTED_TOGETHER, what);
    Ok(())
}

/// Checks an entity with several holders. They may have held it one after the other while they were listed.
async fn check_holders(
    book: &dyn EntityStore,
    workspace: &WorkspaceId,
    entity: &EntityRef,
    ids: &BTreeSet<OperationId>,
    report: &mut Report,
) -> StoreResult<()> {
    let mut holding = Vec::new();
    for id in ids {
        holding.extend(book.find_operation(workspace, *id).await?.filter(Operation::holds_entity));
    }
    // Each operation is read before and after all the others. Operations that hold the entity both times held
    // it together.
    let mut together = Vec::new();
    for operation in &holding {
        if still_holds(book, operation).await? {
            together.push(operation.id.to_string());
        }
    }
    match together.len() {
        0 | 1 => report.moving_operations += 1,
        _ => add(report, ONE_HOLDER, format!("{entity} is held by {}", together.join(" and "))),
    }
    Ok(())
}

/// Returns true if it still holds its entity in the same attempt. It then held it all the time.
async fn still_holds(book: &dyn EntityStore, operation: &Operation) -> StoreResult<bool> {
    let now = book.find_operation(&operation.workspace, operation.id).await?;
    Ok(now.is_some_and(|now| now.holds_entity() && now.attempt == operation.attempt))
}

fn add(report: &mut Report, invariant: u8, what: String) {
    report.add(Violation { invariant, run: None, what });
}
