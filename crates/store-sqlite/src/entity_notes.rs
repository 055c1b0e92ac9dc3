//! Notes about entities, as rows.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{EntityJournalEntry, OperationId};
use hapax_engine::store::{ListEntityJournal, StoredEntityEntry};
use rusqlite::{Connection, params};

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::{insert_notes, origin_text, person};
use crate::operations::operation_bytes;
use crate::read::find_workspace;
use crate::rows::{self, broken};
use crate::session::Session;

/// Notes that belong to no other write.
pub(crate) struct AppendEntityNotes(pub(crate) Vec<EntityJournalEntry>);

impl Verb for AppendEntityNotes {
    type Outcome = ();

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<(), Fault> {
        insert_entity_notes(session, &self.0)
    }
}

/// Appends notes in their order, and people's notes to the journal as well.
pub(crate) fn insert_entity_notes(
    session: &mut Session<'_, '_>,
    notes: &[EntityJournalEntry],
) -> Result<(), Fault> {
    for note in notes {
        if note.is_for_audit_only() {
            insert_notes(session, note.to_journal_entry().as_slice())?;
            continue;
        }
        let workspace = session.number_workspace(&note.workspace)?;
        let body = serde_json::to_string(&note.what)
            .map_err(|error| Fault::Broken(format!("a note about an entity cannot be kept: {error}")))?;
        session.prepare(include_str!("../sql/insert_entity_note.sql"))?.execute(params![
            workspace.0,
            note.entity.kind.as_str(),
            note.entity.id.as_str(),
            note.operation.map(operation_bytes),
            millis(note.at),
            note.by.as_ref().map(|by| by.name.as_str()),
            note.by.as_ref().map(|by| by.role.code()),
            origin_text(note.by.as_ref())?,
            body,
        ])?;
        insert_notes(session, note.to_journal_entry().as_slice())?;
    }
    Ok(())
}

pub(crate) fn list_entity_journal(
    connection: &Connection,
    request: &ListEntityJournal,
) -> Result<Vec<StoredEntityEntry>, Fault> {
    let Some(workspace) = find_workspace(connection, &request.workspace)? else { return Ok(Vec::new()) };
    let mut list = connection.prepare_cached(include_str!("../sql/list_entity_notes.sql"))?;
    let found = list.query(params![
        workspace.0,
        request.entity.kind.as_str(),
        request.entity.id.as_str(),
        request.operation.map(operation_bytes),
        count(request.after),
        request.limit.clamp(1, MAX_PAGE) as i64,
    ])?;
    rows::collect(found, |mut row| {
        let place = row.count()?;
        let operation: Option<[u8; 16]> = row.get()?;
        let note = EntityJournalEntry {
            workspace: request.workspace.clone(),
            entity: request.entity.clone(),
            operation: operation.map(|id| OperationId::from_u128(u128::from_be_bytes(id))),
            at: row.at()?,
            by: person(&mut row)?,
            what: serde_json::from_str(row.text()?).map_err(broken)?,
            evidence: None,
        };
        Ok(StoredEntityEntry { place, note })
    })
}
