//! How keys are used.

use std::collections::BTreeMap;
use std::sync::Arc;

use hapax_engine::model::{IdempotencyKey, KeyKind};
use hapax_engine::store::{KeyPlace, KeyUse, Uses};

use crate::codes::{Code, count};
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkspaceRowId};
use crate::job::{Needs, Verb};
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows;
use crate::session::{Session, params};

/// Counts to be added up.
pub(crate) struct CountUses(pub(crate) Vec<KeyUse>);

impl Verb for CountUses {
    type Outcome = ();

    fn foresee(&self, needs: &mut Needs) {
        for KeyUse { place, uses } in &self.0 {
            let counted = needs.uses.entry(place.clone()).or_default();
            counted.replays = counted.replays.saturating_add(uses.replays);
            counted.conflicts = counted.conflicts.saturating_add(uses.conflicts);
        }
    }

    /// All is done with what was foreseen.
    async fn apply(&self, _session: &mut Session<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

/// The keys of promises among those that are counted: they are locked like those that are looked at.
pub(crate) async fn promise_keys(
    session: &mut Session<'_>,
    uses: &BTreeMap<KeyPlace, Uses>,
) -> Result<Vec<(WorkspaceRowId, IdempotencyKey)>, Fault> {
    let mut keys = Vec::new();
    for place in uses.keys() {
        if let KeyPlace::Promise { workspace, key } = place {
            keys.extend(session.find_workspace(workspace).await?.map(|workspace| (workspace, key.clone())));
        }
    }
    Ok(keys)
}

/// Adds up what all operations of a transaction counted, in the order of the keys, so that no two transactions wait for each other.
pub(crate) async fn add(session: &mut Session<'_>, uses: &BTreeMap<KeyPlace, Uses>) -> Result<(), Fault> {
    for (place, uses) in uses {
        let Some(workspace) = session.find_workspace(place.workspace()).await? else { continue };
        let (replays, conflicts) = (count(uses.replays), count(uses.conflicts));
        match place {
            KeyPlace::Run { key, .. } => session.keep_back(
                include_str!("../sql/count_key_uses.sql"),
                params![workspace.0, KeyKind::Run.code(), key.as_str().to_owned(), replays, conflicts],
            ),
            KeyPlace::Promise { key, .. } => session.keep_back(
                include_str!("../sql/count_key_uses.sql"),
                params![workspace.0, KeyKind::Promise.code(), key.as_str().to_owned(), replays, conflicts],
            ),
            KeyPlace::Request { scope, key } => session.keep_back(
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

pub(crate) async fn find_uses(
    held: Arc<HeldConnection>,
    numbers: Arc<InternedNames>,
    place: KeyPlace,
) -> Result<Uses, Fault> {
    let Some(workspace) = numbers.find_workspace(held.link(), place.workspace()).await? else {
        return Ok(Uses::default());
    };
    let found = match &place {
        KeyPlace::Run { key, .. } => {
            let sql = include_str!("../sql/find_key_uses.sql");
            query(&held, sql, &[&workspace.0, &KeyKind::Run.code(), &key.as_str()]).await?
        }
        KeyPlace::Promise { key, .. } => {
            let sql = include_str!("../sql/find_key_uses.sql");
            query(&held, sql, &[&workspace.0, &KeyKind::Promise.code(), &key.as_str()]).await?
        }
        KeyPlace::Request { scope, key } => {
            let sql = include_str!("../sql/find_request_uses.sql");
            query(&held, sql, &[&workspace.0, &scope.caller.as_str(), &key.as_str()]).await?
        }
    };
    let uses =
        rows::at_most_one(&found, |mut row| Ok(Uses { replays: row.count()?, conflicts: row.count()? }))?;
    Ok(uses.unwrap_or_default())
}
