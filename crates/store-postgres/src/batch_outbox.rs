//! Journal entries and outbox messages of a batch: one statement each, and none if there is
//! nothing.

use hapax_engine::model::RunCommit;
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::batch::QueuedWrite;
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkspaceRowId};
use crate::journal::JournalColumns;
use crate::outbox::OutboxColumns;
use crate::pools::HeldConnection;
use crate::rows::uuid;

/// Journal entries and after-effects, each with the write that adds it.
#[derive(Debug, Default)]
pub(crate) struct BatchOutbox {
    notes: JournalColumns,
    notes_by: OutboxWriters,
    posts: OutboxColumns,
    posts_by: OutboxWriters,
}

/// The write that a row belongs to. The row is kept only if the write took effect.
#[derive(Debug, Default)]
struct OutboxWriters {
    workspace: Vec<i32>,
    run: Vec<Uuid>,
    token: Vec<i64>,
}

impl OutboxWriters {
    fn push(&mut self, workspace: WorkspaceRowId, advance: &RunCommit) {
        self.workspace.push(workspace.0);
        self.run.push(uuid(advance.run()));
        self.token.push(advance.token.get());
    }
}

impl BatchOutbox {
    /// Collects the rows of these writes, each given with its workspace's number, if it has one.
    /// Must not be called inside a transaction.
    pub(crate) async fn by(
        moves: &[QueuedWrite],
        workspaces: &[Option<WorkspaceRowId>],
        held: &HeldConnection,
        interned_names: &InternedNames,
    ) -> Result<Self, Fault> {
        let mut outbox = BatchOutbox::default();
        for (QueuedWrite { advance, .. }, workspace) in moves.iter().zip(workspaces) {
            // A workspace without a number has no runs, so the write will not take effect.
            let Some(workspace) = *workspace else { continue };
            for note in &advance.notes {
                let number = interned_names.give_workspace(held.link(), &note.workspace).await?;
                outbox.notes.push(number, note)?;
                outbox.notes_by.push(workspace, advance);
            }
            for post in &advance.posts {
                let number = interned_names.give_workspace(held.link(), &post.workspace).await?;
                outbox.posts.push(number, post)?;
                outbox.posts_by.push(workspace, advance);
            }
        }
        Ok(outbox)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.has_no_notes() && self.has_no_posts()
    }

    fn has_no_notes(&self) -> bool {
        self.notes_by.run.is_empty()
    }

    fn has_no_posts(&self) -> bool {
        self.posts_by.run.is_empty()
    }

    /// Prepares the statements, so that they are later sent without waiting.
    pub(crate) async fn prepare(&self, held: &HeldConnection) -> Result<(), Error> {
        if !self.has_no_notes() {
            held.prepare_cached(include_str!("../sql/insert_notes_of_runs.sql")).await?;
        }
        if !self.has_no_posts() {
            held.prepare_cached(include_str!("../sql/insert_posts_of_runs.sql")).await?;
        }
        Ok(())
    }

    /// Appends journal entries, inside the transaction of the writes and behind them.
    pub(crate) async fn send_notes(&self, held: &HeldConnection) -> Result<(), Error> {
        if self.has_no_notes() {
            return Ok(());
        }
        let sql = include_str!("../sql/insert_notes_of_runs.sql");
        send(held, sql, &self.notes_by, &self.notes.params()).await
    }

    /// Inserts after-effects, inside the transaction of the writes and behind them.
    pub(crate) async fn send_posts(&self, held: &HeldConnection) -> Result<(), Error> {
        if self.has_no_posts() {
            return Ok(());
        }
        let sql = include_str!("../sql/insert_posts_of_runs.sql");
        send(held, sql, &self.posts_by, &self.posts.params()).await
    }
}

async fn send(
    held: &HeldConnection,
    sql: &'static str,
    by: &OutboxWriters,
    columns: &[&(dyn ToSql + Sync)],
) -> Result<(), Error> {
    let limit = by.run.len() as i64;
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&limit, &by.workspace, &by.run, &by.token];
    params.extend(columns);
    let statement = held.prepare_cached(sql).await?;
    held.execute(&statement, &params).await.map(drop)
}
