//! Webhooks that came in, as rows.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{InboundEvent, InboundEventId, Name, Payload};
use hapax_engine::store::{ListInboundEvents, ListUnprocessedEvents};
use rusqlite::{Connection, params};

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::read::find_workspace;
use crate::rows::{self, Columns, broken};
use crate::session::WorkspaceRowId;
use crate::statements::Statements;

pub(crate) fn find_hook_in(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    id: &InboundEventId,
) -> Result<Option<InboundEvent>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_inbound_event.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, id.source.as_str(), id.event])?, hook)
}

pub(crate) fn find_inbound_event(
    connection: &Connection,
    id: &InboundEventId,
) -> Result<Option<InboundEvent>, Fault> {
    match find_workspace(connection, &id.workspace)? {
        Some(workspace) => find_hook_in(&Statements::new(connection), workspace, id),
        None => Ok(None),
    }
}

pub(crate) fn list_inbound_events(
    connection: &Connection,
    request: &ListInboundEvents,
) -> Result<Vec<InboundEvent>, Fault> {
    let Some(workspace) = find_workspace(connection, &request.workspace)? else { return Ok(Vec::new()) };
    let before = request.before.map_or(i64::MAX, count);
    let source = request.source.as_ref().map(Name::as_str);
    let status = request.status.map(Code::code);
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let mut list = connection.prepare_cached(include_str!("../sql/list_inbound_events.sql"))?;
    rows::collect(list.query(params![workspace.0, before, source, status, limit])?, hook)
}

pub(crate) fn list_unprocessed_events(
    connection: &Connection,
    request: &ListUnprocessedEvents,
) -> Result<Vec<InboundEvent>, Fault> {
    let (received_at, place) = request.after.map_or((i64::MIN, 0), |(at, place)| (millis(at), count(place)));
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let mut list = connection.prepare_cached(include_str!("../sql/list_unprocessed_events.sql"))?;
    rows::collect(list.query(params![millis(request.before), received_at, place, limit])?, hook)
}

fn hook(mut row: Columns<'_>) -> Result<InboundEvent, Fault> {
    let place = row.count()?;
    let workspace = rows::workspace_name(&mut row)?;
    let source = Name::new("source", row.text()?).map_err(broken)?;
    let event = row.get()?;
    Ok(InboundEvent {
        place,
        id: InboundEventId { workspace, source, event },
        received_at: row.at()?,
        changed_at: row.at()?,
        duplicates: row.count()?,
        attempts: row.get()?,
        status: row.code()?,
        outcome: rows::maybe_payload(&mut row)?,
        headers: Payload::from_stored(row.text()?),
        body: row.get()?,
    })
}
