//! Families: how many descend from a root, and cancelling all of them.

use async_trait::async_trait;
use hapax_engine::limits::MAX_SWEEP;
use hapax_engine::model::{
    CancelledFamily, ChildrenRefused, Family, RunCommand, RunCommit, RunHead, RunId, Subscribers,
    WorkspaceId, decide_add_children, decide_command,
};
use hapax_engine::store::{
    CancelFamily, CancelFamilyOutcome, FamilyStore, StoreResult, SweepFamily, SweepFamilyOutcome,
};
use rusqlite::{Connection, params};

use crate::codes::{count, millis_of};
use crate::ending::{announce_ending, follow_ending, insert_result};
use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::rows::{self, bytes};
use crate::session::{Session, WorkspaceRowId};
use crate::store::SqliteStore;

#[async_trait]
impl FamilyStore for SqliteStore {
    async fn cancel_family(&self, request: CancelFamily) -> StoreResult<CancelFamilyOutcome> {
        self.write(request).await
    }

    async fn sweep_family(&self, request: SweepFamily) -> StoreResult<SweepFamilyOutcome> {
        self.write(request).await
    }

    async fn list_unswept_families(&self, limit: usize) -> StoreResult<Vec<(WorkspaceId, RunId)>> {
        self.readers().read(move |connection| list_unswept(connection, limit)).await
    }
}

fn list_unswept(connection: &Connection, limit: usize) -> Result<Vec<(WorkspaceId, RunId)>, Fault> {
    let mut list = connection.prepare_cached(include_str!("../sql/list_unswept_families.sql"))?;
    rows::collect(list.query([limit.min(MAX_SWEEP) as i64])?, |mut row| {
        Ok((WorkspaceId::new(row.text()?).map_err(rows::broken)?, row.run()?))
    })
}

fn find_family(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    root: RunId,
) -> Result<Option<Family>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_family.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, bytes(root)])?, |mut row| {
        let born = row.count()?;
        let (at, reason) = (row.maybe_at()?, row.maybe_text()?.map(str::to_owned));
        let is_swept: bool = row.get()?;
        let cancelled = at.zip(reason).map(|(at, reason)| CancelledFamily { at, reason, is_swept });
        Ok(Family { born, cancelled })
    })
}

pub(crate) fn put_family(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    root: RunId,
    family: &Family,
) -> Result<(), Fault> {
    let cancelled = family.cancelled.as_ref();
    session.prepare(include_str!("../sql/put_family.sql"))?.execute(params![
        workspace.0,
        bytes(root),
        count(family.born),
        millis_of(cancelled.map(|cancelled| cancelled.at)),
        cancelled.map(|cancelled| &cancelled.reason),
        cancelled.is_some_and(|cancelled| cancelled.is_swept),
    ])?;
    Ok(())
}

/// The family of a run after this write starts `born` children that are not there yet, if that changes it.
pub(crate) fn family_after(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
    born: usize,
) -> Result<Result<Option<Family>, ChildrenRefused>, Fault> {
    let facts = &advance.head.facts;
    let begins_anew = advance.input.is_some() && facts.parent.is_none();
    if born == 0 && !begins_anew {
        return Ok(Ok(None));
    }
    let known = find_family(session, workspace, facts.root())?;
    if born == 0 && known.is_none() {
        return Ok(Ok(None));
    }
    let mut family = known.unwrap_or_default();
    if begins_anew {
        family.born = 0;
    }
    if born == 0 {
        return Ok(Ok(Some(family)));
    }
    Ok(decide_add_children(&family, facts.root(), born as u64, advance.max_descendants).map(Some))
}

/// Counts a run that is started with a parent, but not by its parent's own write.
pub(crate) fn count_start(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    root: RunId,
) -> Result<(), Fault> {
    let family = find_family(session, workspace, root)?.unwrap_or_default();
    let family = decide_add_children(&family, root, 1, u64::MAX)
        .map_err(|refused| Fault::Refused(refused.to_string()))?;
    put_family(session, workspace, root, &family)
}

