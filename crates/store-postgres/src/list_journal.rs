//! Reading the journal.

use std::sync::Arc;

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::store::{ListEvidence, ListJournal, StoredJournalEntry};
use tokio_postgres::types::ToSql;

use crate::codes::count;
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::journal;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows::{self, uuid};

pub(crate) async fn list_journal(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListJournal,
) -> Result<Vec<StoredJournalEntry>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(Vec::new());
    };
    let (after, limit) = (count(request.after), request.limit.clamp(1, MAX_PAGE) as i64);
    let found = match (request.run, request.by_people) {
        (Some(run), by_people) => {
            let sql = include_str!("../sql/list_notes_of_run.sql");
            query(&held, sql, &[&workspace.0, &after, &limit, &uuid(run), &by_people]).await?
        }
        (None, true) => {
            let sql = include_str!("../sql/list_notes_of_people.sql");
            query(&held, sql, &[&workspace.0, &after, &limit]).await?
        }
        (None, false) => {
            query(&held, include_str!("../sql/list_notes.sql"), &[&workspace.0, &after, &limit]).await?
        }
    };
    rows::collect(&found, |row| journal::note(&request.workspace, row))
}

pub(crate) async fn list_evidence(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListEvidence,
) -> Result<Vec<StoredJournalEntry>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(Vec::new());
    };
    // No attempt is 0, and effects found by their key have negative ones.
    let after = if request.after_try == 0 { i32::MIN } else { request.after_try.cast_signed() };
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let wanted: [&(dyn ToSql + Sync); 4] = [&workspace.0, &request.effect.as_str(), &after, &limit];
    let found = query(&held, include_str!("../sql/list_evidence.sql"), &wanted).await?;
    rows::collect(&found, |row| journal::note(&request.workspace, row))
}
