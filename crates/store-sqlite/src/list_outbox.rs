//! After-effects, one page at a time, and how many wait.

use hapax_engine::limits::{MAX_COUNTED_OUTBOX, MAX_PAGE};
use hapax_engine::model::{OutboxMessage, OutboxStatus, WorkspaceId};
use hapax_engine::store::{ListOutbox, OutboxDepth};
use rusqlite::{Connection, params};

use crate::codes::Code;
use crate::fault::Fault;
use crate::outbox::post;
use crate::read::list_workspaces;
use crate::rows;
use crate::session::WorkspaceRowId;

/// In the order of workspace names, not of their numbers.
pub(crate) fn list_outbox(
    connection: &Connection,
    request: &ListOutbox,
) -> Result<Vec<OutboxMessage>, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE);
    let mut posts = Vec::new();
    let from = request.after.as_ref().map(|(workspace, _)| workspace);
    for (number, workspace) in list_workspaces(connection, request.workspace.as_ref(), from)? {
        posts.extend(list_in(connection, number, &workspace, request, limit - posts.len())?);
        if posts.len() == limit {
            break;
        }
    }
    Ok(posts)
}

fn list_in(
    connection: &Connection,
    number: WorkspaceRowId,
    workspace: &WorkspaceId,
    request: &ListOutbox,
    limit: usize,
) -> Result<Vec<OutboxMessage>, Fault> {
    let sql = match request.status {
        None | Some(OutboxStatus::Delivered) => include_str!("../sql/list_posts.sql"),
        Some(OutboxStatus::Due | OutboxStatus::Claimed | OutboxStatus::Dead) => {
            include_str!("../sql/list_undelivered_posts.sql")
        }
    };
    // No id is empty.
    let after = match &request.after {
        Some((from, id)) if from == workspace => id.as_str(),
        _ => "",
    };
    let status = request.status.map(Code::code);
    let target = request.target.as_ref().map(|target| target.as_str());
    let mut list = connection.prepare_cached(sql)?;
    let found = list.query(params![number.0, after, limit as i64, status, target])?;
    rows::collect(found, |mut row| post(workspace, &mut row))
}

pub(crate) fn measure_outbox(connection: &Connection) -> Result<OutboxDepth, Fault> {
    let mut measure = connection.prepare_cached(include_str!("../sql/measure_outbox.sql"))?;
    let found = rows::at_most_one(measure.query([MAX_COUNTED_OUTBOX as i64])?, |mut row| {
        Ok(OutboxDepth {
            undelivered: row.count()?,
            oldest_at: row.maybe_at()?,
            dead: row.count()?,
            first_due_at: row.maybe_at()?,
        })
    })?;
    Ok(found.unwrap_or_default())
}
