//! Entries of the journal as rows.

use hapax_engine::model::{Actor, Fence, Generation, Note, OwnerId, StepId, WorkspaceId};
use hapax_engine::store::PlacedNote;
use rusqlite::params;

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::rows::{Columns, broken, bytes};
use crate::session::Session;

/// Appends entries, in their order.
pub(crate) fn insert_notes(session: &mut Session<'_, '_>, notes: &[Note]) -> Result<(), Fault> {
    for note in notes {
        let workspace = session.number_workspace(&note.workspace)?;
        let body = serde_json::to_string(&note.what)
            .map_err(|error| Fault::Broken(format!("an entry of the journal cannot be kept: {error}")))?;
        session.prepare(include_str!("../sql/insert_note.sql"))?.execute(params![
            workspace.0,
            bytes(note.run),
            note.generation.get(),
            note.step.as_ref().map(StepId::as_str),
            millis(note.at),
            count(note.fence.get()),
            note.owner.map(|owner| owner.as_u128().to_be_bytes()),
            note.by.as_ref().map(|by| by.name.as_str()),
            note.by.as_ref().map(|by| by.role.code()),
            body,
        ])?;
    }
    Ok(())
}

/// A row of the journal of `workspace`.
pub(crate) fn note(workspace: &WorkspaceId, mut row: Columns<'_>) -> Result<PlacedNote, Fault> {
    let place = row.count()?;
    let run = row.run()?;
    let generation = Generation::new(row.get()?);
    let step = row.maybe_text()?.map(StepId::from_stored);
    let at = row.at()?;
    let fence = Fence::new(row.count()?);
    let owner: Option<[u8; 16]> = row.get()?;
    let owner = owner.map(|owner| OwnerId::from_u128(u128::from_be_bytes(owner)));
    let by = match (row.get::<Option<String>>()?, row.get::<Option<i64>>()?) {
        (Some(name), Some(role)) => Some(Actor { name, role: Code::from_code(role)? }),
        _ => None,
    };
    let what = serde_json::from_str(row.text()?).map_err(broken)?;
    let workspace = workspace.clone();
    Ok(PlacedNote { place, note: Note { workspace, run, generation, step, at, fence, owner, by, what } })
}
