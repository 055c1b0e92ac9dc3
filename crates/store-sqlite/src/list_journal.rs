//! Reading the journal.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::store::{ListEvidence, ListJournal, StoredJournalEntry};
use rusqlite::{Connection, params};

use crate::codes::count;
use crate::fault::Fault;
use crate::journal;
use crate::read::find_workspace;
use crate::rows::{self, bytes};

pub(crate) fn list_journal(
    connection: &Connection,
    request: &ListJournal,
) -> Result<Vec<StoredJournalEntry>, Fault> {
    let Some(workspace) = find_workspace(connection, &request.workspace)? else { return Ok(Vec::new()) };
    let (after, limit) = (count(request.after), request.limit.clamp(1, MAX_PAGE) as i64);
    let to_note = |row: rows::Columns<'_>| journal::note(&request.workspace, row);
    match (request.run, request.by_people) {
        (Some(run), by_people) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_notes_of_run.sql"))?;
            let found = list.query(params![workspace.0, after, limit, bytes(run), by_people])?;
            rows::collect(found, to_note)
        }
        (None, true) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_notes_of_people.sql"))?;
            rows::collect(list.query(params![workspace.0, after, limit])?, to_note)
        }
        (None, false) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_notes.sql"))?;
            rows::collect(list.query(params![workspace.0, after, limit])?, to_note)
        }
    }
}

pub(crate) fn list_evidence(
    connection: &Connection,
    request: &ListEvidence,
) -> Result<Vec<StoredJournalEntry>, Fault> {
    let Some(workspace) = find_workspace(connection, &request.workspace)? else { return Ok(Vec::new()) };
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let mut list = connection.prepare_cached(include_str!("../sql/list_evidence.sql"))?;
    // No attempt is 0, and effects found by their key have negative ones.
    let after = if request.after_try == 0 { i64::MIN } else { request.after_try.into() };
    let found = list.query(params![workspace.0, request.effect.as_str(), after, limit])?;
    rows::collect(found, |row| journal::note(&request.workspace, row))
}
