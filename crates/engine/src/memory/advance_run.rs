//! Writes under a lease.

use super::state::State;
use crate::model::{
    Drive, EventKind, NewRun, Promise, PromiseState, RunCommit, RunHead, RunId, RunState, StepRecord,
    Timestamp, Version,
};
use crate::store::{CommitOutcome, StoreError, StoreResult};

impl State {
    pub(super) fn advance_run(&mut self, advance: RunCommit, now: Timestamp) -> StoreResult<CommitOutcome> {
        self.check_children(&advance)?;
        let Some(row) = self.row_in(advance.workspace(), advance.run()) else {
            return Ok(CommitOutcome::LeaseLost);
        };
        let head = row.head.clone();
        let holds = head.state.lease().is_some() && head.fence == advance.fence;
        if !holds || head.version != advance.expected {
            return Ok(match row.token == Some(advance.token) {
                true => {
                    let opened = self.opened_since(&advance, now);
                    CommitOutcome::Advanced { woken: Vec::new(), opened }
                }
                false if holds => CommitOutcome::Stale(head),
                false => CommitOutcome::LeaseLost,
            });
        }
        if !self.all_pending(&advance) {
            return Ok(CommitOutcome::Stale(head));
        }
        match self.family_after(&advance) {
            Ok(Some((root, family))) => {
                self.families.insert((advance.workspace().clone(), root), family);
            }
            Ok(None) => {}
            Err(refused) => return Ok(CommitOutcome::ChildrenRefused(refused)),
        }
        let (woken, opened) = self.write(advance, &head, now);
        Ok(CommitOutcome::Advanced { woken, opened })
    }

    /// Can every promise that is to time out still do so?
    fn all_pending(&self, advance: &RunCommit) -> bool {
        advance.timed_out.iter().all(|id| match self.promise(advance.workspace(), id) {
            Some(promise) => promise.state == PromiseState::Pending,
            None => advance.promises.iter().any(|opened| opened.id == *id),
        })
    }

    /// The write takes effect; answers with the runs it made due, and what there is to know about its promises.
    fn write(&mut self, advance: RunCommit, before: &RunHead, now: Timestamp) -> (Vec<RunId>, Vec<Promise>) {
        let (id, workspace) = (advance.run(), advance.workspace().clone());
        let mut woken = Vec::new();
        if advance.input.is_some() {
            self.remove_promises(id);
        }
        let mut opened = Vec::new();
        for promise in advance.promises {
            let promise = self.open_promise(&workspace, id, promise, now);
            opened.extend(promise.filter(|promise| promise.is_worth_telling(now)));
        }
        let arrivals = before.arrivals + opened.len() as u64;
        let mut head = advance.head;
        match head.state {
            // Only renewals move a lease: the holder may not know yet how long it has.
            RunState::Running(Drive::Leased(_)) => head.state = before.state,
            RunState::Waiting { .. } if head.arrivals < arrivals => {
                head.state = RunState::Waiting { wake_at: Some(now) };
                woken.push(id);
            }
            RunState::Pending { .. }
            | RunState::Running(Drive::Ready { .. })
            | RunState::Waiting { .. }
            | RunState::Paused
            | RunState::Closed { .. } => {}
        }
        head.arrivals = arrivals;
        let continued = advance.events.iter().rfind(|event| event.kind == EventKind::ContinuedAsNew);
        let continued = continued.map(|event| event.version);
        self.write_steps(id, advance.steps, continued);
        if let Some(row) = self.row_mut(id) {
            row.token = Some(advance.token);
            row.events.extend(advance.events);
            advance.consumed.iter().for_each(|seq| drop(row.signals.remove(seq)));
            row.result = advance.result;
        }
        if let (Some(input), Some(row)) = (advance.input, self.row_mut(id)) {
            row.input = input;
        }
        for id in &advance.timed_out {
            if let Some(mut promise) = self.promise(&workspace, id).cloned() {
                promise.state = PromiseState::TimedOut;
                self.put_promise(&workspace, promise);
            }
        }
        self.append_journal(advance.notes);
        for post in advance.posts {
            if !self.posts().contains_key(&(post.workspace.clone(), post.id.clone())) {
                self.put_post(post);
            }
        }
        let ended = head.status().is_closed();
        self.put_head(head);
        woken.extend(advance.children.iter().filter_map(|child| self.start_child(child, now)));
        if ended {
            woken.extend(self.follow_ending(id, &advance.announce, now));
        }
        (woken, opened)
    }

    /// What there is to know now about the promises of a write that took effect before.
    fn opened_since(&self, advance: &RunCommit, now: Timestamp) -> Vec<Promise> {
        let stored =
            advance.promises.iter().filter_map(|promise| self.promise(advance.workspace(), &promise.id));
        stored.filter(|promise| promise.is_worth_telling(now)).cloned().collect()
    }

    /// Inserts or replaces records; those of a generation that ended at `continued` go.
    fn write_steps(&mut self, id: RunId, steps: Vec<StepRecord>, continued: Option<Version>) {
        let Some(row) = self.row_mut(id) else { return };
        row.steps.extend(steps.into_iter().map(|step| (step.id.clone(), step)));
        if let Some(continued) = continued {
            row.steps.retain(|_, step| step.changed_version > continued);
        }
    }

    /// Starts a child once; answers with it if it is due now.
    fn start_child(&mut self, child: &NewRun, now: Timestamp) -> Option<RunId> {
        if self.row(child.facts.id).is_some() {
            return None;
        }
        let head = self.insert_new(child, now);
        let due = matches!(head.state, RunState::Pending { due_at } if due_at <= now);
        due.then_some(head.id())
    }

    /// A child is named by the step that waits for it, so it has no key and no subject that could stand against it.
    fn check_children(&self, advance: &RunCommit) -> StoreResult<()> {
        for child in &advance.children {
            let facts = &child.facts;
            let taken = self.row(facts.id).is_some_and(|row| row.head.facts.workspace != facts.workspace);
            if taken || facts.workspace != *advance.workspace() {
                return Err(StoreError::Refused("a child belongs to the workspace of its parent".into()));
            }
            if facts.key.is_some() || facts.subject.is_some() {
                return Err(StoreError::Refused("a child has neither key nor subject".into()));
            }
        }
        Ok(())
    }
}
