//! Keys that operators released early, according to the journal.

use std::collections::BTreeMap;

use crate::limits::MAX_PAGE;
use crate::model::{IdempotencyKey, JournalEvent, KeyKind, Timestamp, WorkspaceId};
use crate::store::{ListJournal, Store, StoreResult};

/// When keys were last released, by kind and text.
type ReleaseTimes = BTreeMap<(String, String), Timestamp>;

/// When keys were last released. The journal of a workspace is read on first use, which is rare.
#[derive(Debug, Default)]
pub(super) struct Released {
    workspaces: BTreeMap<WorkspaceId, ReleaseTimes>,
}

impl Released {
    /// Returns true if an operator released the key at `since` or later.
    pub(super) async fn has(
        &mut self,
        store: &dyn Store,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
        since: Timestamp,
    ) -> StoreResult<bool> {
        if !self.workspaces.contains_key(workspace) {
            self.workspaces.insert(workspace.clone(), read(store, workspace).await?);
        }
        let place = (kind.as_str().to_owned(), key.as_str().to_owned());
        let freed = self.workspaces.get(workspace).and_then(|keys| keys.get(&place));
        Ok(freed.is_some_and(|at| *at >= since))
    }
}

async fn read(store: &dyn Store, workspace: &WorkspaceId) -> StoreResult<ReleaseTimes> {
    let (mut keys, mut after) = (BTreeMap::new(), 0);
    loop {
        let workspace = workspace.clone();
        let asked = ListJournal { workspace, run: None, by_people: true, after, limit: MAX_PAGE };
        let page = store.list_journal(asked).await?;
        let Some(last) = page.last() else { return Ok(keys) };
        after = last.place;
        for placed in page {
            if let JournalEvent::KeyReleased { kind, key, .. } = placed.note.what {
                keys.insert((kind, key), placed.note.at);
            }
        }
    }
}
