//! Finishing an operation: the guarded write after the action.

use hapax_engine::model::{FinishFacts, FinishOperation, FinishOperationOutcome, decide_finish_operation};

use crate::entities::{self, EntityLocation, EntityNeeds};
use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::session::Session;

fn needs_of(request: &FinishOperation) -> EntityNeeds {
    EntityNeeds { operations: vec![(request.workspace.clone(), request.operation)], ..EntityNeeds::default() }
}

impl Verb for FinishOperation {
    type Outcome = FinishOperationOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.workspace.clone());
        needs.workspaces.extend(self.posts.iter().map(|post| post.workspace.clone()));
        needs.workspaces.extend(self.notes.iter().map(|note| note.workspace.clone()));
        needs.entities.extend(needs_of(self));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<FinishOperationOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(FinishOperationOutcome::Lost(None));
        };
        entities::prepare(session, &needs_of(self)).await?;
        let operation = session.entities.operation(workspace, self.operation).cloned();
        let mut place = None;
        if let Some(operation) = &operation {
            if let Some(table) = operation.home.table() {
                session.get_table(table).await?;
            }
            let entity = (self.workspace.clone(), operation.entity.clone(), operation.home.clone());
            entities::prepare(session, &EntityNeeds { entities: vec![entity], ..EntityNeeds::default() })
                .await?;
            place = Some((
                EntityLocation::new(workspace, &operation.entity, &operation.home),
                operation.entity.clone(),
            ));
        }
        let entity = place.as_ref().and_then(|(place, entity)| session.entities.entity(place, entity));
        let last_try = match &operation {
            Some(operation) if self.asks_for_last_try() => {
                entities::find_last_try(session, workspace, &operation.effect_key()).await?
            }
            _ => 0,
        };
        let facts = FinishFacts { operation, entity, last_try };
        let finished = decide_finish_operation(self, facts, session.now)
            .map_err(|invalid| Fault::Refused(invalid.to_string()))?;
        if let FinishOperationOutcome::Finished { operation, entity, evidence } = &finished {
            if let (Some((place, _)), Some(entity)) = (place, entity) {
                session.entities.put_entity(place, entity.clone());
            }
            session.entities.finish(workspace, (**operation).clone());
            session.entities.post(&self.posts);
            session.entities.note(self.notes.iter().cloned());
            session.entities.prove(evidence);
        }
        Ok(finished)
    }
}
