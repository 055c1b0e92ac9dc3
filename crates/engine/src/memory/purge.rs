//! Purging.

use super::state::State;
use crate::limits::MAX_PURGE;
use crate::model::{
    EffectKey, EntityRef, KeyKind, Name, OperationId, PromiseState, RunHead, RunId, RunState, Timestamp,
    Version, WorkspaceId,
};
use crate::store::{OperationCursor, Purge, PurgeOperations, PurgeOperationsOutcome, PurgeOutcome};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

impl State {
    pub(super) fn purge(&mut self, request: &Purge, now: Timestamp) -> PurgeOutcome {
        let limit = request.limit.clamp(1, MAX_PURGE);
        let dead = self.expired_keys(now, limit);
        let mut purged = PurgeOutcome { keys: dead.len(), ..PurgeOutcome::default() };
        for place in &dead {
            self.remove_key(place);
            let (workspace, key) = (place.workspace.clone(), place.key.clone());
            if place.kind == KeyKind::Promise {
                purged.early += usize::from(self.early.remove(&(workspace.clone(), key.clone())).is_some());
            }
            self.uses.remove(&place.clone().into());
        }
        let Some(closed_before) = request.runs_closed_before else { return purged };
        let from = request.after.map_or(Unbounded, Excluded);
        let ids: Vec<RunId> =
            self.rows().range((from, Unbounded)).map(|(id, _)| *id).take(limit + 1).collect();
        for id in ids.iter().take(limit) {
            if self.row(*id).is_some_and(|row| self.is_purgeable(&row.head, closed_before)) {
                self.remove_run(*id);
                purged.runs += 1;
            }
        }
        purged.next = (ids.len() > limit).then(|| ids[limit - 1]);
        purged
    }

    pub(super) fn purge_operations(&mut self, request: &PurgeOperations) -> PurgeOperationsOutcome {
        let limit = request.limit.clamp(1, MAX_PURGE);
        let mut newest: BTreeMap<(&WorkspaceId, &EntityRef, &Name), (Version, OperationId)> = BTreeMap::new();
        for operation in self.operations.values() {
            let place = (&operation.workspace, &operation.entity, &operation.step);
            let of_step = newest.entry(place).or_insert(operation.begin_order());
            *of_step = operation.begin_order().max(*of_step);
        }
        let after = request.after.clone().map(|place| (place.workspace, place.operation));
        let from = after.map_or(Unbounded, Excluded);
        let mut places = self.operations.range((from, Unbounded)).map(|(place, _)| place.clone());
        let looked_at: Vec<(WorkspaceId, OperationId)> = places.by_ref().take(limit).collect();
        let last = looked_at.last().cloned().filter(|_| places.next().is_some());
        drop(places);
        let is_old = |place: &(WorkspaceId, OperationId)| {
            let operation = &self.operations[place];
            let newest_of_step = newest[&(&operation.workspace, &operation.entity, &operation.step)];
            let posts = self.posts_of(&place.0, place.1);
            let is_all_told = posts.iter().all(|post| post.state.status().is_settled());
            operation.is_purgeable(request.ended_before, newest_of_step, is_all_told)
        };
        let old: Vec<(WorkspaceId, OperationId)> = looked_at.into_iter().filter(is_old).collect();
        let next = last.map(|(workspace, operation)| OperationCursor { workspace, operation });
        let mut purged = PurgeOperationsOutcome { operations: old.len(), posts: 0, next };
        for place in old {
            let posts: Vec<EffectKey> =
                self.posts_of(&place.0, place.1).into_iter().map(|post| post.id.clone()).collect();
            purged.posts += posts.len();
            for post in &posts {
                self.remove_post(&place.0, post);
            }
            let gone = self.operations.remove(&place);
            if let Some(key) = gone.and_then(|operation| operation.key) {
                self.keyed_operations.remove(&(place.0, key));
            }
        }
        purged
    }

    /// Returns true if a doubt of the run is unresolved.
    fn has_open_doubt(&self, head: &RunHead) -> bool {
        let promises = self.row(head.id()).map(|row| row.promises.iter()).into_iter().flatten();
        promises.filter(|id| id.is_doubt_promise()).any(|id| {
            let promise = self.promise(&head.facts.workspace, id);
            promise.is_some_and(|promise| promise.state == PromiseState::Pending)
        })
    }

    fn is_purgeable(&self, head: &RunHead, closed_before: Timestamp) -> bool {
        let old = matches!(head.state, RunState::Closed { at, .. } if at < closed_before);
        let parent = head.facts.parent.as_ref().and_then(|parent| self.row(parent.run));
        old && self.is_all_settled(head.id())
            && !self.has_open_doubt(head)
            && parent.is_none_or(|parent| parent.head.status().is_closed())
    }
}
