//! Ending an operation: the entity's new status, the outcome, the after-effects and notes are one
//! write.

use hapax_engine::model::{
    EntityStorage, FinishFacts, FinishOperation, FinishOperationOutcome, OperationEnd,
    decide_finish_operation,
};

use crate::entities::{find_entity_in, write_entity};
use crate::entity_notes::insert_entity_notes;
use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::{find_last_try, insert_notes};
use crate::operations::{Workspace, find_operation_in, write_state};
use crate::outbox::insert_posts;
use crate::session::Session;

impl Verb for FinishOperation {
    type Outcome = FinishOperationOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<FinishOperationOutcome, Fault> {
        let Some(number) = session.find_workspace(&self.workspace)? else {
            return Ok(FinishOperationOutcome::Lost(None));
        };
        let (statements, workspace) = (session.statements(), Workspace { number, name: &self.workspace });
        let operation = find_operation_in(statements, workspace, self.operation)?;
        let found = match &operation {
            Some(operation) => find_entity_in(statements, Some(number), &operation.entity, &operation.home)?,
            None => None,
        };
        let entity = found.as_ref().map(|found| found.entity.clone());
        let last_try = match &operation {
            Some(operation) if self.asks_for_last_try() => {
                find_last_try(statements, number, &operation.effect_key())?
            }
            _ => 0,
        };
        let facts = FinishFacts { operation, entity, last_try };
        let finished = decide_finish_operation(self, facts, session.now)
            .map_err(|error| Fault::Refused(error.to_string()))?;
        if let FinishOperationOutcome::Finished { operation, entity, evidence } = &finished {
            refuse_foreign_data(self, &operation.home)?;
            if let (Some(found), Some(entity)) = (&found, entity) {
                write_entity(session, number, &operation.home, found, entity)?;
            }
            write_state(session, number, operation)?;
            insert_posts(session, &self.posts)?;
            insert_entity_notes(session, &self.notes)?;
            insert_notes(session, evidence)?;
        }
        Ok(finished)
    }
}

/// The store knows the columns of the user's table that it reads, but not what may be written to them.
fn refuse_foreign_data(request: &FinishOperation, home: &EntityStorage) -> Result<(), Fault> {
    match (&request.end, home) {
        (OperationEnd::Done { data: Some(_), .. }, EntityStorage::UserTable(table)) => {
            Err(Fault::Refused(format!(
                "the columns of {} are not the store's to write: let the action write them, in the same transaction",
                table.table
            )))
        }
        _ => Ok(()),
    }
}
