//! Holders of operations say that they live.

use hapax_engine::limits::MAX_HEARTBEATS;
use hapax_engine::model::{OperationId, OwnerId};
use hapax_engine::store::HeldOperation;
use rusqlite::params;

use crate::codes::millis;
use crate::fault::Fault;
use crate::job::Verb;
use crate::operations::operation_bytes;
use crate::session::Session;

/// Operations that one holder believes to hold; returns the lost ones.
pub(crate) struct HeartbeatOperations {
    pub(crate) owner: OwnerId,
    pub(crate) held: Vec<HeldOperation>,
}

impl Verb for HeartbeatOperations {
    type Outcome = Vec<OperationId>;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<Vec<OperationId>, Fault> {
        if self.held.len() > MAX_HEARTBEATS {
            return Err(Fault::Refused(format!("at most {MAX_HEARTBEATS} operations are heard of at once")));
        }
        let mut lost = Vec::new();
        for HeldOperation { workspace, operation, attempt } in &self.held {
            let heard = match session.find_workspace(workspace)? {
                Some(workspace) => {
                    session.prepare(include_str!("../sql/hear_of_operation.sql"))?.execute(params![
                        workspace.0,
                        operation_bytes(*operation),
                        attempt,
                        self.owner.as_u128().to_be_bytes(),
                        millis(session.now),
                    ])?
                }
                None => 0,
            };
            if heard == 0 {
                lost.push(*operation);
            }
        }
        Ok(lost)
    }
}
