//! Beginning an operation: the claim before the action.

use hapax_engine::model::{BeginFacts, BeginOperation, BeginOperationOutcome, decide_begin_operation};

use crate::entities::{self, EntityLocation, EntityNeeds};
use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::session::Session;

/// A request to begin.
pub(crate) struct BeginRequest {
    pub(crate) request: BeginOperation,
    /// Can a row of the user's table have this id?
    pub(crate) id_fits: bool,
}

impl BeginRequest {
    fn needs(&self) -> EntityNeeds {
        let request = &self.request;
        let (workspace, entity) = (&request.workspace, &request.entity);
        let mut needs = EntityNeeds::default();
        if self.id_fits {
            needs.entities.push((workspace.clone(), entity.clone(), request.home.clone()));
        }
        needs.ids.push((workspace.clone(), request.id));
        needs.keys.extend(request.key.iter().map(|key| (workspace.clone(), key.clone())));
        needs.held.push((workspace.clone(), entity.clone()));
        needs.documents.extend(request.document.iter().map(|document| document.item.clone()));
        if request.may_ask_for_last() {
            needs.steps.push((workspace.clone(), entity.clone(), request.step.clone()));
        }
        needs
    }
}

impl Verb for BeginRequest {
    type Outcome = BeginOperationOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.request.workspace.clone());
        needs.entities.extend(self.needs());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<BeginOperationOutcome, Fault> {
        let request = &self.request;
        if let Some(table) = request.home.table() {
            session.get_table(table).await?;
        }
        let workspace = session.get_workspace(&request.workspace).await?;
        entities::prepare(session, &self.needs()).await?;
        let known = &session.entities;
        let place = EntityLocation::new(workspace, &request.entity, &request.home);
        let entity = known.entity(&place, &request.entity);
        let asks_for_last = entity.as_ref().is_some_and(|entity| request.asks_for_last(entity));
        let last = known.last(workspace, &request.entity, &request.step).filter(|_| asks_for_last);
        let keyed = request.key.as_ref().and_then(|key| known.keyed(workspace, key));
        let mut facts = BeginFacts {
            known: keyed.or_else(|| known.operation(workspace, request.id)).cloned(),
            entity,
            holder: known.holder(workspace, &request.entity).cloned(),
            last: last.cloned(),
            document: request.document.as_ref().and_then(|document| known.document(&document.item)),
            last_try: 0,
        };
        if let Some(effect) = facts.continued_effect(request) {
            facts.last_try = entities::find_last_try(session, workspace, &effect).await?;
        }
        let begun = decide_begin_operation(request, facts, session.now);
        if let BeginOperationOutcome::Begun { operation, entity, notes, evidence } = &begun
            && session.entities.operation(workspace, operation.id) != Some(&**operation)
        {
            if operation.claim.is_some() {
                session.entities.put_entity(place, entity.clone());
            }
            session.entities.begin(workspace, (**operation).clone());
            session.entities.note(notes.iter().cloned());
            session.entities.prove(evidence);
        }
        Ok(begun)
    }
}
