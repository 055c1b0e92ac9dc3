//! Families: count the descendants of a root, and cancel all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use hapax_engine::limits::MAX_SWEEP;
use hapax_engine::model::{
    CancelledFamily, ChildrenRefused, Family, RunCommand, RunCommit, RunHead, RunId, Subscribers,
    WorkspaceId, decide_add_children, decide_command,
};
use hapax_engine::store::{
    CancelFamily, CancelFamilyOutcome, FamilyStore, StoreResult, SweepFamily, SweepFamilyOutcome,
};
use uuid::Uuid;

use crate::codes::{count, millis_of};
use crate::ending::{announce_ending, follow_ending, insert_result};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::pools::HeldConnection;
use crate::rows::{self, Columns, StoredHead, uuid};
use crate::session::{Session, params};
use crate::store::PostgresStore;

/// Locked families, with the session's changes; `None` for a missing row.
pub(crate) type KnownFamilies = HashMap<(WorkspaceRowId, RunId), Option<Family>>;

#[async_trait]
impl FamilyStore for PostgresStore {
    async fn cancel_family(&self, request: CancelFamily) -> StoreResult<CancelFamilyOutcome> {
        self.consider(request).await
    }

    async fn sweep_family(&self, request: SweepFamily) -> StoreResult<SweepFamilyOutcome> {
        self.consider(request).await
    }

    async fn list_unswept_families(&self, limit: usize) -> StoreResult<Vec<(WorkspaceId, RunId)>> {
        self.read(|held| list_unswept(held, limit)).await
    }
}

async fn list_unswept(held: Arc<HeldConnection>, limit: usize) -> Result<Vec<(WorkspaceId, RunId)>, Fault> {
    let list = held.prepare_cached(include_str!("../sql/list_unswept_families.sql")).await?;
    let found = held.query(&list, &[&(limit.min(MAX_SWEEP) as i64)]).await?;
    rows::collect(&found, |mut row| Ok((WorkspaceId::new(row.text()?).map_err(rows::broken)?, row.run()?)))
}

/// Locks families in the order of their roots, after all foreseen runs. A family without a row has
/// no member but its root, whose own lock is enough.
pub(crate) async fn lock(
    session: &mut Session<'_>,
    wanted: &BTreeSet<(RunId, WorkspaceRowId)>,
) -> Result<(), Fault> {
    let new: Vec<(WorkspaceRowId, RunId)> = wanted
        .iter()
        .map(|(root, workspace)| (*workspace, *root))
        .filter(|place| !session.families.contains_key(place))
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    let workspaces: Vec<i32> = new.iter().map(|(workspace, _)| workspace.0).collect();
    let roots: Vec<Uuid> = new.iter().map(|(_, root)| uuid(*root)).collect();
    let asked = params![new.len() as i64, workspaces, roots];
    let found = session.query(include_str!("../sql/lock_families.sql"), asked).await?;
    session.families.extend(new.into_iter().map(|place| (place, None)));
    for row in &found {
        let mut row = Columns::of(row);
        let place = (WorkspaceRowId(row.get()?), row.run()?);
        let born = row.count()?;
        let (at, reason) = (row.maybe_at()?, row.maybe_text()?.map(str::to_owned));
        let is_swept: bool = row.get()?;
        let cancelled = at.zip(reason).map(|(at, reason)| CancelledFamily { at, reason, is_swept });
        session.families.insert(place, Some(Family { born, cancelled }));
    }
    Ok(())
}

async fn find_family(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    root: RunId,
) -> Result<Option<Family>, Fault> {
    lock(session, &BTreeSet::from([(root, workspace)])).await?;
    Ok(session.families.get(&(workspace, root)).cloned().flatten())
}

pub(crate) fn put_family(session: &mut Session<'_>, workspace: WorkspaceRowId, root: RunId, family: Family) {
    let cancelled = family.cancelled.as_ref();
    let written = params![
        workspace.0,
        uuid(root),
        count(family.born),
        millis_of(cancelled.map(|cancelled| cancelled.at)),
        cancelled.map(|cancelled| cancelled.reason.clone()),
        cancelled.is_some_and(|cancelled| cancelled.is_swept),
    ];
    session.keep_back(include_str!("../sql/put_family.sql"), written);
    session.families.insert((workspace, root), Some(family));
}

/// Returns true if the write changes its family.
pub(crate) fn concerns_family(advance: &RunCommit) -> bool {
    !advance.children.is_empty() || (advance.input.is_some() && advance.head.facts.parent.is_none())
}