impl Verb for CancelFamily {
    type Outcome = CancelFamilyOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<CancelFamilyOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace)? else {
            return Ok(CancelFamilyOutcome::NoSuchRun);
        };
        let Some(head) = session.find_head(workspace, self.root)? else {
            return Ok(CancelFamilyOutcome::NoSuchRun);
        };
        if let Some(parent) = &head.facts.parent {
            return Ok(CancelFamilyOutcome::NotRoot(parent.root));
        }
        if self.expected.is_some_and(|expected| expected != head.version) {
            return Ok(CancelFamilyOutcome::Stale(head.version));
        }
        let family = find_family(session, workspace, self.root)?.unwrap_or_default();
        let cancelled = family.cancel(&self.reason, session.now);
        put_family(session, workspace, self.root, &cancelled)?;
        insert_notes(session, self.note.as_slice())?;
        Ok(CancelFamilyOutcome::Cancelled(head))
    }
}

impl Verb for SweepFamily {
    type Outcome = SweepFamilyOutcome;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<SweepFamilyOutcome, Fault> {
        let mut swept = SweepFamilyOutcome::default();
        let Some(workspace) = session.find_workspace(&self.workspace)? else { return Ok(swept) };
        let Some(family) = find_family(session, workspace, self.root)? else { return Ok(swept) };
        let Some(cancelled) = family.cancelled.clone() else { return Ok(swept) };
        let limit = self.limit.clamp(1, MAX_SWEEP);
        let mut members: Vec<RunId> = self.after.is_none().then_some(self.root).into_iter().collect();
        members.extend(list_open_descendants(session, workspace, self, limit + 1)?);
        for run in members.iter().take(limit) {
            swept.steered.extend(cancel_member(session, workspace, *run, &cancelled.reason, &self.announce)?);
        }
        match members.len() > limit {
            true => swept.next = Some(members[limit - 1]),
            false => {
                let cancelled = Some(CancelledFamily { is_swept: true, ..cancelled });
                put_family(session, workspace, self.root, &Family { cancelled, ..family })?;
            }
        }
        Ok(swept)
    }
}

fn list_open_descendants(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    sweep: &SweepFamily,
    limit: usize,
) -> Result<Vec<RunId>, Fault> {
    // No id is less than the empty one.
    let after = sweep.after.map_or(Vec::new(), |run| bytes(run).to_vec());
    let mut list = session.prepare(include_str!("../sql/list_open_descendants.sql"))?;
    let found = list.query(params![workspace.0, bytes(sweep.root), after, limit as i64])?;
    rows::collect(found, |mut row| row.run())
}

/// The member, if it was asked to cancel, or ended by it.
fn cancel_member(
    session: &mut Session<'_, '_>,
    workspace: WorkspaceRowId,
    run: RunId,
    reason: &str,
    announce: &Subscribers,
) -> Result<Option<RunHead>, Fault> {
    let Some(head) = session.find_head(workspace, run)? else { return Ok(None) };
    let command = RunCommand::Cancel { reason: reason.to_owned() };
    let Ok(steered) = decide_command(&head, &command, &[], session.now) else { return Ok(None) };
    session.write_head(workspace, &steered.head)?;
    session.insert_event(workspace, run, &steered.event)?;
    if let Some(result) = &steered.result {
        insert_result(session, workspace, run, result)?;
        announce_ending(session, &steered.head, announce)?;
        // The runs that this makes due are found by the next claim.
        follow_ending(session, workspace, steered.head.clone(), announce, &mut Vec::new())?;
    }
    Ok(Some(steered.head))
}

/// Forgets the family of runs that are deleted, if nobody is left of it.
pub(crate) fn forget_family(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    root: RunId,
) -> Result<(), Fault> {
    session.prepare(include_str!("../sql/delete_family.sql"))?.execute(params![workspace.0, bytes(root)])?;
    Ok(())
}

/// The root of the family that a stored run belongs to.
pub(crate) fn find_root(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    run: RunId,
) -> Result<RunId, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_root.sql"))?;
    let found = rows::at_most_one(find.query(params![workspace.0, bytes(run)])?, |mut row| row.maybe_run())?;
    Ok(found.flatten().unwrap_or(run))
}
