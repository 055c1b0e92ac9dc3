//! Entries of the journal as rows.

use hapax_engine::model::{Actor, Fence, Generation, Note, StepId, WorkspaceId};
use hapax_engine::store::PlacedNote;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::numbers::WorkspaceNo;
use crate::rows::{Columns, broken, owner_uuid, uuid};
use crate::session::{Session, params};

/// Entries, each column a list with one entry per row.
#[derive(Debug, Default)]
pub(crate) struct NoteColumns {
    workspace: Vec<i32>,
    run: Vec<Uuid>,
    generation: Vec<i32>,
    step: Vec<Option<String>>,
    at: Vec<i64>,
    fence: Vec<i64>,
    owner: Vec<Option<Uuid>>,
    actor: Vec<Option<String>>,
    role: Vec<Option<i16>>,
    body: Vec<String>,
}

impl NoteColumns {
    pub(crate) fn push(&mut self, workspace: WorkspaceNo, note: &Note) -> Result<(), Fault> {
        let body = serde_json::to_string(&note.what)
            .map_err(|error| Fault::Broken(format!("an entry of the journal cannot be kept: {error}")))?;
        self.workspace.push(workspace.0);
        self.run.push(uuid(note.run));
        self.generation.push(note.generation.get().cast_signed());
        self.step.push(note.step.as_ref().map(|step| step.as_str().to_owned()));
        self.at.push(millis(note.at));
        self.fence.push(count(note.fence.get()));
        self.owner.push(note.owner.map(owner_uuid));
        self.actor.push(note.by.as_ref().map(|by| by.name.clone()));
        self.role.push(note.by.as_ref().map(|by| by.role.code()));
        self.body.push(body);
        Ok(())
    }

    /// In the order of the statements.
    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 10] {
        [
            &self.workspace,
            &self.run,
            &self.generation,
            &self.step,
            &self.at,
            &self.fence,
            &self.owner,
            &self.actor,
            &self.role,
            &self.body,
        ]
    }
}

/// Appends entries, in their order.
pub(crate) async fn insert_notes(session: &mut Session<'_>, notes: &[Note]) -> Result<(), Fault> {
    if notes.is_empty() {
        return Ok(());
    }
    let mut columns = NoteColumns::default();
    for note in notes {
        columns.push(session.get_workspace(&note.workspace).await?, note)?;
    }
    let NoteColumns { workspace, run, generation, step, at, fence, owner, actor, role, body } = columns;
    let entries = params![workspace, run, generation, step, at, fence, owner, actor, role, body];
    session.keep_back(include_str!("../sql/insert_notes.sql"), entries);
    Ok(())
}

/// A row of the journal of `workspace`.
pub(crate) fn note(workspace: &WorkspaceId, mut row: Columns<'_>) -> Result<PlacedNote, Fault> {
    let place = row.count()?;
    let run = row.run()?;
    let generation = Generation::new(row.small()?);
    let step = row.maybe_text()?.map(StepId::from_stored);
    let at = row.at()?;
    let fence = Fence::new(row.count()?);
    let owner = row.maybe_owner()?;
    let by = match (row.get::<Option<String>>()?, row.get::<Option<i16>>()?) {
        (Some(name), Some(role)) => Some(Actor { name, role: Code::from_code(role)? }),
        _ => None,
    };
    let what = serde_json::from_str(row.text()?).map_err(broken)?;
    let workspace = workspace.clone();
    Ok(PlacedNote { place, note: Note { workspace, run, generation, step, at, fence, owner, by, what } })
}
