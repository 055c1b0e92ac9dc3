//! Checks keys of promises: the promise they name, their expiry, and the early settlements kept for keys
//! without a promise.

use std::collections::{BTreeMap, BTreeSet};

use super::invariant::{COMMITTED_TOGETHER, ONE_PROMISE};
use super::released_keys::Released;
use super::report::{Report, Violation};
use crate::limits::MAX_PAGE;
use crate::model::{
    IdempotencyKey, KeyKind, KeyRecord, KeyTarget, Promise, PromiseState, Timestamp, WorkspaceId,
};
use crate::store::{ListEarlySettlements, PromiseStore, Store, StoreError, StoreResult, StoredKey};

/// How often a changing key is read before it is skipped.
const LOOKS: usize = 3;

/// A fault of a key.
struct KeyFault {
    what: String,
    /// True if releasing the key would explain the fault, because it ends a key early.
    may_be_freed: bool,
}

/// Checks that the promise named by a key exists and has the key, and that the key expires when the promise
/// says.
pub(super) async fn check_named(
    store: &dyn Store,
    place: &StoredKey,
    record: &KeyRecord,
    released: &mut Released,
    report: &mut Report,
) -> StoreResult<()> {
    let StoredKey { workspace, kind, key } = place;
    let mut record = record.clone();
    for _ in 0..LOOKS {
        let Some(id) = record.promise() else { return Ok(()) };
        let promise = store.find_promise(workspace, id).await?;
        let Some(wrong) = find_wrong(key, &record, promise.as_ref()) else { return Ok(()) };
        match store.find_key(workspace, *kind, key).await? {
            // The key did not change while the promise was read.
            Some(again) if again == record => {
                let since = promise.map_or(record.first_seen_at, |promise| promise.created_at);
                let is_freed =
                    wrong.may_be_freed && released.has(store, workspace, *kind, key, since).await?;
                if !is_freed {
                    report.add(Violation { invariant: ONE_PROMISE, run: None, what: wrong.what });
                }
                return Ok(());
            }
            Some(again) => record = again,
            None => return Ok(()),
        }
    }
    Ok(())
}

fn find_wrong(key: &IdempotencyKey, record: &KeyRecord, promise: Option<&Promise>) -> Option<KeyFault> {
    let wrong = |what| Some(KeyFault { what, may_be_freed: false });
    let Some(promise) = promise else {
        return wrong(format!("the key {key} names {:?}, which is not there", record.target));
    };
    let id = &promise.id;
    if promise.key.as_ref().map(|own| &own.key) != Some(key) {
        return wrong(format!("the key {key} names the promise {id}, which has another, or none"));
    }
    if let PromiseState::KeyTaken { by } = &promise.state {
        return wrong(format!("the key {key} names the promise {id}, which lost it to {by}"));
    }
    let (ends, end) = (record.expires_at, promise.key_expires_at());
    // No expiry is later than any expiry.
    let is_early = ends.is_some_and(|ends| end.is_none_or(|end| ends < end));
    (ends != end).then(|| KeyFault {
        what: format!("the key {key} of the promise {id} expires at {ends:?}, not at {end:?}"),
        may_be_freed: is_early,
    })
}

/// Identifies a key of a promise.
type PromiseKeyRef = (WorkspaceId, IdempotencyKey);

/// Keys that are claimed for future promises, with their expiry.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<PromiseKeyRef, Timestamp>);

impl Claims {
    pub(super) fn note(&mut self, place: &StoredKey, record: &KeyRecord, now: Timestamp) {
        if let Some(until) = claimed_until(Some(record), now) {
            self.0.insert((place.workspace.clone(), place.key.clone()), until);
        }
    }

    /// Checks that a key is claimed exactly while an early settlement is kept under it.
    pub(super) async fn check(self, store: &dyn Store, report: &mut Report) -> StoreResult<()> {
        let Some(book) = store.promise_store() else { return Ok(()) };
        let kept = list_kept(book).await?;
        let differing = |place: &&PromiseKeyRef| self.0.get(*place) != kept.get(*place);
        let suspects: BTreeSet<PromiseKeyRef> =
            self.0.keys().chain(kept.keys()).filter(differing).cloned().collect();
        if suspects.is_empty() {
            return Ok(());
        }
        // The suspects may have changed since. Only keys that did not change while all settlements were read
        // again are judged.
        let mut before = BTreeMap::new();
        for place in suspects {
            let record = store.find_key(&place.0, KeyKind::Promise, &place.1).await?;
            before.insert(place, record);
        }
        let kept = list_kept(book).await?;
        for (place, record) in before {
            let (workspace, key) = &place;
            let now = store.now();
            if store.find_key(workspace, KeyKind::Promise, key).await? != record {
                continue;
            }
            let claimed = claimed_until(record.as_ref(), now);
            let kept = kept.get(&place).copied().filter(|until| now < *until);
            if claimed != kept {
                let what = format!(
                    "the key {key} is claimed for a promise until {claimed:?}, its settlement is kept until {kept:?}"
                );
                report.add(Violation { invariant: COMMITTED_TOGETHER, run: None, what });
            }
        }
        Ok(())
    }
}

fn claimed_until(record: Option<&KeyRecord>, now: Timestamp) -> Option<Timestamp> {
    let record = record.filter(|record| record.target == KeyTarget::Nothing && record.is_live(now))?;
    record.expires_at
}

/// Expiry of all early settlements that still wait for their promise.
async fn list_kept(book: &dyn PromiseStore) -> StoreResult<BTreeMap<PromiseKeyRef, Timestamp>> {
    let (mut kept, mut after) = (BTreeMap::new(), None);
    loop {
        let request = ListEarlySettlements { workspace: None, after: after.clone(), limit: MAX_PAGE };
        let page = book.list_early_settlements(request).await?;
        let Some(last) = page.last().map(|last| (last.workspace.clone(), last.key.clone())) else {
            return Ok(kept);
        };
        if after.as_ref().is_some_and(|after| last <= *after) {
            return Err(StoreError::Broken("the list of early settlements goes back".into()));
        }
        after = Some(last);
        kept.extend(page.into_iter().map(|one| ((one.workspace, one.key), one.early.expires_at)));
    }
}
