//! Consequences of the end of a run: its key gets an expiry, its parent gets an arrival, its children are
//! asked to cancel.

use std::collections::VecDeque;

use super::state::{State, key_of};
use crate::model::{
    ClosePolicy, KeyRecord, RunCommand, RunHead, RunId, RunState, RunningState, Subscribers, Timestamp,
    decide_command, decide_key_expiry,
};

impl State {
    /// Carries out the consequences of the end of `run`, and of children that end with it. Returns the runs
    /// made due.
    pub(super) fn follow_ending(&mut self, run: RunId, announce: &Subscribers, now: Timestamp) -> Vec<RunId> {
        let mut woken = Vec::new();
        let mut ended = VecDeque::from([run]);
        while let Some(run) = ended.pop_front() {
            self.expire_key(run);
            woken.extend(self.tell_parent(run, now));
            for child in self.children(run) {
                match self.cancel_child(run, child, now) {
                    Some(RunState::Closed { .. }) => {
                        self.announce_ending(child, announce, now);
                        ended.push_back(child);
                    }
                    Some(RunState::Running(RunningState::Ready { .. })) => woken.push(child),
                    Some(_) | None => {}
                }
            }
        }
        woken
    }

    /// Adds announcements of the end of a run to the outbox.
    pub(super) fn announce_ending(&mut self, run: RunId, announce: &Subscribers, now: Timestamp) {
        let Some(RunHead { state: RunState::Closed { ending, .. }, facts, generation, .. }) =
            self.row(run).map(|row| &row.head)
        else {
            return;
        };
        announce
            .announce_ending_of(facts, *generation, *ending, now)
            .into_iter()
            .for_each(|post| self.put_post(post));
    }

    fn expire_key(&mut self, run: RunId) {
        let Some(row) = self.row(run) else { return };
        let RunState::Closed { at, ending } = row.head.state else { return };
        let (facts, expires_at) =
            (row.head.facts.clone(), decide_key_expiry(row.head.facts.retention, ending, at));
        let Some(place) = key_of(&facts) else { return };
        if let Some(record) = self.keys().get(&place).cloned().filter(|record| record.run() == Some(run)) {
            self.put_key(place, KeyRecord { expires_at, ..record });
        }
    }

    /// Adds an arrival to the parent. Returns the parent if this made it due.
    fn tell_parent(&mut self, run: RunId, now: Timestamp) -> Option<RunId> {
        let facts = self.row(run)?.head.facts.clone();
        let parent = facts.parent.as_ref()?.run;
        self.row_in(&facts.workspace, parent)?;
        self.arrive(parent, None, now)?.woken.then_some(parent)
    }

    /// Cancels a child whose parent ended. Returns its new state, if it changed.
    fn cancel_child(&mut self, parent: RunId, child: RunId, now: Timestamp) -> Option<RunState> {
        let head = &self.row(child)?.head;
        let workspace = &self.row(parent)?.head.facts.workspace;
        let asks = head.facts.parent.as_ref()?.on_close == ClosePolicy::Cancel;
        if !asks || head.facts.workspace != *workspace {
            return None;
        }
        let steered = decide_command(head, &RunCommand::parent_ended(parent), &[], now).ok()?;
        let state = steered.head.state;
        self.apply(steered);
        Some(state)
    }
}
