//! Granting and renewing leases.

use super::state::State;
use crate::limits::{MAX_CLAIM, MAX_RENEWALS};
use crate::model::{
    ClaimDecision, Lease, OwnerId, Priority, RunEvent, RunHead, RunId, RunState, RunningState,
    ServedWorkflows, ServedWorkspaces, Timestamp, decide_claim,
};
use crate::store::{ClaimRuns, ClaimedRuns, HeldLease, RenewLeases, StoreError, StoreResult};

impl State {
    pub(super) fn claim_runs(&mut self, request: &ClaimRuns, now: Timestamp) -> ClaimedRuns {
        let grant = &request.grant;
        let mut runs = Vec::new();
        for id in self.due_runs(&grant.serves, now, request.limit.min(MAX_CLAIM)) {
            let Some(row) = self.row(id) else { continue };
            match decide_claim(&row.head, grant.owner, grant.lease_for, now, false) {
                ClaimDecision::NotDue => {}
                ClaimDecision::Granted(head, event) => {
                    self.change(head.clone(), event);
                    runs.push(head);
                }
                ClaimDecision::Quarantined(head, event) => self.change(head, event),
            }
        }
        ClaimedRuns { runs, next_wake_at: self.next_wake_at(&grant.serves) }
    }

    /// Due runs in the order they are claimed.
    fn due_runs(&self, serves: &ServedWorkflows, now: Timestamp, limit: usize) -> Vec<RunId> {
        let mut ids = Vec::new();
        for priority in Priority::FIRST_TO_LAST {
            let until_now = (priority, Timestamp::from_millis(i64::MIN), FIRST_ID)..=(priority, now, LAST_ID);
            let mut due: Vec<_> = serves
                .iter()
                .filter_map(|(workflow, served)| Some((self.due(workflow)?, served)))
                .flat_map(|(due, served)| {
                    due.range(until_now.clone()).filter(|(.., id)| self.is_served(*id, served)).take(limit)
                })
                .collect();
            due.sort();
            ids.extend(due.into_iter().map(|(_, _, id)| *id).take(limit - ids.len()));
        }
        ids
    }

    fn next_wake_at(&self, serves: &ServedWorkflows) -> Option<Timestamp> {
        let due = serves.iter().filter_map(|(workflow, served)| Some((self.due(workflow)?, served)));
        due.flat_map(|(due, served)| due.iter().filter(|(.., id)| self.is_served(*id, served)))
            .map(|(_, wake_at, _)| *wake_at)
            .min()
    }

    fn is_served(&self, run: RunId, served: &ServedWorkspaces) -> bool {
        self.row(run).is_some_and(|row| served.covers(&row.head.facts.workspace))
    }

    /// Writes a state change with its history event.
    pub(super) fn change(&mut self, head: RunHead, event: RunEvent) {
        if let Some(row) = self.row_mut(head.id()) {
            row.events.push(event);
        }
        self.put_head(head);
    }

    pub(super) fn end_leases(&mut self, owner: OwnerId, now: Timestamp) -> usize {
        let is_its = |head: &&RunHead| {
            head.state.lease().is_some_and(|lease| lease.owner == owner && lease.until > now)
        };
        let heads: Vec<RunHead> = self.rows().values().map(|row| &row.head).filter(is_its).cloned().collect();
        let ended = heads.len();
        for mut head in heads {
            head.state = RunState::Running(RunningState::Leased(Lease { owner, until: now }));
            self.put_head(head);
        }
        ended
    }

    pub(super) fn renew_leases(&mut self, request: &RenewLeases, now: Timestamp) -> StoreResult<Vec<RunId>> {
        if request.leases.len() > MAX_RENEWALS {
            return Err(StoreError::Refused(format!("more than {MAX_RENEWALS} leases in one renewal")));
        }
        let mut lost = Vec::new();
        for held in &request.leases {
            match self.held(request, held) {
                Some(mut head) => {
                    let until = now.plus(request.lease_for);
                    head.state =
                        RunState::Running(RunningState::Leased(Lease { owner: request.owner, until }));
                    self.put_head(head);
                }
                None => lost.push(held.run),
            }
        }
        Ok(lost)
    }

    fn held(&self, request: &RenewLeases, held: &HeldLease) -> Option<RunHead> {
        let head = &self.row_in(&held.workspace, held.run)?.head;
        let lease = head.state.lease()?;
        (lease.owner == request.owner && head.fence == held.fence).then(|| head.clone())
    }
}

const FIRST_ID: RunId = RunId::from_u128(0);
const LAST_ID: RunId = RunId::from_u128(u128::MAX);