/// The family of a run after this write creates `born` new children, if that changes it.
pub(crate) async fn family_after(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
    born: usize,
) -> Result<Result<Option<Family>, ChildrenRefused>, Fault> {
    if !concerns_family(advance) {
        return Ok(Ok(None));
    }
    let facts = &advance.head.facts;
    let known = find_family(session, workspace, facts.root()).await?;
    if born == 0 && known.is_none() {
        return Ok(Ok(None));
    }
    let mut family = known.unwrap_or_default();
    if advance.input.is_some() && facts.parent.is_none() {
        family.born = 0;
    }
    if born == 0 {
        return Ok(Ok(Some(family)));
    }
    Ok(decide_add_children(&family, facts.root(), born as u64, advance.max_descendants).map(Some))
}

/// Counts a run that has a parent but is not started by the parent's own write.
pub(crate) async fn count_start(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    root: RunId,
) -> Result<(), Fault> {
    let family = find_family(session, workspace, root).await?.unwrap_or_default();
    let family = decide_add_children(&family, root, 1, u64::MAX);
    let family = family.map_err(|refused| Fault::Refused(refused.to_string()))?;
    put_family(session, workspace, root, family);
    Ok(())
}

impl Verb for CancelFamily {
    type Outcome = CancelFamilyOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.runs.push((self.workspace.clone(), self.root));
        needs.families.push((self.workspace.clone(), self.root));
        needs.bring(&self.workspace, self.note.as_slice());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<CancelFamilyOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(CancelFamilyOutcome::NoSuchRun);
        };
        let Some(StoredHead { head, .. }) = session.find_head(workspace, self.root).await? else {
            return Ok(CancelFamilyOutcome::NoSuchRun);
        };
        if let Some(parent) = &head.facts.parent {
            return Ok(CancelFamilyOutcome::NotRoot(parent.root));
        }
        if self.expected.is_some_and(|expected| expected != head.version) {
            return Ok(CancelFamilyOutcome::Stale(head.version));
        }
        let family = find_family(session, workspace, self.root).await?.unwrap_or_default();
        put_family(session, workspace, self.root, family.cancel(&self.reason, session.now));
        insert_notes(session, self.note.as_slice()).await?;
        Ok(CancelFamilyOutcome::Cancelled(head))
    }
}

impl Verb for SweepFamily {
    type Outcome = SweepFamilyOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.runs.push((self.workspace.clone(), self.root));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<SweepFamilyOutcome, Fault> {
        let mut swept = SweepFamilyOutcome::default();
        let Some(workspace) = session.find_workspace(&self.workspace).await? else { return Ok(swept) };
        let limit = self.limit.clamp(1, MAX_SWEEP);
        let mut members: Vec<RunId> = self.after.is_none().then_some(self.root).into_iter().collect();
        members.extend(list_open_descendants(session, workspace, self, limit + 1).await?);
        // Runs before families: the lock order.
        let places: Vec<_> = members.iter().take(limit).map(|run| (workspace, *run)).collect();
        session.lock(&places).await?;
        let Some(family) = find_family(session, workspace, self.root).await? else { return Ok(swept) };
        let Some(cancelled) = family.cancelled.clone() else { return Ok(swept) };
        for run in members.iter().take(limit) {
            let member = cancel_member(session, workspace, *run, &cancelled.reason, &self.announce).await?;
            swept.steered.extend(member);
        }
        match members.len() > limit {
            true => swept.next = Some(members[limit - 1]),
            false => {
                let cancelled = Some(CancelledFamily { is_swept: true, ..cancelled });
                put_family(session, workspace, self.root, Family { cancelled, ..family });
            }
        }
        Ok(swept)
    }
}

async fn list_open_descendants(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    sweep: &SweepFamily,
    limit: usize,
) -> Result<Vec<RunId>, Fault> {
    let after = sweep.after.map_or(Uuid::nil(), uuid);
    let asked = params![workspace.0, uuid(sweep.root), after, limit as i64];
    let found = session.query(include_str!("../sql/list_open_descendants.sql"), asked).await?;
    rows::collect(&found, |mut row| row.run())
}

/// The member, if it was asked to cancel, or if that ended it.
async fn cancel_member(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    run: RunId,
    reason: &str,
    announce: &Subscribers,
) -> Result<Option<RunHead>, Fault> {
    let Some(stored) = session.find_head(workspace, run).await? else { return Ok(None) };
    let command = RunCommand::Cancel { reason: reason.to_owned() };
    let Ok(steered) = decide_command(&stored.head, &command, &[], session.now) else { return Ok(None) };
    let written = StoredHead { head: steered.head.clone(), ..stored };
    session.write_head(written.clone());
    session.insert_event(workspace, run, &steered.event);
    session.has_woken |= written.head.state.wake_at().is_some();
    if let Some(result) = &steered.result {
        insert_result(session, workspace, run, result)?;
        announce_ending(session, &written.head, announce).await?;
        // The next claim finds the runs that this makes due.
        follow_ending(session, written, announce, &mut Vec::new()).await?;
    }
    Ok(Some(steered.head))
}
