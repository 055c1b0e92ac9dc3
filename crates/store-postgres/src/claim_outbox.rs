//! Granting after-effects to a deliverer: one statement, which skips rows that others have locked.

use std::sync::Arc;

use hapax_engine::limits::MAX_CLAIM;
use hapax_engine::model::{Name, OutboxMessage, Timestamp};
use hapax_engine::store::{ClaimOutbox, ClaimedOutbox};

use crate::codes::millis;
use crate::fault::Fault;
use crate::limits::LOOK_AGAIN_AFTER;
use crate::outbox::post;
use crate::pools::HeldConnection;
use crate::rows::{self, Columns, owner_uuid};

/// Result of the statement, by target.
struct Found {
    /// Each with the instant it was due at.
    claimed: Vec<(i32, Timestamp, OutboxMessage)>,
    next: Vec<(i32, Timestamp)>,
}

/// Claims after-effects, on a connection of its own.
pub(crate) async fn claim_outbox(
    held: Arc<HeldConnection>,
    request: ClaimOutbox,
    now: Timestamp,
) -> Result<ClaimedOutbox, Fault> {
    let rooms = rooms(&request.room);
    if rooms.is_empty() {
        return Ok(ClaimedOutbox::default());
    }
    let n: Vec<i32> = (0..rooms.len() as i32).collect();
    let (targets, places): (Vec<&str>, Vec<i64>) =
        rooms.iter().map(|(target, room)| (target.as_str(), *room as i64)).unzip();
    let (owner, until) = (owner_uuid(request.owner), millis(now.plus(request.lease_for)));
    let (number, total) = (rooms.len() as i64, places.iter().sum::<i64>());
    let statement = held.prepare_cached(include_str!("../sql/claim_posts.sql")).await?;
    let found = held
        .query(&statement, &[&number, &n, &targets, &places, &millis(now), &owner, &until, &total])
        .await?;
    let Found { mut claimed, next } = read(&found)?;
    let next_due_at = next.into_iter().map(|(n, at)| {
        let is_full = claimed.iter().filter(|(of, ..)| *of == n).count() >= rooms[n as usize].1;
        // Another node has locked due rows although there was room for them. It will take them in a
        // moment; looking again at once would only delay it.
        if is_full { at } else { at.max(now.plus(LOOK_AGAIN_AFTER)) }
    });
    let next_due_at = next_due_at.min();
    claimed.sort_by(|(a_n, a_due, a), (b_n, b_due, b)| (a_n, a_due, &a.id).cmp(&(b_n, b_due, &b.id)));
    Ok(ClaimedOutbox { posts: claimed.into_iter().map(|(_, _, post)| post).collect(), next_due_at })
}

/// Each target once: a statement returns a row once, so two shares of one target would be the same.
fn rooms(asked: &[(Name, usize)]) -> Vec<(&Name, usize)> {
    let mut rooms: Vec<(&Name, usize)> = Vec::with_capacity(asked.len());
    for (target, room) in asked {
        let room = (*room).min(MAX_CLAIM);
        match rooms.iter_mut().find(|(known, _)| *known == target) {
            Some((_, sum)) => *sum += room,
            None => rooms.push((target, room)),
        }
    }
    rooms
}

fn read(found: &[tokio_postgres::Row]) -> Result<Found, Fault> {
    let (mut claimed, mut next) = (Vec::new(), Vec::new());
    for row in found {
        let mut row = Columns::of(row);
        let (n, at) = (row.get()?, row.at()?);
        match rows::maybe_workspace_name(&mut row)? {
            Some(workspace) => claimed.push((n, at, post(workspace, &mut row)?)),
            None => next.push((n, at)),
        }
    }
    Ok(Found { claimed, next })
}
