//! After-effects, one page at a time, and how many wait.

use std::sync::Arc;

use hapax_engine::limits::{MAX_COUNTED_POSTS, MAX_PAGE};
use hapax_engine::model::{Post, PostStatus, WorkspaceId};
use hapax_engine::store::{ListPosts, OutboxDepth};

use crate::codes::Code;
use crate::fault::Fault;
use crate::numbers::Numbers;
use crate::outbox::post;
use crate::pools::Held;
use crate::read::query;
use crate::rows;

/// In the order of workspace names, not of their numbers.
pub(crate) async fn list_posts(
    held: Arc<Held>,
    numbers: Arc<Numbers>,
    request: ListPosts,
) -> Result<Vec<Post>, Fault> {
    match &request.workspace {
        Some(workspace) => list_in(&held, &numbers, workspace, &request).await,
        None => list_everywhere(&held, &request).await,
    }
}

async fn list_in(
    held: &Held,
    numbers: &Numbers,
    workspace: &WorkspaceId,
    request: &ListPosts,
) -> Result<Vec<Post>, Fault> {
    // No id is empty.
    let after = match &request.after {
        Some((from, _)) if from > workspace => return Ok(Vec::new()),
        Some((from, id)) if from == workspace => id.as_str(),
        _ => "",
    };
    let Some(number) = numbers.find_workspace(held.link(), workspace).await? else { return Ok(Vec::new()) };
    let sql = match is_of_few(request.status) {
        false => include_str!("../sql/list_posts.sql"),
        true => include_str!("../sql/list_undelivered_posts.sql"),
    };
    let (limit, status, target) = wanted(request);
    let found = query(held, sql, &[&number.0, &after, &limit, &status, &target]).await?;
    rows::collect(&found, |mut row| post(workspace.clone(), &mut row))
}

async fn list_everywhere(held: &Held, request: &ListPosts) -> Result<Vec<Post>, Fault> {
    // No name is empty, so without a place to go on from all count.
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

/// What every query of a page has in common.
fn wanted(request: &ListPosts) -> (i64, Option<i16>, Option<&str>) {
    let target = request.target.as_ref().map(|target| target.as_str());
    (request.limit.clamp(1, MAX_PAGE) as i64, request.status.map(Code::code), target)
}

/// Nearly all after-effects are delivered.
fn is_of_few(status: Option<PostStatus>) -> bool {
    match status {
        None | Some(PostStatus::Delivered) => false,
        Some(PostStatus::Due | PostStatus::Claimed | PostStatus::Dead) => true,
    }
}

pub(crate) async fn measure_outbox(held: Arc<Held>) -> Result<OutboxDepth, Fault> {
    let found =
        query(&held, include_str!("../sql/measure_outbox.sql"), &[&(MAX_COUNTED_POSTS as i64)]).await?;
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
