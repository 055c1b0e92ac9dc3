//! Steps in doubt.

use std::sync::Arc;

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::store::{ListDoubts, StoredDoubt};
use uuid::Uuid;

use crate::codes::millis;
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows::{self, uuid};

pub(crate) async fn list_doubts(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListDoubts,
) -> Result<Vec<StoredDoubt>, Fault> {
    let workspace = match &request.workspace {
        None => None,
        Some(name) => match interned_names.find_workspace(held.link(), name).await? {
            None => return Ok(Vec::new()),
            Some(number) => Some(number.0),
        },
    };
    // No doubt began before the first instant.
    let (since, run, step) = match &request.after {
        Some(after) => (millis(after.since), uuid(after.run), after.step.as_str()),
        None => (i64::MIN, Uuid::nil(), ""),
    };
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let sql = include_str!("../sql/list_doubts.sql");
    let found = query(&held, sql, &[&since, &run, &step, &workspace, &limit]).await?;
    rows::collect(&found, |mut row| {
        let (workspace, run) = (rows::workspace_name(&mut row)?, row.run()?);
        Ok(StoredDoubt { workspace, run, step: rows::step_record(&mut row)? })
    })
}
