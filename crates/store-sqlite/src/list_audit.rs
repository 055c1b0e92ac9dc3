//! Pages of the audit log. Each filter has a query that walks an index of its own.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::store::{AuditFilter, ListAudit, StoredJournalEntry};
use rusqlite::{Connection, params};

use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::journal;
use crate::read::find_workspace;
use crate::rows::{self, bytes};

pub(crate) fn list_audit(
    connection: &Connection,
    request: &ListAudit,
) -> Result<Vec<StoredJournalEntry>, Fault> {
    let Some(workspace) = find_workspace(connection, &request.workspace)? else { return Ok(Vec::new()) };
    let filter = &request.filter;
    let (at, place) = request.start();
    let mut list = connection.prepare_cached(statement_for(filter))?;
    let found = list.query(params![
        workspace.0,
        millis(at),
        count(place),
        filter.until.map(millis),
        filter.run.map(bytes),
        filter.credential,
        filter.name,
        filter.action,
        filter.subject.as_ref().map(|subject| subject.as_str()),
        request.limit.clamp(1, MAX_PAGE) as i64,
    ])?;
    rows::collect(found, |row| journal::note(&request.workspace, row))
}

/// The statement whose index narrows most.
fn statement_for(filter: &AuditFilter) -> &'static str {
    match filter {
        AuditFilter { run: Some(_), .. } => include_str!("../sql/list_audit_by_run.sql"),
        AuditFilter { subject: Some(_), .. } => include_str!("../sql/list_audit_by_subject.sql"),
        AuditFilter { credential: Some(_), .. } => include_str!("../sql/list_audit_by_credential.sql"),
        AuditFilter { name: Some(_), .. } => include_str!("../sql/list_audit_by_person.sql"),
        AuditFilter { action: Some(_), .. } => include_str!("../sql/list_audit_by_action.sql"),
        _ => include_str!("../sql/list_audit_by_time.sql"),
    }
}
