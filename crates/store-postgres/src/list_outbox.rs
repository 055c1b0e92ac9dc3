//! After-effects, one page at a time, and how many wait.

use std::sync::Arc;

use hapax_engine::limits::{MAX_COUNTED_OUTBOX, MAX_PAGE};
use hapax_engine::model::{OutboxMessage, OutboxStatus, WorkspaceId};
use hapax_engine::store::{ListOutbox, OutboxDepth};

use crate::codes::Code;
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::outbox::post;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows;

/// In the order of workspace names, not of their numbers.
pub(crate) async fn list_outbox(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListOutbox,
) -> Result<Vec<OutboxMessage>, Fault> {
    match &request.workspace {
        Some(workspace) => list_in(&held, &interned_names, workspace, &request).await,
        None => list_everywhere(&held, &request).await,
    }
}

async fn list_in(
    held: &HeldConnection,
    interned_names: &InternedNames,
    workspace: &WorkspaceId,
    request: &ListOutbox,
) -> Result<Vec<OutboxMessage>, Fault> {
    // No id is empty.
    let after = match &request.after {
        Some((from, _)) if from > workspace => return Ok(Vec::new()),
        Some((from, id)) if from == workspace => id.as_str(),
        _ => "",
    };
    let Some(number) = interned_names.find_workspace(held.link(), workspace).await? else {
        return Ok(Vec::new());
    };
    let sql = match is_of_few(request.status) {
        false => include_str!("../sql/list_posts.sql"),
        true => include_str!("../sql/list_undelivered_posts.sql"),
    };
    let (limit, status, target) = wanted(request);
    let found = query(held, sql, &[&number.0, &after, &limit, &status, &target]).await?;
    rows::collect(&found, |mut row| post(workspace.clone(), &mut row))
}

async fn list_everywhere(held: &HeldConnection, request: &ListOutbox) -> Result<Vec<OutboxMessage>, Fault> {
    // No name is empty, so without a position everything counts.
    let (from, after) =
        request.after.as_ref().map_or(("", ""), |(workspace, id)| (workspace.as_str(), id.as_str()));
    let sql = match is_of_few(request.status) {
        false => include_str!("../sql/list_posts_of_all_workspaces.sql"),
        true => include_str!("../sql/list_undelivered_posts_of_all_workspaces.sql"),
    };
    let (limit, status, target) = wanted(request);
    let found = query(held, sql, &[&from, &after, &limit, &status, &target]).await?;
    rows::collect(&found, |mut row| {
        let workspace = rows::workspace_name(&mut row)?;
        post(workspace, &mut row)
    })
}

/// Common parameters of the page's queries.
fn wanted(request: &ListOutbox) -> (i64, Option<i16>, Option<&str>) {
    let target = request.target.as_ref().map(|target| target.as_str());
    (request.limit.clamp(1, MAX_PAGE) as i64, request.status.map(Code::code), target)
}

/// Nearly all after-effects are delivered.
fn is_of_few(status: Option<OutboxStatus>) -> bool {
    match status {
        None | Some(OutboxStatus::Delivered) => false,
        Some(OutboxStatus::Due | OutboxStatus::Claimed | OutboxStatus::Dead) => true,
    }
}

pub(crate) async fn measure_outbox(held: Arc<HeldConnection>) -> Result<OutboxDepth, Fault> {
    let found =
        query(&held, include_str!("../sql/measure_outbox.sql"), &[&(MAX_COUNTED_OUTBOX as i64)]).await?;
    let depth = rows::at_most_one(&found, |mut row| {
        Ok(OutboxDepth {
            undelivered: row.count()?,
            oldest_at: row.maybe_at()?,
            dead: row.count()?,
            first_due_at: row.maybe_at()?,
        })
    })?;
    Ok(depth.unwrap_or_default())
}
