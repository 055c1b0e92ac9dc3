//! Beginning an operation: it and the entity's claim are one write.

use hapax_engine::model::{
    BeginFacts, BeginOperation, BeginOperationOutcome, CatalogKind, Operation, OperationStatus,
    decide_begin_operation,
};

use crate::entities::{find_entity_in, write_entity};
use crate::entity_notes::insert_entity_notes;
use crate::fault::Fault;
use crate::items::find_item_version;
use crate::job::Verb;
use crate::journal::{find_last_try, insert_notes};
use crate::operations::{
    Workspace, find_holder, find_keyed_operation_in, find_last_operation, find_operation_in, put_operation,
};
use crate::session::Session;

impl Verb for BeginOperation {
    type Outcome = BeginOperationOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<BeginOperationOutcome, Fault> {
        let number = session.find_workspace(&self.workspace)?;
        let statements = session.statements();
        let found = find_entity_in(statements, number, &self.entity, &self.home)?;
        let entity = found.as_ref().map(|found| found.entity.clone());
        let mut facts = BeginFacts { entity, ..BeginFacts::default() };
        if let Some(document) = &self.document {
            facts.document = find_item_version(statements, CatalogKind::EntityWorkflow, &document.item)?;
        }
        if let Some(number) = number {
            let workspace = Workspace { number, name: &self.workspace };
            facts.known = find_known(session, workspace, self)?;
            facts.holder = find_holder(statements, workspace, &self.entity)?;
            if facts.entity.as_ref().is_some_and(|entity| self.asks_for_last(entity)) {
                facts.last = find_last_operation(statements, workspace, &self.entity, &self.step)?;
            }
            if let Some(effect) = facts.continued_effect(self) {
                facts.last_try = find_last_try(statements, number, &effect)?;
            }
        }
        let is_pending = |known: &Operation| known.state.status() == OperationStatus::Pending;
        let was_begun = facts.known.as_ref().is_some_and(is_pending);
        let begun = decide_begin_operation(self, facts, session.now);
        // If it was begun by an earlier sending of the same request, everything is written.
        if let (BeginOperationOutcome::Begun { operation, entity, notes, evidence }, false) =
            (&begun, was_begun)
        {
            let number = session.number_workspace(&self.workspace)?;
            if let (Some(_), Some(found)) = (&operation.claim, &found) {
                write_entity(session, number, &self.home, found, entity)?;
            }
            put_operation(session, number, operation)?;
            insert_entity_notes(session, notes)?;
            insert_notes(session, evidence)?;
        }
        Ok(begun)
    }
}

/// The operation under the key; if there is none, the one with the id.
fn find_known(
    session: &Session<'_, '_>,
    workspace: Workspace<'_>,
    request: &BeginOperation,
) -> Result<Option<Operation>, Fault> {
    if let Some(key) = &request.key
        && let Some(keyed) = find_keyed_operation_in(session.statements(), workspace, key)?
    {
        return Ok(Some(keyed));
    }
    find_operation_in(session.statements(), workspace, request.id)
}
