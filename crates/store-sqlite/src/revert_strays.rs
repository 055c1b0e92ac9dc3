//! Giving back rows of the user's that are in a transient status although no operation holds them.

use hapax_engine::limits::MAX_STALE_CLAIMS;
use hapax_engine::model::{Entity, EntityId, EntityJournalEntry, EntityRef, JournalEvent};
use hapax_engine::store::RevertStrays;
use rusqlite::{Connection, params};

use crate::codes::millis;
use crate::entity_notes::insert_entity_notes;
use crate::fault::Fault;
use crate::job::Verb;
use crate::operations::is_held;
use crate::session::Session;
use crate::user_tables::{find_row, not_read, statement, text, write_row};

/// The ids of rows that look like strays.
pub(crate) fn list_strays(connection: &Connection, request: &RevertStrays) -> Result<Vec<EntityId>, Fault> {
    let failed = |error| not_read(connection, &request.table, error);
    let sql = statement(include_str!("../sql/user_tables/list_strays.sql"), &request.table)?;
    let mut list = connection.prepare_cached(&sql).map_err(failed)?;
    let mut rows = list
        .query(params![
            request.claim.into.as_str(),
            millis(request.before),
            request.kind.as_str(),
            request.limit.clamp(1, MAX_STALE_CLAIMS) as i64,
        ])
        .map_err(failed)?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        // An id that no entity can have was not put there by anything of ours, and nobody can ask for it.
        ids.extend(text(row.get_ref(0)?).and_then(|id| EntityId::new(&id).ok()));
    }
    Ok(ids)
}

/// Reverts the rows that are still without an operation.
pub(crate) struct RevertRows {
    pub(crate) request: RevertStrays,
    pub(crate) ids: Vec<EntityId>,
}

impl Verb for RevertRows {
    type Outcome = Vec<EntityId>;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<Vec<EntityId>, Fault> {
        let RevertStrays { workspace, kind, table, claim, before, .. } = &self.request;
        let connection = session.connection();
        let (mut reverted, mut notes) = (Vec::new(), Vec::new());
        for id in &self.ids {
            let entity = EntityRef { kind: kind.clone(), id: id.clone() };
            let Some(found) = find_row(connection, table, &entity)? else { continue };
            let is_stray = found.entity.status == claim.into && found.entity.updated_at < *before;
            if !is_stray || is_held(connection, &entity)? {
                continue;
            }
            let given_back = Entity {
                status: claim.revert_to.clone(),
                version: found.entity.version.next(),
                updated_at: session.now,
                ..found.entity.clone()
            };
            write_row(connection, table, &found, &given_back)?;
            reverted.push(id.clone());
            notes.push(EntityJournalEntry {
                workspace: workspace.clone(),
                entity,
                operation: None,
                at: session.now,
                by: None,
                what: JournalEvent::StrayReverted { status: claim.revert_to.to_string() },
                evidence: None,
            });
        }
        insert_entity_notes(session, &notes)?;
        Ok(reverted)
    }
}
