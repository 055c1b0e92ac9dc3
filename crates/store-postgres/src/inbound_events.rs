//! Received webhooks as rows: each write is one statement and one commit.

use std::sync::Arc;

use hapax_engine::limits::{MAX_PAGE, MAX_PURGE};
use hapax_engine::model::{InboundEvent, InboundEventId, Name, Payload, Timestamp, WorkspaceId};
use hapax_engine::store::{
    FinishInboundEvent, ListInboundEvents, ListUnprocessedEvents, NewInboundEvent, ReceiveOutcome,
};
use tokio_postgres::types::ToSql;

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows::{self, Columns, broken};

pub(crate) async fn receive_event(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    hook: NewInboundEvent,
    now: Timestamp,
) -> Result<ReceiveOutcome, Fault> {
    let NewInboundEvent { id, headers, body } = hook;
    let workspace = interned_names.give_workspace(held.link(), &id.workspace).await?;
    let columns: [&(dyn ToSql + Sync); 6] =
        [&workspace.0, &id.source.as_str(), &id.event, &millis(now), &headers.as_str(), &body];
    let taken = query(&held, include_str!("../sql/receive_inbound_event.sql"), &columns).await?;
    let taken = rows::at_most_one(&taken, |mut row| {
        let is_new = row.get()?;
        let hook = hook_of(id, &mut row)?;
        Ok(if is_new { ReceiveOutcome::New(hook) } else { ReceiveOutcome::Duplicate(hook) })
    })?;
    taken.ok_or_else(|| Fault::Broken("a webhook was neither taken in nor known".into()))
}

pub(crate) async fn finish_event(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: FinishInboundEvent,
    now: Timestamp,
) -> Result<bool, Fault> {
    let FinishInboundEvent { id, attempts, status, outcome } = request;
    let Some(workspace) = interned_names.find_workspace(held.link(), &id.workspace).await? else {
        return Ok(false);
    };
    let outcome = outcome.as_ref().map(|outcome| outcome.as_str());
    let statement = held.prepare_cached(include_str!("../sql/finish_inbound_event.sql")).await?;
    let columns: [&(dyn ToSql + Sync); 7] = [
        &workspace.0,
        &id.source.as_str(),
        &id.event,
        &attempts.cast_signed(),
        &status.code(),
        &outcome,
        &millis(now),
    ];
    Ok(held.execute(&statement, &columns).await? == 1)
}

pub(crate) async fn find_inbound_event(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    id: InboundEventId,
) -> Result<Option<InboundEvent>, Fault> {
    // No event id contains this character, and the server would reject it.
    if id.event.contains('\0') {
        return Ok(None);
    }
    let Some(workspace) = interned_names.find_workspace(held.link(), &id.workspace).await? else {
        return Ok(None);
    };
    let place: [&(dyn ToSql + Sync); 3] = [&workspace.0, &id.source.as_str(), &id.event];
    let found = query(&held, include_str!("../sql/find_inbound_event.sql"), &place).await?;
    rows::at_most_one(&found, |mut row| hook_of(id, &mut row))
}

pub(crate) async fn list_inbound_events(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListInboundEvents,
) -> Result<Vec<InboundEvent>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(Vec::new());
    };
    let before = request.before.map_or(i64::MAX, count);
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let source = request.source.as_ref().map(|source| source.as_str());
    let wanted: [&(dyn ToSql + Sync); 5] =
        [&workspace.0, &before, &limit, &source, &request.status.map(Code::code)];
    let found = query(&held, include_str!("../sql/list_inbound_events.sql"), &wanted).await?;
    rows::collect(&found, |mut row| hook(request.workspace.clone(), &mut row))
}

pub(crate) async fn list_unprocessed_events(
    held: Arc<HeldConnection>,
    request: ListUnprocessedEvents,
) -> Result<Vec<InboundEvent>, Fault> {
    let (received_at, place) = request.after.map_or((i64::MIN, 0), |(at, place)| (millis(at), count(place)));
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let sql = include_str!("../sql/list_unprocessed_events.sql");
    let found = query(&held, sql, &[&millis(request.before), &received_at, &place, &limit]).await?;
    rows::collect(&found, |mut row| {
        let workspace = rows::workspace_name(&mut row)?;
        hook(workspace, &mut row)
    })
}

pub(crate) async fn purge_inbound_events(
    held: Arc<HeldConnection>,
    before: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let limit = limit.clamp(1, MAX_PURGE) as i64;
    let delete = held.prepare_cached(include_str!("../sql/purge_inbound_events.sql")).await?;
    Ok(held.execute(&delete, &[&millis(before), &limit]).await? as usize)
}

/// A webhook of `workspace`, from the current column on.
fn hook(workspace: WorkspaceId, row: &mut Columns<'_>) -> Result<InboundEvent, Fault> {
    let source = Name::new("source", row.text()?).map_err(broken)?;
    let id = InboundEventId { workspace, source, event: row.get()? };
    hook_of(id, row)
}

/// Outcome of a webhook, from the current column on.
fn hook_of(id: InboundEventId, row: &mut Columns<'_>) -> Result<InboundEvent, Fault> {
    Ok(InboundEvent {
        place: row.count()?,
        id,
        received_at: row.at()?,
        changed_at: row.at()?,
        duplicates: row.count()?,
        attempts: row.small()?,
        status: row.code()?,
        outcome: row.maybe_payload()?,
        headers: Payload::from_stored(row.text()?),
        body: row.get()?,
    })
}
