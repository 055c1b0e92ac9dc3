//! How keys are used.

use hapax_engine::model::KeyKind;
use hapax_engine::store::{KeyRef, KeyUsage, KeyUsageDelta};
use rusqlite::{Connection, params};

use crate::codes::{Code, count};
use crate::fault::Fault;
use crate::job::Verb;
use crate::read::find_workspace;
use crate::rows;
use crate::session::Session;

/// Counts to be added up.
pub(crate) struct AddKeyUsage(pub(crate) Vec<KeyUsageDelta>);

impl Verb for AddKeyUsage {
    type Outcome = ();

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<(), Fault> {
        for KeyUsageDelta { place, uses } in &self.0 {
            let Some(workspace) = session.find_workspace(place.workspace())? else { continue };
            let (replays, conflicts) = (count(uses.replays), count(uses.conflicts));
            match place {
                KeyRef::Run { key, .. } | KeyRef::Promise { key, .. } => {
                    let mut add = session.prepare(include_str!("../sql/count_key_uses.sql"))?;
                    add.execute(params![workspace.0, kind(place), key.as_str(), replays, conflicts])?
                }
                KeyRef::Request { scope, key } => {
                    let mut add = session.prepare(include_str!("../sql/count_request_uses.sql"))?;
                    let caller = scope.caller.as_str();
                    add.execute(params![workspace.0, caller, key.as_str(), replays, conflicts])?
                }
            };
        }
        Ok(())
    }
}

pub(crate) fn find_key_usage(connection: &Connection, place: &KeyRef) -> Result<KeyUsage, Fault> {
    let Some(workspace) = find_workspace(connection, place.workspace())? else {
        return Ok(KeyUsage::default());
    };
    let uses = |mut row: rows::Columns<'_>| Ok(KeyUsage { replays: row.count()?, conflicts: row.count()? });
    let found = match place {
        KeyRef::Run { key, .. } | KeyRef::Promise { key, .. } => {
            let mut find = connection.prepare_cached(include_str!("../sql/find_key_uses.sql"))?;
            rows::at_most_one(find.query(params![workspace.0, kind(place), key.as_str()])?, uses)?
        }
        KeyRef::Request { scope, key } => {
            let mut find = connection.prepare_cached(include_str!("../sql/find_request_uses.sql"))?;
            rows::at_most_one(find.query(params![workspace.0, scope.caller.as_str(), key.as_str()])?, uses)?
        }
    };
    Ok(found.unwrap_or_default())
}

/// Number of the key's kind in its column; request keys have a table of their own.
fn kind(place: &KeyRef) -> Option<i64> {
    match place {
        KeyRef::Run { .. } => Some(KeyKind::Run.code()),
        KeyRef::Promise { .. } => Some(KeyKind::Promise.code()),
        KeyRef::Request { .. } => None,
    }
}
