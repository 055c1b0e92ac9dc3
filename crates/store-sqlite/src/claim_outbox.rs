//! Granting after-effects to a deliverer.

use hapax_engine::limits::MAX_CLAIM;
use hapax_engine::model::{Name, OutboxMessage, Timestamp};
use hapax_engine::store::{ClaimOutbox, ClaimedOutbox};
use rusqlite::{OptionalExtension, params};

use crate::codes::millis;
use crate::fault::Fault;
use crate::job::Verb;
use crate::outbox::{post, write_post};
use crate::rows;
use crate::session::{Session, WorkspaceRowId};

impl Verb for ClaimOutbox {
    type Outcome = ClaimedOutbox;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<ClaimedOutbox, Fault> {
        let mut claimed = ClaimedOutbox::default();
        for (target, room) in &self.room {
            let room = (*room).min(MAX_CLAIM);
            // One more than there is room for tells that the next one is due already.
            let mut due = list_due(session, target, room + 1)?;
            let next = match due.get(room) {
                Some((_, left)) => left.state.due_at(),
                None => find_next(session, target)?,
            };
            claimed.next_due_at = claimed.next_due_at.into_iter().chain(next).min();
            due.truncate(room);
            for (workspace, post) in due {
                let post = post.claimed(self.owner, self.lease_for, session.now);
                write_post(session, workspace, &post)?;
                claimed.posts.push(post);
            }
        }
        Ok(claimed)
    }
}

/// Due messages of a target, the most overdue first.
fn list_due(
    session: &Session<'_, '_>,
    target: &Name,
    limit: usize,
) -> Result<Vec<(WorkspaceRowId, OutboxMessage)>, Fault> {
    let mut list = session.prepare(include_str!("../sql/list_due_posts.sql"))?;
    let found = list.query(params![target.as_str(), millis(session.now), limit as i64])?;
    rows::collect(found, |mut row| {
        let (number, workspace) = (WorkspaceRowId(row.get()?), rows::workspace_name(&mut row)?);
        Ok((number, post(&workspace, &mut row)?))
    })
}

/// When something will be due for a target that has nothing due.
fn find_next(session: &Session<'_, '_>, target: &Name) -> Result<Option<Timestamp>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_next_post.sql"))?;
    let next = find.query_row(params![target.as_str(), millis(session.now)], |row| row.get(0)).optional()?;
    Ok(next.map(Timestamp::from_millis))
}
