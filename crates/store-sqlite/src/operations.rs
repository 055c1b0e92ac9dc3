//! Operations as rows.

use std::borrow::Cow;
use std::time::Duration;

use hapax_engine::model::{
    Actor, ClaimTo, EntityId, EntityRef, EntityStorage, Fingerprint, IdempotencyKey, Name, Operation,
    OperationId, OperationState, OperationStatus, OwnerId, Payload, Timestamp, Version, WorkspaceId,
};
use rusqlite::{Connection, params};

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::read::find_workspace;
use crate::rows::{self, Columns, broken, failure_text};
use crate::session::{Session, WorkspaceRowId};
use crate::statements::Statements;

/// The id of an operation as it is kept: 16 bytes that sort like the id.
pub(crate) fn operation_bytes(id: OperationId) -> [u8; 16] {
    id.as_u128().to_be_bytes()
}

/// A workspace by its name and its number.
#[derive(Clone, Copy)]
pub(crate) struct Workspace<'w> {
    pub(crate) number: WorkspaceRowId,
    pub(crate) name: &'w WorkspaceId,
}

pub(crate) fn find_operation(
    connection: &Connection,
    workspace: &WorkspaceId,
    id: OperationId,
) -> Result<Option<Operation>, Fault> {
    match find_workspace(connection, workspace)? {
        Some(number) => {
            find_operation_in(&Statements::new(connection), Workspace { number, name: workspace }, id)
        }
        None => Ok(None),
    }
}

pub(crate) fn find_keyed_operation(
    connection: &Connection,
    workspace: &WorkspaceId,
    key: &IdempotencyKey,
) -> Result<Option<Operation>, Fault> {
    match find_workspace(connection, workspace)? {
        Some(number) => {
            find_keyed_operation_in(&Statements::new(connection), Workspace { number, name: workspace }, key)
        }
        None => Ok(None),
    }
}

pub(crate) fn find_operation_in(
    statements: &Statements<'_>,
    workspace: Workspace<'_>,
    id: OperationId,
) -> Result<Option<Operation>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_operation.sql"))?;
    let found = find.query(params![workspace.number.0, operation_bytes(id)])?;
    rows::at_most_one(found, |mut row| operation(workspace.name, &mut row))
}

pub(crate) fn find_keyed_operation_in(
    statements: &Statements<'_>,
    workspace: Workspace<'_>,
    key: &IdempotencyKey,
) -> Result<Option<Operation>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_keyed_operation.sql"))?;
    let found = find.query(params![workspace.number.0, key.as_str()])?;
    rows::at_most_one(found, |mut row| operation(workspace.name, &mut row))
}

/// The operation that holds an entity.
pub(crate) fn find_holder(
    statements: &Statements<'_>,
    workspace: Workspace<'_>,
    entity: &EntityRef,
) -> Result<Option<Operation>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_holder.sql"))?;
    let found = find.query(params![workspace.number.0, entity.kind.as_str(), entity.id.as_str()])?;
    rows::at_most_one(found, |mut row| operation(workspace.name, &mut row))
}

/// Does an operation hold the entity, in whatever workspace?
pub(crate) fn is_held(connection: &Connection, entity: &EntityRef) -> Result<bool, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/is_held.sql"))?;
    Ok(find.exists(params![entity.kind.as_str(), entity.id.as_str()])?)
}

/// The newest operation of a step on an entity.
pub(crate) fn find_last_operation(
    statements: &Statements<'_>,
    workspace: Workspace<'_>,
    entity: &EntityRef,
    step: &Name,
) -> Result<Option<Operation>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_last_operation.sql"))?;
    let of_step = params![workspace.number.0, entity.kind.as_str(), entity.id.as_str(), step.as_str()];
    rows::at_most_one(find.query(of_step)?, |mut row| operation(workspace.name, &mut row))
}

/// Writes all of an operation, whether it is there or not.
pub(crate) fn put_operation(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    operation: &Operation,
) -> Result<(), Fault> {
    let home = match operation.home.table() {
        Some(table) => Some(serde_json::to_string(table).map_err(|error| Fault::Broken(error.to_string()))?),
        None => None,
    };
    session.prepare(include_str!("../sql/put_operation.sql"))?.execute(params![
        workspace.0,
        operation_bytes(operation.id),
        operation.entity.kind.as_str(),
        operation.entity.id.as_str(),
        home,
        operation.workflow.as_str(),
        operation.module.as_str(),
        operation.step.as_str(),
        operation.requester.as_ref().map(Name::as_str),
        operation.by.as_ref().map(|by| by.name.as_str()),
        operation.by.as_ref().map(|by| by.role.code()),
        operation.key.as_ref().map(IdempotencyKey::as_str),
        operation.fingerprint.as_bytes(),
        operation.from.as_str(),
        operation.to.as_str(),
        operation.claim.as_ref().map(|claim| claim.into.as_str()),
        operation.claim.as_ref().map(|claim| claim.revert_to.as_str()),
        operation.recovery.code(),
        operation.irreversible,
        operation.document.map(|document| count(document.get())),
        (operation.effect_of != operation.id).then(|| operation_bytes(operation.effect_of)),
        operation.may_repeat,
        operation.done_before,
        span_millis(operation.grace),
        operation.tries,
        operation.tries_before,
        is_settled(&operation.state),
        operation.run.map(rows::bytes),
        count(operation.version.get()),
        operation.attempt,
        operation.owner.as_u128().to_be_bytes(),
        millis(operation.began_at),
        operation.state.status().code(),
        millis(operation.state.at()),
        state_value(&operation.state)?,
        operation.input.as_str(),
    ])?;
    Ok(())
}

