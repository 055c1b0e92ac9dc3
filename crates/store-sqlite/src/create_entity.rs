//! Making an entity in the store's own table.

use hapax_engine::model::{Entity, EntityStorage, Version};
use hapax_engine::store::{CreateEntityOutcome, NewEntity};
use rusqlite::params;

use crate::codes::{count, millis};
use crate::entities::find_entity_in;
use crate::fault::Fault;
use crate::job::Verb;
use crate::session::Session;

impl Verb for NewEntity {
    type Outcome = CreateEntityOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<CreateEntityOutcome, Fault> {
        let workspace = session.number_workspace(&self.workspace)?;
        let known =
            find_entity_in(session.statements(), Some(workspace), &self.entity, &EntityStorage::BuiltIn)?;
        if let Some(known) = known {
            return Ok(CreateEntityOutcome::Exists(known.entity));
        }
        let entity = Entity {
            entity: self.entity.clone(),
            status: self.status.clone(),
            version: Version::new(1),
            data: self.data.clone(),
            updated_at: session.now,
        };
        session.prepare(include_str!("../sql/insert_entity.sql"))?.execute(params![
            workspace.0,
            entity.entity.kind.as_str(),
            entity.entity.id.as_str(),
            entity.status.as_str(),
            count(entity.version.get()),
            millis(entity.updated_at),
            entity.data.as_str(),
        ])?;
        Ok(CreateEntityOutcome::Created(entity))
    }
}
