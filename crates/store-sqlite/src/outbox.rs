//! After-effects as rows.

use hapax_engine::model::{
    EffectKey, Name, OutboxMessage, OutboxState, OutboxStatus, OwnerId, Payload, Timestamp, WorkspaceId,
};
use rusqlite::params;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::rows::{self, Columns, broken, bytes, failure_text};
use crate::session::{Session, WorkspaceRowId};

/// Inserts after-effects; existing ones stay as they are.
pub(crate) fn insert_posts(session: &mut Session<'_, '_>, posts: &[OutboxMessage]) -> Result<(), Fault> {
    for post in posts {
        let workspace = session.number_workspace(&post.workspace)?;
        let (at, owner) = state_columns(post.state);
        session.prepare(include_str!("../sql/insert_post.sql"))?.execute(params![
            workspace.0,
            post.id.as_str(),
            bytes(post.run),
            post.target.as_str(),
            millis(post.created_at),
            post.attempts,
            post.state.status().code(),
            millis(at),
            owner,
            post.failure.as_ref().map(failure_text).transpose()?,
            post.payload.as_str(),
        ])?;
    }
    Ok(())
}

/// An after-effect of the workspace, if it is there.
pub(crate) fn find_post(
    session: &Session<'_, '_>,
    number: WorkspaceRowId,
    workspace: &WorkspaceId,
    id: &EffectKey,
) -> Result<Option<OutboxMessage>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_post.sql"))?;
    rows::at_most_one(find.query(params![number.0, id.as_str()])?, |mut row| post(workspace, &mut row))
}

/// Writes all of an after-effect that can change.
pub(crate) fn write_post(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    post: &OutboxMessage,
) -> Result<(), Fault> {
    let (at, owner) = state_columns(post.state);
    let changed = session.prepare(include_str!("../sql/write_post.sql"))?.execute(params![
        workspace.0,
        post.id.as_str(),
        post.attempts,
        post.state.status().code(),
        millis(at),
        owner,
        post.failure.as_ref().map(failure_text).transpose()?,
    ])?;
    match changed {
        1 => Ok(()),
        n => Err(Fault::Broken(format!("writing the after-effect {} changed {n} rows", post.id))),
    }
}

/// Deletes an after-effect that is there.
pub(crate) fn delete_post(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    post: &OutboxMessage,
) -> Result<(), Fault> {
    let mut delete = session.prepare(include_str!("../sql/delete_post.sql"))?;
    match delete.execute(params![workspace.0, post.id.as_str()])? {
        1 => Ok(()),
        n => Err(Fault::Broken(format!("deleting the after-effect {} changed {n} rows", post.id))),
    }
}

/// The instant of a state, and who has it in hand.
fn state_columns(state: OutboxState) -> (Timestamp, Option<[u8; 16]>) {
    match state {
        OutboxState::Due { at } | OutboxState::Delivered { at } | OutboxState::Dead { at } => (at, None),
        OutboxState::Claimed { owner, until } => (until, Some(owner.as_u128().to_be_bytes())),
    }
}

/// An after-effect of `workspace`, from where the row stands.
pub(crate) fn post(workspace: &WorkspaceId, row: &mut Columns<'_>) -> Result<OutboxMessage, Fault> {
    let id = EffectKey::from_stored(row.text()?);
    let run = row.run()?;
    let target = Name::new("target", row.text()?).map_err(broken)?;
    let created_at = row.at()?;
    let attempts = row.get()?;
    let status: OutboxStatus = row.code()?;
    let at = row.at()?;
    let owner: Option<[u8; 16]> = row.get()?;
    let failure = row.maybe_text()?.map(rows::failure).transpose()?;
    let payload = Payload::from_stored(row.text()?);
    let state = match (status, owner) {
        (OutboxStatus::Due, None) => OutboxState::Due { at },
        (OutboxStatus::Delivered, None) => OutboxState::Delivered { at },
        (OutboxStatus::Dead, None) => OutboxState::Dead { at },
        (OutboxStatus::Claimed, Some(owner)) => {
            OutboxState::Claimed { owner: OwnerId::from_u128(u128::from_be_bytes(owner)), until: at }
        }
        (OutboxStatus::Claimed, None) => return Err(broken("an after-effect claimed by nobody")),
        (_, Some(_)) => return Err(broken("an after-effect in hand that is not claimed")),
    };
    let workspace = workspace.clone();
    Ok(OutboxMessage { workspace, id, run, target, payload, created_at, attempts, failure, state })
}
