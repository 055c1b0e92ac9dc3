//! Making an entity in the store's own table.

use hapax_engine::model::{Entity, Home, Version};
use hapax_engine::store::{CreatedEntity, NewEntity};
use rusqlite::params;

use crate::codes::{count, millis};
use crate::entities::find_entity_in;
use crate::fault::Fault;
use crate::job::Verb;
use crate::session::Session;

impl Verb for NewEntity {
    type Outcome = CreatedEntity;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<CreatedEntity, Fault> {
        let workspace = session.number_workspace(&self.workspace)?;
        let known = find_entity_in(session.connection(), Some(workspace), &self.entity, &Home::Own)?;
        if let Some(known) = known {
            return Ok(CreatedEntity::Exists(known.entity));
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
        Ok(CreatedEntity::Created(entity))
    }
}
