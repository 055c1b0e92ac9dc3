//! Creating an entity in the store's own table.

use hapax_engine::model::{Entity, EntityStorage, Version};
use hapax_engine::store::{CreateEntityOutcome, NewEntity};

use crate::entities::{self, EntityLocation, EntityNeeds};
use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::session::Session;

fn needs_of(request: &NewEntity) -> EntityNeeds {
    let entity = (request.workspace.clone(), request.entity.clone(), EntityStorage::BuiltIn);
    EntityNeeds { entities: vec![entity], ..EntityNeeds::default() }
}

impl Verb for NewEntity {
    type Outcome = CreateEntityOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.workspace.clone());
        needs.entities.extend(needs_of(self));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<CreateEntityOutcome, Fault> {
        let workspace = session.get_workspace(&self.workspace).await?;
        entities::prepare(session, &needs_of(self)).await?;
        let place = EntityLocation::new(workspace, &self.entity, &EntityStorage::BuiltIn);
        if let Some(entity) = session.entities.entity(&place, &self.entity) {
            return Ok(CreateEntityOutcome::Exists(entity));
        }
        // If another transaction creates it at the same time, the primary key fails, and the
        // operation is retried.
        let entity = Entity {
            entity: self.entity.clone(),
            status: self.status.clone(),
            version: Version::new(1),
            data: self.data.clone(),
            updated_at: session.now,
        };
        session.entities.put_entity(place, entity.clone());
        Ok(CreateEntityOutcome::Created(entity))
    }
}
