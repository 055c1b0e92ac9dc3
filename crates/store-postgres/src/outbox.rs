//! After-effects as rows.

use hapax_engine::model::{EffectKey, Name, OutboxMessage, OutboxState, OutboxStatus, Payload, WorkspaceId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::rows::{self, Columns, broken, failure_text, owner_uuid, uuid};
use crate::session::{Session, params};

/// After-effects, each column a list with one entry per row.
#[derive(Debug, Default)]
pub(crate) struct OutboxColumns {
    workspace: Vec<i32>,
    id: Vec<String>,
    run: Vec<Uuid>,
    target: Vec<String>,
    created_at: Vec<i64>,
    attempts: Vec<i32>,
    status: Vec<i16>,
    at: Vec<i64>,
    owner: Vec<Option<Uuid>>,
    failure: Vec<Option<String>>,
    payload: Vec<String>,
}

impl OutboxColumns {
    pub(crate) fn push(&mut self, workspace: WorkspaceRowId, post: &OutboxMessage) -> Result<(), Fault> {
        let (at, owner) = state_columns(post.state);
        let failure = post.failure.as_ref().map(failure_text).transpose()?;
        self.workspace.push(workspace.0);
        self.id.push(post.id.as_str().to_owned());
        self.run.push(uuid(post.run));
        self.target.push(post.target.as_str().to_owned());
        self.created_at.push(millis(post.created_at));
        self.attempts.push(post.attempts.cast_signed());
        self.status.push(post.state.status().code());
        self.at.push(at);
        self.owner.push(owner);
        self.failure.push(failure);
        self.payload.push(post.payload.as_str().to_owned());
        Ok(())
    }

    /// In the order of the statements.
    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 11] {
        [
            &self.workspace,
            &self.id,
            &self.run,
            &self.target,
            &self.created_at,
            &self.attempts,
            &self.status,
            &self.at,
            &self.owner,
            &self.failure,
            &self.payload,
        ]
    }
}

/// Inserts after-effects; existing ones stay as they are.
pub(crate) async fn insert_posts(session: &mut Session<'_>, posts: &[OutboxMessage]) -> Result<(), Fault> {
    if posts.is_empty() {
        return Ok(());
    }
    let mut columns = OutboxColumns::default();
    for post in posts {
        columns.push(session.get_workspace(&post.workspace).await?, post)?;
    }
    let OutboxColumns { workspace, id, run, target, created_at, .. } = columns;
    let OutboxColumns { attempts, status, at, owner, failure, payload, .. } = columns;
    let posts =
        params![workspace, id, run, target, created_at, attempts, status, at, owner, failure, payload];
    session.keep_back(include_str!("../sql/insert_posts.sql"), posts);
    Ok(())
}

/// Writes all mutable columns of a locked after-effect.
pub(crate) fn write_post(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    post: &OutboxMessage,
) -> Result<(), Fault> {
    let (at, owner) = state_columns(post.state);
    let failure = post.failure.as_ref().map(failure_text).transpose()?;
    let changed = params![
        workspace.0,
        post.id.as_str().to_owned(),
        post.attempts.cast_signed(),
        post.state.status().code(),
        at,
        owner,
        failure,
    ];
    session.keep_back(include_str!("../sql/write_post.sql"), changed);
    Ok(())
}

/// Deletes a locked after-effect.
pub(crate) fn delete_post(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    post: &OutboxMessage,
) -> Result<(), Fault> {
    let place = params![workspace.0, post.id.as_str().to_owned()];
    session.keep_back(include_str!("../sql/delete_post.sql"), place);
    Ok(())
}

/// The instant of a state, and its holder.
pub(crate) fn state_columns(state: OutboxState) -> (i64, Option<Uuid>) {
    match state {
        OutboxState::Due { at } | OutboxState::Delivered { at } | OutboxState::Dead { at } => {
            (millis(at), None)
        }
        OutboxState::Claimed { owner, until } => (millis(until), Some(owner_uuid(owner))),
    }
}

/// An after-effect of `workspace`, from the current column on.
pub(crate) fn post(workspace: WorkspaceId, row: &mut Columns<'_>) -> Result<OutboxMessage, Fault> {
    let id = EffectKey::from_stored(row.text()?);
    let run = row.run()?;
    let target = Name::new("target", row.text()?).map_err(broken)?;
    let created_at = row.at()?;
    let attempts = row.small()?;
    let status: OutboxStatus = row.code()?;
    let at = row.at()?;
    let owner = row.maybe_owner()?;
    let failure = row.maybe_text()?.map(rows::failure).transpose()?;
    let payload = Payload::from_stored(row.text()?);
    let state = match (status, owner) {
        (OutboxStatus::Due, None) => OutboxState::Due { at },
        (OutboxStatus::Delivered, None) => OutboxState::Delivered { at },
        (OutboxStatus::Dead, None) => OutboxState::Dead { at },
        (OutboxStatus::Claimed, Some(owner)) => OutboxState::Claimed { owner, until: at },
        (OutboxStatus::Claimed, None) => return Err(broken("an after-effect claimed by nobody")),
        (_, Some(_)) => return Err(broken("an after-effect in hand that is not claimed")),
    };
    Ok(OutboxMessage { workspace, id, run, target, payload, created_at, attempts, failure, state })
}
