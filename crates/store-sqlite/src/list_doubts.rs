//! Steps in doubt.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::store::{ListDoubts, StoredDoubt};
use rusqlite::{Connection, params};

use crate::codes::millis;
use crate::fault::Fault;
use crate::read::find_workspace;
use crate::rows::{self, bytes};

pub(crate) fn list_doubts(connection: &Connection, request: &ListDoubts) -> Result<Vec<StoredDoubt>, Fault> {
    let workspace = match &request.workspace {
        None => None,
        Some(name) => match find_workspace(connection, name)? {
            None => return Ok(Vec::new()),
            Some(number) => Some(number.0),
        },
    };
    // Nothing is in doubt since before the first instant there is.
    let (since, run, step) = match &request.after {
        Some(after) => (millis(after.since), bytes(after.run).to_vec(), after.step.as_str()),
        None => (i64::MIN, Vec::new(), ""),
    };
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let mut list = connection.prepare_cached(include_str!("../sql/list_doubts.sql"))?;
    rows::collect(list.query(params![since, run, step, workspace, limit])?, |mut row| {
        let (workspace, run) = (rows::workspace_name(&mut row)?, row.run()?);
        Ok(StoredDoubt { workspace, run, step: rows::step_columns(&mut row)? })
    })
}
