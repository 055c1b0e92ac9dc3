//! The outbox.

use std::ops::Bound::{Excluded, Unbounded};

use super::state::State;
use crate::limits::{MAX_CLAIM, MAX_PAGE};
use crate::model::{Name, OutboxMessage, OutboxState, RunId, Timestamp};
use crate::store::{
    ClaimOutbox, ClaimedOutbox, FinishOutboxMessage, ListOutbox, OutboxCommand, Redeliver, RedeliverOutcome,
};

impl State {
    pub(super) fn claim_outbox(&mut self, request: &ClaimOutbox, now: Timestamp) -> ClaimedOutbox {
        let mut claimed = ClaimedOutbox::default();
        for (target, room) in &request.room {
            let mut waiting = self.waiting_for(target);
            let later = waiting.split_off(waiting.partition_point(|(at, _)| *at <= now));
            let left = waiting.split_off((*room).min(MAX_CLAIM).min(waiting.len()));
            let next = left.first().or(later.first()).map(|(at, _)| *at);
            claimed.next_due_at = claimed.next_due_at.into_iter().chain(next).min();
            for (_, post) in waiting {
                let post = post.claimed(request.owner, request.lease_for, now);
                self.put_post(post.clone());
                claimed.posts.push(post);
            }
        }
        claimed
    }

    /// Messages for `target`, due now or later, in the order they are claimed.
    fn waiting_for(&self, target: &Name) -> Vec<(Timestamp, OutboxMessage)> {
        let its_own = self.posts().values().filter(|post| post.target == *target);
        let mut waiting: Vec<(Timestamp, OutboxMessage)> =
            its_own.filter_map(|post| Some((post.state.due_at()?, post.clone()))).collect();
        waiting.sort_by(|(a_at, a), (b_at, b)| (a_at, &a.id, &a.workspace).cmp(&(b_at, &b.id, &b.workspace)));
        waiting
    }

    pub(super) fn finish_outbox_message(&mut self, request: FinishOutboxMessage) -> bool {
        let place = (request.workspace, request.id);
        match self.posts().get(&place) {
            Some(post) if post.is_held_by(request.owner, request.attempt) => {
                let post = OutboxMessage { state: request.state, failure: request.failure, ..post.clone() };
                self.put_post(post);
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn redeliver(&mut self, request: Redeliver, now: Timestamp) -> RedeliverOutcome {
        let Some(post) = self.posts().get(&(request.workspace, request.id)).cloned() else {
            return RedeliverOutcome::NoSuchMessage;
        };
        if !post.state.status().is_settled() {
            return RedeliverOutcome::UnderWay(post);
        }
        self.append_journal(request.note);
        match request.wish {
            OutboxCommand::Redeliver => {
                let due =
                    OutboxMessage { state: OutboxState::Due { at: now }, attempts: 0, failure: None, ..post };
                self.put_post(due.clone());
                RedeliverOutcome::Due(due)
            }
            OutboxCommand::Discard => {
                self.remove_post(&post.workspace, &post.id);
                RedeliverOutcome::Discarded(post)
            }
        }
    }

    pub(super) fn list_outbox(&self, request: &ListOutbox) -> Vec<OutboxMessage> {
        let from = request.after.clone().map_or(Unbounded, Excluded);
        let fits = |post: &&OutboxMessage| {
            request.workspace.as_ref().is_none_or(|wanted| *wanted == post.workspace)
                && request.status.is_none_or(|wanted| wanted == post.state.status())
                && request.target.as_ref().is_none_or(|wanted| *wanted == post.target)
        };
        let later = self.posts().range((from, Unbounded)).map(|(_, post)| post);
        later.filter(fits).take(request.limit.clamp(1, MAX_PAGE)).cloned().collect()
    }

    /// Returns true if all messages of the run are delivered or given up.
    pub(super) fn is_all_settled(&self, run: RunId) -> bool {
        self.posts().values().filter(|post| post.run == run).all(|post| post.state.status().is_settled())
    }
}
