//! Writes under a lease.

use super::state::State;
use crate::model::{
    EventKind, NewRun, Promise, PromiseState, RunCommit, RunHead, RunId, RunState, RunningState, StepRecord,
    Timestamp, Version,
};
use crate::store::{CommitOutcome, StoreError, StoreResult};

impl State {
    pub(super) fn commit_run(&mut self, commit: RunCommit, now: Timestamp) -> StoreResult<CommitOutcome> {
        self.check_children(&commit)?;
        let Some(row) = self.row_in(commit.workspace(), commit.run()) else {
            return Ok(CommitOutcome::LeaseLost);
        };
        let head = row.head.clone();
        let holds = head.state.lease().is_some() && head.fence == commit.fence;
        if !holds || head.version != commit.expected {
            return Ok(match row.token == Some(commit.token) {
                true => {
                    let opened = self.opened_since(&commit, now);
                    CommitOutcome::Committed { woken: Vec::new(), opened }
                }
                false if holds => CommitOutcome::Stale(head),
                false => CommitOutcome::LeaseLost,
            });
        }
        if !self.all_pending(&commit) {
            return Ok(CommitOutcome::Stale(head));
        }
        match self.family_after(&commit) {
            Ok(Some((root, family))) => {
                self.families.insert((commit.workspace().clone(), root), family);
            }
            Ok(None) => {}
            Err(refused) => return Ok(CommitOutcome::ChildrenRefused(refused)),
        }
        let (woken, opened) = self.write(commit, &head, now);
        Ok(CommitOutcome::Committed { woken, opened })
    }

    /// Returns true if every promise that should time out can still do so.
    fn all_pending(&self, commit: &RunCommit) -> bool {
        commit.timed_out.iter().all(|id| match self.promise(commit.workspace(), id) {
            Some(promise) => promise.state == PromiseState::Pending,
            None => commit.promises.iter().any(|opened| opened.id == *id),
        })
    }

    /// Carries out the write. Returns the runs it made due, and the promises to report to the run.
    fn write(&mut self, commit: RunCommit, before: &RunHead, now: Timestamp) -> (Vec<RunId>, Vec<Promise>) {
        let (id, workspace) = (commit.run(), commit.workspace().clone());
        let mut woken = Vec::new();
        if commit.input.is_some() {
            self.remove_promises(id);
        }
        let mut opened = Vec::new();
        for promise in commit.promises {
            let promise = self.open_promise(&workspace, id, promise, now);
            opened.extend(promise.filter(|promise| promise.is_reported_on_open(now)));
        }
        let arrivals = before.arrivals + opened.len() as u64;
        let mut head = commit.head;
        match head.state {
            // Only renewals move the end of a lease. The holder may not know the latest one.
            RunState::Running(RunningState::Leased(_)) => head.state = before.state,
            RunState::Waiting { .. } if head.arrivals < arrivals => {
                head.state = RunState::Waiting { wake_at: Some(now) };
                woken.push(id);
            }
            RunState::Pending { .. }
            | RunState::Running(RunningState::Ready { .. })
            | RunState::Waiting { .. }
            | RunState::Paused
            | RunState::Closed { .. } => {}
        }
        head.arrivals = arrivals;
        let continued = commit.events.iter().rfind(|event| event.kind == EventKind::ContinuedAsNew);
        let continued = continued.map(|event| event.version);
        self.write_steps(id, commit.steps, continued);
        if let Some(row) = self.row_mut(id) {
            row.token = Some(commit.token);
            row.events.extend(commit.events);
            commit.consumed.iter().for_each(|seq| drop(row.signals.remove(seq)));
            row.result = commit.result;
        }
        if let (Some(input), Some(row)) = (commit.input, self.row_mut(id)) {
            row.input = input;
        }
        for id in &commit.timed_out {
            if let Some(mut promise) = self.promise(&workspace, id).cloned() {
                promise.state = PromiseState::TimedOut;
                self.put_promise(&workspace, promise);
            }
        }
        self.append_journal(commit.notes);
        for post in commit.posts {
            if !self.posts().contains_key(&(post.workspace.clone(), post.id.clone())) {
                self.put_post(post);
            }
        }
        let ended = head.status().is_closed();
        self.put_head(head);
        woken.extend(commit.children.iter().filter_map(|child| self.start_child(child, now)));
        if ended {
            woken.extend(self.follow_ending(id, &commit.announce, now));
        }
        (woken, opened)
    }

    /// The promises to report for a write that took effect before.
    fn opened_since(&self, commit: &RunCommit, now: Timestamp) -> Vec<Promise> {
        let stored =
            commit.promises.iter().filter_map(|promise| self.promise(commit.workspace(), &promise.id));
        stored.filter(|promise| promise.is_reported_on_open(now)).cloned().collect()
    }

    /// Inserts or replaces step records. Deletes the records of a generation that ended at `continued`.
    fn write_steps(&mut self, id: RunId, steps: Vec<StepRecord>, continued: Option<Version>) {
        let Some(row) = self.row_mut(id) else { return };
        row.steps.extend(steps.into_iter().map(|step| (step.id.clone(), step)));
        if let Some(continued) = continued {
            row.steps.retain(|_, step| step.changed_version > continued);
        }
    }

    /// Starts a child, unless it exists. Returns it if it is due now.
    fn start_child(&mut self, child: &NewRun, now: Timestamp) -> Option<RunId> {
        if self.row(child.facts.id).is_some() {
            return None;
        }
        let head = self.insert_new(child, now);
        let due = matches!(head.state, RunState::Pending { due_at } if due_at <= now);
        due.then_some(head.id())
    }

    /// A child is identified by the step that waits for it, so it has no key and no subject that could block
    /// it.
    fn check_children(&self, commit: &RunCommit) -> StoreResult<()> {
        for child in &commit.children {
            let facts = &child.facts;
            let taken = self.row(facts.id).is_some_and(|row| row.head.facts.workspace != facts.workspace);
            if taken || facts.workspace != *commit.workspace() {
                return Err(StoreError::Refused("a child belongs to the workspace of its parent".into()));
            }
            if facts.key.is_some() || facts.subject.is_some() {
                return Err(StoreError::Refused("a child has neither key nor subject".into()));
            }
        }
        Ok(())
    }
}
