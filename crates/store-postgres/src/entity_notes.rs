//! Notes on entities, as rows.

use std::sync::Arc;

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{EntityJournalEntry, JournalEntry};
use hapax_engine::store::{ListEntityJournal, StoredEntityEntry};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::job::{Needs, Verb};
use crate::journal::{insert_notes, origin_text, person};
use crate::operations::operation_uuid;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows::{self, broken};
use crate::session::{Session, params};

/// Notes without another write.
pub(crate) struct AppendEntityNotes(pub(crate) Vec<EntityJournalEntry>);

impl Verb for AppendEntityNotes {
    type Outcome = ();

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.extend(self.0.iter().map(|note| note.workspace.clone()));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        session.entities.note(self.0.iter().cloned());
        Ok(())
    }
}

/// Appends notes in their order, and people's notes to the journal as well.
pub(crate) async fn insert_entity_notes(
    session: &mut Session<'_>,
    notes: &[EntityJournalEntry],
) -> Result<(), Fault> {
    if notes.is_empty() {
        return Ok(());
    }
    let journalled: Vec<JournalEntry> =
        notes.iter().filter_map(EntityJournalEntry::to_journal_entry).collect();
    insert_notes(session, &journalled).await?;
    let notes: Vec<&EntityJournalEntry> = notes.iter().filter(|note| !note.is_for_audit_only()).collect();
    if notes.is_empty() {
        return Ok(());
    }
    let (mut workspaces, mut bodies) = (Vec::with_capacity(notes.len()), Vec::with_capacity(notes.len()));
    for note in &notes {
        workspaces.push(session.get_workspace(&note.workspace).await?.0);
        let body = serde_json::to_string(&note.what);
        bodies.push(body.map_err(|error| Fault::Refused(format!("a note cannot be kept: {error}")))?);
    }
    let kinds: Vec<String> = notes.iter().map(|note| note.entity.kind.to_string()).collect();
    let entities: Vec<String> = notes.iter().map(|note| note.entity.id.to_string()).collect();
    let operations: Vec<Option<Uuid>> = notes.iter().map(|note| note.operation.map(operation_uuid)).collect();
    let at: Vec<i64> = notes.iter().map(|note| millis(note.at)).collect();
    let actors: Vec<Option<String>> =
        notes.iter().map(|note| note.by.as_ref().map(|by| by.name.clone())).collect();
    let roles: Vec<Option<i16>> =
        notes.iter().map(|note| note.by.as_ref().map(|by| by.role.code())).collect();
    let origins = notes.iter().map(|note| origin_text(note.by.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let written = params![workspaces, kinds, entities, operations, at, actors, roles, origins, bodies];
    session.keep_back(include_str!("../sql/insert_entity_notes.sql"), written);
    Ok(())
}

pub(crate) async fn list_entity_journal(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListEntityJournal,
) -> Result<Vec<StoredEntityEntry>, Fault> {
    let ListEntityJournal { workspace: name, entity, operation, after, limit } = request;
    let Some(workspace) = interned_names.find_workspace(held.link(), &name).await? else {
        return Ok(Vec::new());
    };
    let wanted: [&(dyn ToSql + Sync); 6] = [
        &workspace.0,
        &entity.kind.as_str(),
        &entity.id.as_str(),
        &count(after),
        &(limit.clamp(1, MAX_PAGE) as i64),
        &operation.map(operation_uuid),
    ];
    let found = query(&held, include_str!("../sql/list_entity_notes.sql"), &wanted).await?;
    rows::collect(&found, |mut row| {
        let place = row.count()?;
        let operation = row.get::<Option<Uuid>>()?;
        let operation = operation.map(|id| hapax_engine::model::OperationId::from_u128(id.as_u128()));
        let at = row.at()?;
        let by = person(&mut row)?;
        let what = serde_json::from_str(row.text()?).map_err(broken)?;
        let (workspace, entity) = (name.clone(), entity.clone());
        Ok(StoredEntityEntry {
            place,
            note: EntityJournalEntry { workspace, entity, operation, at, by, what, evidence: None },
        })
    })
}
