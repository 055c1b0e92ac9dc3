//! Forgetting what need not be kept.

use super::state::State;
use crate::limits::MAX_PURGE;
use crate::model::{KeyKind, PromiseState, RunHead, RunId, RunState, Timestamp};
use crate::store::{Purge, Purged};
use std::ops::Bound::{Excluded, Unbounded};

impl State {
    pub(super) fn purge(&mut self, request: &Purge, now: Timestamp) -> Purged {
        let limit = request.limit.clamp(1, MAX_PURGE);
        let dead = self.expired_keys(now, limit);
        let mut purged = Purged { keys: dead.len(), ..Purged::default() };
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
            if self.row(*id).is_some_and(|row| self.is_forgettable(&row.head, closed_before)) {
                self.remove_run(*id);
                purged.runs += 1;
            }
        }
        purged.next = (ids.len() > limit).then(|| ids[limit - 1]);
        purged
    }

    /// Are people still to say whether an effect of the run happened?
    fn has_open_doubt(&self, head: &RunHead) -> bool {
        let promises = self.row(head.id()).map(|row| row.promises.iter()).into_iter().flatten();
        promises.filter(|id| id.is_of_doubt()).any(|id| {
            let promise = self.promise(&head.facts.workspace, id);
            promise.is_some_and(|promise| promise.state == PromiseState::Pending)
        })
    }

    fn is_forgettable(&self, head: &RunHead, closed_before: Timestamp) -> bool {
        let old = matches!(head.state, RunState::Closed { at, .. } if at < closed_before);
        let parent = head.facts.parent.as_ref().and_then(|parent| self.row(parent.run));
        old && self.is_all_settled(head.id())
            && !self.has_open_doubt(head)
            && parent.is_none_or(|parent| parent.head.status().is_closed())
    }
}
