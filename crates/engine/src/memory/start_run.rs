//! Starting runs.

use super::state::{State, key_of};
use crate::model::{
    EventKind, KeyRecord, KeyTarget, NewRun, RunEvent, RunFacts, RunHead, RunId, RunState, RunningState,
    Timestamp, decide_add_children, decide_start,
};
use crate::store::{KeyRef, RunLog, StartOutcome, StoreError, StoreResult};

impl State {
    pub(super) fn start_run(&mut self, new: &NewRun, now: Timestamp) -> StoreResult<StartOutcome> {
        let facts = &new.facts;
        check(facts)?;
        if let Some(row) = self.row(facts.id) {
            if row.head.facts.workspace != facts.workspace {
                return Err(StoreError::Refused(format!("{} names a run of another workspace", facts.id)));
            }
            return Ok(StartOutcome::Created(row.head.clone()));
        }
        if let Some(outcome) = self.same_key(facts, now) {
            return Ok(outcome);
        }
        if let Some(run) = self.subject_holder(facts) {
            return Ok(StartOutcome::SubjectBusy { run });
        }
        if facts.parent.is_some() {
            let root = facts.root();
            let family = self.families.entry((facts.workspace.clone(), root)).or_default();
            *family = decide_add_children(family, root, 1, u64::MAX)
                .map_err(|refused| StoreError::Refused(refused.to_string()))?;
        }
        Ok(StartOutcome::Created(self.insert_new(new, now)))
    }

    /// Returns true if the id, the key and the subject of a new run are free.
    pub(super) fn may_start(&self, facts: &RunFacts, now: Timestamp) -> StoreResult<bool> {
        check(facts)?;
        let is_free = self.row(facts.id).is_none()
            && self.same_key(facts, now).is_none()
            && self.subject_holder(facts).is_none();
        Ok(is_free)
    }

    /// The outcome if the key is live.
    fn same_key(&self, facts: &RunFacts, now: Timestamp) -> Option<StartOutcome> {
        let record = self.keys().get(&key_of(facts)?).filter(|record| record.is_live(now))?;
        let KeyTarget::Run { run, fingerprint } = record.target else { return None };
        let first_seen_at = record.first_seen_at;
        if facts.fingerprint != Some(fingerprint) {
            return Some(StartOutcome::KeyConflict { run, first_seen_at, fingerprint });
        }
        Some(match self.row(run) {
            Some(row) => StartOutcome::Existing(row.head.clone()),
            None => StartOutcome::Spent { run },
        })
    }

    /// Inserts a run.
    pub(super) fn insert_new(&mut self, new: &NewRun, now: Timestamp) -> RunHead {
        let (head, started) = decide_start(new, now);
        self.give_key(&new.facts, now);
        self.insert_run(head.clone(), new.input.clone(), started);
        head
    }

    /// Imports a run from elsewhere, due now.
    pub(super) fn adopt(&mut self, history: RunLog, now: Timestamp) {
        let RunLog { mut head, input, steps, promises, signals, .. } = history;
        head.state = RunState::Running(RunningState::Ready { due_at: now });
        let started = RunEvent {
            version: head.version,
            at: now,
            fence: head.fence,
            kind: EventKind::Started,
            note: None,
        };
        let (id, workspace) = (head.id(), head.facts.workspace.clone());
        self.insert_run(head, input, started);
        for promise in promises {
            if promise.is_standalone() {
                self.wait_for_promise(&workspace, &promise.id, id);
            }
            self.put_promise(&workspace, promise);
        }
        if let Some(row) = self.row_mut(id) {
            row.steps = steps.into_iter().map(|step| (step.id.clone(), step)).collect();
            row.signals = signals.into_iter().map(|signal| (signal.seq, signal)).collect();
        }
    }

    /// Makes the key of a run name it while the run is open.
    pub(super) fn give_key(&mut self, facts: &RunFacts, now: Timestamp) {
        let (Some(place), Some(fingerprint)) = (key_of(facts), facts.fingerprint) else { return };
        let own = self.keys().get(&place).filter(|record| record.run() == Some(facts.id));
        let first_seen_at = own.map_or(now, |record| record.first_seen_at);
        if own.is_none() {
            let (workspace, key) = (place.workspace.clone(), place.key.clone());
            self.uses.remove(&KeyRef::Run { workspace, key });
        }
        let target = KeyTarget::Run { run: facts.id, fingerprint };
        self.put_key(place, KeyRecord { target, first_seen_at, expires_at: None });
    }

    /// Another run that the live key of these facts names.
    pub(super) fn key_holder(&self, facts: &RunFacts, now: Timestamp) -> Option<RunId> {
        let record = self.keys().get(&key_of(facts)?)?;
        record.run().filter(|run| *run != facts.id && record.is_live(now))
    }
}

fn check(facts: &RunFacts) -> StoreResult<()> {
    match facts.key.is_some() == facts.fingerprint.is_some() {
        true => Ok(()),
        false => Err(StoreError::Refused("a key and its fingerprint come together".into())),
    }
}
