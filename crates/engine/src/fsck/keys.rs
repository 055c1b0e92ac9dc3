//! Checks keys and subjects: the object they name, and their lifetime.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use super::invariant::{KEY_HAS_FINGERPRINT, KEY_IN_WORKSPACE, KEY_OUTLIVES_RUN, ONE_RUN_PER_KEY};
use super::promise_keys::{self, Claims};
use super::released_keys::Released;
use super::report::{Report, Violation};
use super::snapshot::Snapshot;
use crate::model::{
    IdempotencyKey, KeyKind, KeyTarget, Name, RunHead, RunId, RunState, Subject, Timestamp, WorkspaceId,
    decide_key_expiry,
};
use crate::store::{Store, StoreError, StoreResult, StoredKey};

/// Keys and subjects that runs claim to have.
#[derive(Debug, Default)]
pub(super) struct ClaimedKeys {
    runs: BTreeMap<RunId, (WorkspaceId, Option<IdempotencyKey>)>,
    subjects: BTreeMap<(WorkspaceId, Name, Subject), Vec<RunId>>,
}

impl ClaimedKeys {
    pub(super) fn note(&mut self, head: &RunHead) {
        let facts = &head.facts;
        self.runs.insert(facts.id, (facts.workspace.clone(), facts.key.clone()));
        if let Some(subject) = facts.subject.clone().filter(|_| !head.status().is_closed()) {
            let place = (facts.workspace.clone(), facts.workflow.name.clone(), subject);
            self.subjects.entry(place).or_default().push(facts.id);
        }
    }
}

/// Checks the key of one run. It names an open run without an expiry, and a closed run until its retention
/// ends or an operator releases it.
pub(super) async fn check_own(
    store: &dyn Store,
    snapshot: &Snapshot,
    released: &mut Released,
    found: &mut Found,
) -> StoreResult<()> {
    let facts = &snapshot.log.head.facts;
    if facts.key.is_some() != facts.fingerprint.is_some() {
        found.push((KEY_HAS_FINGERPRINT, "it has a key or a fingerprint, but not both".into()));
    }
    let Some(key) = &facts.key else { return Ok(()) };
    let fingerprint = snapshot.key.as_ref().and_then(|record| match record.target {
        KeyTarget::Run { run, fingerprint } if run == facts.id => Some(fingerprint),
        KeyTarget::Run { .. } | KeyTarget::Promise(_) | KeyTarget::Nothing => None,
    });
    if fingerprint.is_some() && fingerprint != facts.fingerprint {
        found.push((KEY_HAS_FINGERPRINT, "its key stands for another fingerprint".into()));
    }
    if let Some(wrong) = check_end(snapshot, store.now()) {
        let is_closed = snapshot.log.head.status().is_closed();
        if !is_closed || !released.has(store, &facts.workspace, KeyKind::Run, key, facts.created_at).await? {
            found.push(wrong);
        }
    }
    Ok(())
}

/// The fault in the expiry of the key, assuming that no operator released it.
fn check_end(snapshot: &Snapshot, now: Timestamp) -> Option<(u8, String)> {
    let head = &snapshot.log.head;
    let end = match head.state {
        RunState::Closed { at, ending } => decide_key_expiry(head.facts.retention, ending, at),
        RunState::Pending { .. } | RunState::Running(_) | RunState::Waiting { .. } | RunState::Paused => None,
    };
    match &snapshot.key {
        Some(own) if own.run() == Some(head.id()) => (own.expires_at != end)
            .then(|| (KEY_OUTLIVES_RUN, format!("its key expires at {:?}, not at {end:?}", own.expires_at))),
        _ if end.is_some_and(|end| end <= now) => None,
        Some(other) => {
            Some((ONE_RUN_PER_KEY, format!("its key still protects it, but names {:?}", other.target)))
        }
        None => Some((KEY_OUTLIVES_RUN, "its key is gone while it should live".into())),
    }
}

/// Checks every key, and the keys and subjects of all runs together.
pub(super) async fn check_all(
    store: &dyn Store,
    named: &ClaimedKeys,
    workspaces: &mut BTreeSet<WorkspaceId>,
    released: &mut Released,
    report: &mut Report,
) -> StoreResult<()> {
    let mut claims = Claims::default();
    let mut after: Option<StoredKey> = None;
    loop {
        let page = store.list_keys(after.clone()).await?;
        let Some((last, _)) = page.last() else { break };
        if after.as_ref().is_some_and(|after| last <= after) {
            return Err(StoreError::Broken("the list of keys goes back".into()));
        }
        after = Some(last.clone());
        for (place, record) in &page {
            report.keys += 1;
            workspaces.insert(place.workspace.clone());
            match (place.kind, &record.target) {
                (KeyKind::Run, KeyTarget::Run { run, .. }) => check_place(place, *run, named, report),
                (KeyKind::Promise, KeyTarget::Promise(_)) => {
                    promise_keys::check_named(store, place, record, released, report).await?;
                }
                (KeyKind::Promise, KeyTarget::Nothing) => claims.note(place, record, store.now()),
                (kind, target) => {
                    let what = format!("the {} key {} names {target:?}", kind.as_str(), place.key);
                    report.add(Violation { invariant: ONE_RUN_PER_KEY, run: None, what });
                }
            }
        }
    }
    claims.check(store, report).await?;
    for ((_, workflow, subject), runs) in named.subjects.iter().filter(|(_, runs)| runs.len() > 1) {
        let what = format!("{} open runs of {workflow} on subject {subject}", runs.len());
        report.add(Violation { invariant: ONE_RUN_PER_KEY, run: runs.first().copied(), what });
    }
    Ok(())
}

/// Checks that a key names a run that has it. A key of a purged run is fine: it still prevents a second run.
fn check_place(place: &StoredKey, run: RunId, named: &ClaimedKeys, report: &mut Report) {
    let Some((workspace, key)) = named.runs.get(&run) else { return };
    let invariant = match (*workspace == place.workspace, key.as_ref() == Some(&place.key)) {
        (false, _) => KEY_IN_WORKSPACE,
        (true, false) => ONE_RUN_PER_KEY,
        (true, true) => return,
    };
    let what = format!("key {} of workspace {} names it", place.key, place.workspace);
    report.add(Violation { invariant, run: Some(run), what });
}
