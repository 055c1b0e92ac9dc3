//! Reverting rows in a transient status without an operation.

use hapax_engine::limits::MAX_STALE_CLAIMS;
use hapax_engine::model::{Entity, EntityId, EntityJournalEntry, EntityRef, JournalEvent, Payload, Version};
use hapax_engine::store::RevertStrays;

use crate::codes::millis;
use crate::entities::{write_out, write_rows};
use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::rows;
use crate::session::{Session, params};

impl Verb for RevertStrays {
    type Outcome = Vec<EntityId>;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.workspace.clone());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<Vec<EntityId>, Fault> {
        let table = session.get_table(&self.table).await?;
        // It reads the rows themselves, so earlier operations must have written theirs.
        write_out(session).await?;
        let asked = params![
            self.claim.into.to_string(),
            millis(self.before),
            self.kind.to_string(),
            self.limit.clamp(1, MAX_STALE_CLAIMS) as i64,
        ];
        let found = session.query(table.lock_strays.clone(), asked).await?;
        let strays = rows::collect(&found, |mut row| {
            let id = EntityId::new(row.text()?).map_err(|invalid| Fault::Refused(invalid.to_string()))?;
            Ok((id, Version::new(row.count()?)))
        })?;
        if strays.is_empty() {
            return Ok(Vec::new());
        }
        let now = session.now;
        let entity = |id: &EntityId| EntityRef { kind: self.kind.clone(), id: id.clone() };
        let revert = |(id, version): &(EntityId, Version)| {
            let (status, data) = (self.claim.into.clone(), Payload::null());
            let was = Entity { entity: entity(id), status, version: *version, data, updated_at: now };
            let is = Entity { status: self.claim.revert_to.clone(), version: version.next(), ..was.clone() };
            (was, is)
        };
        let reverted: Vec<(Entity, Entity)> = strays.iter().map(revert).collect();
        write_rows(session, &self.table, &reverted).await?;
        session.entities.forget_rows();
        session.entities.note(strays.iter().map(|(id, _)| EntityJournalEntry {
            workspace: self.workspace.clone(),
            entity: entity(id),
            operation: None,
            at: now,
            by: None,
            what: JournalEvent::StrayReverted { status: self.claim.revert_to.to_string() },
            evidence: None,
        }));
        Ok(strays.into_iter().map(|(id, _)| id).collect())
    }
}
