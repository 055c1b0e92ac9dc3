//! Families of runs.

use async_trait::async_trait;

use super::MemoryStore;
use super::state::State;
use crate::limits::MAX_SWEEP;
use crate::model::{
    ChildrenRefused, Family, RunCommand, RunCommit, RunId, Subscribers, Timestamp, WorkspaceId,
    decide_add_children, decide_command,
};
use crate::store::{
    CancelFamily, CancelFamilyOutcome, FamilyStore, Store, StoreResult, SweepFamily, SweepFamilyOutcome,
};

impl State {
    /// The family of the run after this write starts its children, if it may.
    pub(super) fn family_after(
        &self,
        commit: &RunCommit,
    ) -> Result<Option<(RunId, Family)>, ChildrenRefused> {
        let born = commit.children.iter().filter(|child| self.row(child.facts.id).is_none()).count();
        let facts = &commit.head.facts;
        let root = facts.root();
        let known = self.families.get(&(commit.workspace().clone(), root));
        let begins_anew = commit.input.is_some() && facts.parent.is_none();
        if born == 0 && !(begins_anew && known.is_some()) {
            return Ok(None);
        }
        let mut family = known.cloned().unwrap_or_default();
        if begins_anew {
            family.born = 0;
        }
        if born > 0 {
            family = decide_add_children(&family, root, born as u64, commit.max_descendants)?;
        }
        Ok(Some((root, family)))
    }

    fn cancel_family(&mut self, request: CancelFamily, now: Timestamp) -> CancelFamilyOutcome {
        let Some(row) = self.row_in(&request.workspace, request.root) else {
            return CancelFamilyOutcome::NoSuchRun;
        };
        let head = row.head.clone();
        if let Some(parent) = &head.facts.parent {
            return CancelFamilyOutcome::NotRoot(parent.root);
        }
        if request.expected.is_some_and(|expected| expected != head.version) {
            return CancelFamilyOutcome::Stale(head.version);
        }
        let family = self.families.entry((request.workspace, request.root)).or_default();
        *family = std::mem::take(family).cancel(&request.reason, now);
        self.append_journal(request.note);
        CancelFamilyOutcome::Cancelled(head)
    }

    fn sweep_family(&mut self, request: &SweepFamily, now: Timestamp) -> SweepFamilyOutcome {
        let place = (request.workspace.clone(), request.root);
        let cancelled = self.families.get(&place).and_then(|family| family.cancelled.as_ref());
        let Some(reason) = cancelled.map(|cancelled| cancelled.reason.clone()) else {
            return SweepFamilyOutcome::default();
        };
        let limit = request.limit.clamp(1, MAX_SWEEP);
        let root = request.after.is_none().then_some(request.root);
        let is_open = |run: &RunId| self.row(*run).is_some_and(|row| !row.head.status().is_closed());
        let descendants = self.descendants(request.root, request.after).filter(is_open);
        let members: Vec<RunId> = root.into_iter().chain(descendants).take(limit + 1).collect();
        let mut swept = SweepFamilyOutcome::default();
        for run in members.iter().take(limit) {
            swept.steered.extend(self.cancel_member(*run, &reason, &request.announce, now));
        }
        match members.len() > limit {
            true => swept.next = Some(members[limit - 1]),
            false => {
                if let Some(cancelled) = self.families.get_mut(&place).and_then(|it| it.cancelled.as_mut()) {
                    cancelled.is_swept = true;
                }
            }
        }
        swept
    }

    fn cancel_member(
        &mut self,
        run: RunId,
        reason: &str,
        announce: &Subscribers,
        now: Timestamp,
    ) -> Option<crate::model::RunHead> {
        let head = &self.row(run)?.head;
        let steered =
            decide_command(head, &RunCommand::Cancel { reason: reason.to_owned() }, &[], now).ok()?;
        Some(self.carry_out(steered, announce, now))
    }

    fn list_unswept_families(&self, limit: usize) -> Vec<(WorkspaceId, RunId)> {
        let unswept = self
            .families
            .iter()
            .filter(|(_, family)| family.cancelled.as_ref().is_some_and(|cancelled| !cancelled.is_swept));
        let mut places: Vec<_> = unswept.map(|(place, _)| place.clone()).collect();
        places.sort_by_key(|(_, root)| *root);
        places.truncate(limit.min(MAX_SWEEP));
        places
    }
}

#[async_trait]
impl FamilyStore for MemoryStore {
    async fn cancel_family(&self, request: CancelFamily) -> StoreResult<CancelFamilyOutcome> {
        Ok(self.state().cancel_family(request, self.now()))
    }

    async fn sweep_family(&self, request: SweepFamily) -> StoreResult<SweepFamilyOutcome> {
        Ok(self.state().sweep_family(&request, self.now()))
    }

    async fn list_unswept_families(&self, limit: usize) -> StoreResult<Vec<(WorkspaceId, RunId)>> {
        Ok(self.state().list_unswept_families(limit))
    }
}
