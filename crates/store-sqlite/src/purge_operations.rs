//! Forgetting operations that others have taken the place of.

use hapax_engine::limits::MAX_PURGE;
use hapax_engine::model::{EffectKey, OperationId, Timestamp};
use hapax_engine::store::{OperationCursor, PurgeOperations, PurgeOperationsOutcome};
use rusqlite::params;

use crate::codes::millis;
use crate::fault::Fault;
use crate::job::Verb;
use crate::operations::operation_bytes;
use crate::rows;
use crate::session::{Session, WorkspaceRowId};

/// An operation that was looked at.
struct ExpiredOperation {
    workspace: WorkspaceRowId,
    operation: OperationId,
    forgettable: bool,
    place: OperationCursor,
}

impl Verb for PurgeOperations {
    type Outcome = PurgeOperationsOutcome;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<PurgeOperationsOutcome, Fault> {
        let limit = self.limit.clamp(1, MAX_PURGE);
        let seen = look_at(session, self.after.as_ref(), self.ended_before, limit + 1)?;
        let mut purged = PurgeOperationsOutcome::default();
        for seen in seen.iter().take(limit).filter(|seen| seen.forgettable) {
            let (from, to) = EffectKey::bounds_of_operation(seen.operation);
            let mut delete = session.prepare(include_str!("../sql/delete_posts_between.sql"))?;
            purged.posts += delete.execute(params![seen.workspace.0, from.as_str(), to.as_str()])?;
            let mut delete = session.prepare(include_str!("../sql/delete_operation.sql"))?;
            purged.operations +=
                delete.execute(params![seen.workspace.0, operation_bytes(seen.operation)])?;
        }
        purged.next = (seen.len() > limit).then(|| seen[limit - 1].place.clone());
        Ok(purged)
    }
}

/// Workspace by workspace, in the order of their names.
fn look_at(
    session: &Session<'_, '_>,
    after: Option<&OperationCursor>,
    ended_before: Timestamp,
    limit: usize,
) -> Result<Vec<ExpiredOperation>, Fault> {
    let mut list = session.prepare(include_str!("../sql/list_workspaces.sql"))?;
    let from = after.map_or("", |after| after.workspace.as_str());
    let workspaces = rows::collect(list.query([from])?, |mut row| {
        Ok((WorkspaceRowId(row.get()?), rows::workspace_name(&mut row)?))
    })?;
    let mut list = session.prepare(include_str!("../sql/list_operations_to_purge.sql"))?;
    let mut seen = Vec::new();
    for (workspace, name) in workspaces {
        // No id is less than the empty one.
        let after = after.filter(|after| after.workspace == name);
        let after = after.map_or(Vec::new(), |after| operation_bytes(after.operation).to_vec());
        let left = (limit - seen.len()) as i64;
        let found = list.query(params![workspace.0, after, millis(ended_before), left])?;
        seen.extend(rows::collect(found, |mut row| {
            let operation = OperationId::from_u128(u128::from_be_bytes(row.get()?));
            let place = OperationCursor { workspace: name.clone(), operation };
            Ok(ExpiredOperation { workspace, operation, forgettable: row.get()?, place })
        })?);
        if seen.len() == limit {
            break;
        }
    }
    Ok(seen)
}