/// Writes what has become of an operation.
pub(crate) fn write_state(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    operation: &Operation,
) -> Result<(), Fault> {
    let changed = session.prepare(include_str!("../sql/finish_operation.sql"))?.execute(params![
        workspace.0,
        operation_bytes(operation.id),
        operation.attempt,
        operation.state.status().code(),
        millis(operation.state.at()),
        state_value(&operation.state)?,
        operation.tries,
        is_settled(&operation.state),
        operation.tries_before,
    ])?;
    match changed {
        1 => Ok(()),
        n => Err(Fault::Broken(format!("writing {} changed {n} rows", operation.id))),
    }
}

/// Was it given back because it is known not to have happened?
fn is_settled(state: &OperationState) -> bool {
    matches!(state, OperationState::Reverted { settled: true, .. })
}

fn span_millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// The value of a state; its status says what it means.
fn state_value(state: &OperationState) -> Result<Option<Cow<'_, str>>, Fault> {
    Ok(match state {
        OperationState::Pending { .. } | OperationState::Reverted { .. } | OperationState::InDoubt { .. } => {
            None
        }
        OperationState::Done { result, .. } => Some(result.as_str().into()),
        OperationState::Rejected { failure, .. } | OperationState::Failed { failure, .. } => {
            Some(failure_text(failure)?.into())
        }
    })
}

/// An operation of `workspace`, from where the row stands.
pub(crate) fn operation(workspace: &WorkspaceId, row: &mut Columns<'_>) -> Result<Operation, Fault> {
    let id = OperationId::from_u128(u128::from_be_bytes(row.get()?));
    let kind = name("kind", row)?;
    let entity = EntityRef { kind, id: EntityId::new(row.text()?).map_err(broken)? };
    let home = match row.maybe_text()? {
        Some(table) => EntityStorage::UserTable(serde_json::from_str(table).map_err(broken)?),
        None => EntityStorage::BuiltIn,
    };
    let workflow = name("workflow", row)?;
    let module = name("module", row)?;
    let step = name("step", row)?;
    let requester = maybe_name("requester", row)?;
    let by = actor(row)?;
    let key = rows::maybe_key_text(row)?;
    let fingerprint = Fingerprint::from_bytes(row.get()?);
    let from = name("status", row)?;
    let to = name("status", row)?;
    let claim = match (maybe_name("status", row)?, maybe_name("status", row)?) {
        (Some(into), Some(revert_to)) => Some(ClaimTo { into, revert_to }),
        _ => None,
    };
    let recovery = row.code()?;
    let irreversible = row.get()?;
    let document = row.get::<Option<i64>>()?.map(|version| Version::new(version.unsigned_abs()));
    let effect_of = row.get::<Option<[u8; 16]>>()?;
    let effect_of = effect_of.map_or(id, |bytes| OperationId::from_u128(u128::from_be_bytes(bytes)));
    let may_repeat = row.get()?;
    let done_before = row.get()?;
    let grace = Duration::from_millis(row.count()?);
    let tries = row.get()?;
    let tries_before = row.get()?;
    let settled = row.get()?;
    let run = row.maybe_run()?;
    let version = Version::new(row.count()?);
    let attempt = row.get()?;
    let owner = OwnerId::from_u128(u128::from_be_bytes(row.get()?));
    let began_at = row.at()?;
    let state = state(row.code()?, row.at()?, row.maybe_text()?, settled)?;
    Ok(Operation {
        id,
        workspace: workspace.clone(),
        entity,
        home,
        workflow,
        module,
        step,
        requester,
        by,
        key,
        fingerprint,
        input: Payload::from_stored(row.text()?),
        from,
        to,
        claim,
        recovery,
        irreversible,
        document,
        effect_of,
        may_repeat,
        done_before,
        grace,
        tries,
        tries_before,
        run,
        version,
        attempt,
        owner,
        began_at,
        state,
    })
}

fn state(
    status: OperationStatus,
    at: Timestamp,
    value: Option<&str>,
    settled: bool,
) -> Result<OperationState, Fault> {
    let value = || value.ok_or_else(|| broken("an operation without its value"));
    Ok(match status {
        OperationStatus::Pending => OperationState::Pending { heard_at: at },
        OperationStatus::Done => OperationState::Done { at, result: Payload::from_stored(value()?) },
        OperationStatus::Rejected => OperationState::Rejected { at, failure: rows::failure(value()?)? },
        OperationStatus::Failed => OperationState::Failed { at, failure: rows::failure(value()?)? },
        OperationStatus::Reverted => OperationState::Reverted { at, settled },
        OperationStatus::InDoubt => OperationState::InDoubt { since: at },
    })
}

/// A person's name and role.
pub(crate) fn actor(row: &mut Columns<'_>) -> Result<Option<Actor>, Fault> {
    Ok(match (row.get::<Option<String>>()?, row.get::<Option<i64>>()?) {
        (Some(name), Some(role)) => Some(Actor::new(name, Code::from_code(role)?)),
        _ => None,
    })
}

fn name(what: &'static str, row: &mut Columns<'_>) -> Result<Name, Fault> {
    Name::new(what, row.text()?).map_err(broken)
}

fn maybe_name(what: &'static str, row: &mut Columns<'_>) -> Result<Option<Name>, Fault> {
    row.maybe_text()?.map(|text| Name::new(what, text)).transpose().map_err(broken)
}
