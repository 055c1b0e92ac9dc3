//! Counting the use of keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use hapax_engine::model::{IdempotencyKey, KeyKind};
use hapax_engine::store::{KeyRef, KeyUsage, KeyUsageDelta};

use crate::codes::{Code, count};
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkspaceRowId};
use crate::job::{Needs, Verb};
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows;
use crate::session::{Session, params};

/// Counts to be added up.
pub(crate) struct AddKeyUsage(pub(crate) Vec<KeyUsageDelta>);

impl Verb for AddKeyUsage {
    type Outcome = ();

    fn foresee(&self, needs: &mut Needs) {
        for KeyUsageDelta { place, uses } in &self.0 {
            let counted = needs.uses.entry(place.clone()).or_default();
            counted.replays = counted.replays.saturating_add(uses.replays);
            counted.conflicts = counted.conflicts.saturating_add(uses.conflicts);
        }
    }

    /// The counts are added by the transaction, so there is nothing to apply.
    async fn apply(&self, _session: &mut Session<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

/// Promise keys among the counted keys; they are locked in the same order as keys that are read.
pub(crate) async fn promise_keys(
    session: &mut Session<'_>,
    uses: &BTreeMap<KeyRef, KeyUsage>,
) -> Result<Vec<(WorkspaceRowId, IdempotencyKey)>, Fault> {
    let mut keys = Vec::new();
    for place in uses.keys() {
        if let KeyRef::Promise { workspace, key } = place {
            keys.extend(session.find_workspace(workspace).await?.map(|workspace| (workspace, key.clone())));
        }
    }
    Ok(keys)
}

/// Adds the counts of all operations of a transaction, in the order of the keys, so that two
/// transactions never wait for each other.
pub(crate) async fn add(session: &mut Session<'_>, uses: &BTreeMap<KeyRef, KeyUsage>) -> Result<(), Fault> {
    for (place, uses) in uses {
        let Some(workspace) = session.find_workspace(place.workspace()).await? else { continue };
        let (replays, conflicts) = (count(uses.replays), count(uses.conflicts));
        match place {
            KeyRef::Run { key, .. } => session.keep_back(
                include_str!("../sql/count_key_uses.sql"),
                params![workspace.0, KeyKind::Run.code(), key.as_str().to_owned(), replays, conflicts],
            ),
            KeyRef::Promise { key, .. } => session.keep_back(
                include_str!("../sql/count_key_uses.sql"),
                params![workspace.0, KeyKind::Promise.code(), key.as_str().to_owned(), replays, conflicts],
            ),
            KeyRef::Request { scope, key } => session.keep_back(
                include_str!("../sql/count_request_uses.sql"),
                params![
                    workspace.0,
                    scope.caller.as_str().to_owned(),
                    key.as_str().to_owned(),
                    replays,
                    conflicts
                ],
            ),
        }
    }
    Ok(())
}

pub(crate) async fn find_key_usage(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    place: KeyRef,
) -> Result<KeyUsage, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), place.workspace()).await? else {
        return Ok(KeyUsage::default());
    };
    let found = match &place {
        KeyRef::Run { key, .. } => {
            let sql = include_str!("../sql/find_key_uses.sql");
            query(&held, sql, &[&workspace.0, &KeyKind::Run.code(), &key.as_str()]).await?
        }
        KeyRef::Promise { key, .. } => {
            let sql = include_str!("../sql/find_key_uses.sql");
            query(&held, sql, &[&workspace.0, &KeyKind::Promise.code(), &key.as_str()]).await?
        }
        KeyRef::Request { scope, key } => {
            let sql = include_str!("../sql/find_request_uses.sql");
            query(&held, sql, &[&workspace.0, &scope.caller.as_str(), &key.as_str()]).await?
        }
    };
    let uses =
        rows::at_most_one(&found, |mut row| Ok(KeyUsage { replays: row.count()?, conflicts: row.count()? }))?;
    Ok(uses.unwrap_or_default())
}
