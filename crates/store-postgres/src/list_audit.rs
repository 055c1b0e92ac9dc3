//! Pages of the audit log. Each filter has a query that walks an index of its own.

use std::sync::Arc;

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::store::{AuditFilter, ListAudit, StoredJournalEntry};

use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::journal;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows::{self, uuid};

pub(crate) async fn list_audit(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListAudit,
) -> Result<Vec<StoredJournalEntry>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(Vec::new());
    };
    let filter = &request.filter;
    let (at, place) = request.start();
    let found = query(
        &held,
        statement_for(filter),
        &[
            &workspace.0,
            &millis(at),
            &count(place),
            &filter.until.map(millis),
            &filter.run.map(uuid),
            &filter.credential,
            &filter.name,
            &filter.action,
            &filter.subject.as_ref().map(|subject| subject.as_str()),
            &(request.limit.clamp(1, MAX_PAGE) as i64),
        ],
    )
    .await?;
    rows::collect(&found, |row| journal::note(&request.workspace, row))
}

/// The statement with the most selective index.
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
