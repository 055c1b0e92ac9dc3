//! Checks the store after every write: immutable data has not changed, and counters are right.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt;
use hapax_engine::fsck::fsck;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{
    EffectClass, EffectKey, EventKind, Fence, Generation, JournalEvent, Lease, Occurrence, OwnerId, Payload,
    RunEvent, RunHead, RunId, RunResult, RunState, RunStatus, RunningState, StepId, StepKind, StepRecord,
    StepState, StepStatus, Timestamp, Version,
};
use hapax_engine::store::{ListJournal, ListRuns, RunView, Store, StoredJournalEntry, StoredKey};

use super::families::Families;
use super::program_workflow::EXPECTED;
use super::provider::Provider;
use super::requests::Requests;
use super::rule::Rule;

/// One step of one generation of a run; its outcome is permanent.
pub type StepPlace = (RunId, Generation, StepId);

#[derive(Default)]
pub struct Watch {
    runs: BTreeMap<RunId, RunHead>,
    keys: BTreeMap<StoredKey, RunId>,
    outcomes: BTreeMap<StepPlace, StepState>,
    /// The next signal to deliver to each run; values count up from 0.
    signals: BTreeMap<RunId, u64>,
    /// Runs whose last generation may have consumed signals without leaving a record.
    began_anew: BTreeSet<RunId>,
    /// Wake-up time of each sleep.
    sleeps: BTreeMap<StepPlace, Timestamp>,
    /// Number of times people reopened each run.
    retries: BTreeMap<RunId, u32>,
    /// Number of times people allowed each claimed effect to happen again.
    repeats: BTreeMap<String, u32>,
    /// Fence of each run at the time of its cancellation request.
    cancelled: BTreeMap<RunId, Fence>,
    looks: u64,
    pub requests: Requests,
    pub families: Families,
}

/// The full check is slow, but the store is small.
const LOOKS_PER_FSCK: u64 = 20;

/// Checks everything that the data alone can show to be broken, including lost wake-ups (invariant 41).
pub fn check_store(store: &MemoryStore) -> Result<(), String> {
    let report = at_once(fsck(store));
    match report.is_clean() {
        true => Ok(()),
        false => Err(format!("the store is not sound: {report}")),
    }
}

/// Unwraps an answer of the memory store, whose calls complete at the first poll.
pub fn at_once<T>(answer: impl Future<Output = Result<T, hapax_engine::store::StoreError>>) -> T {
    answer.now_or_never().expect("the memory store does not wait").expect("nor does it fail")
}

pub fn every_run(store: &MemoryStore) -> Vec<RunView> {
    let all = ListRuns {
        workspace: None,
        statuses: vec![],
        workflow: None,
        filter: Default::default(),
        before: None,
        limit: usize::MAX,
    };
    at_once(store.list_runs(all)).runs
}

impl Watch {
    /// Notes that the leases of a dead owner ended: the only way in which a lease may shrink.
    pub fn end_leases(&mut self, owner: OwnerId, now: Timestamp) {
        for head in self.runs.values_mut() {
            if let Some(lease) = head.state.lease().filter(|lease| lease.owner == owner && lease.until > now)
            {
                head.state = RunState::Running(RunningState::Leased(Lease { until: now, ..lease }));
            }
        }
    }

    /// Compares the store with its state after the previous write; describes the first broken invariant.
    pub fn look(
        &mut self,
        store: &MemoryStore,
        provider: &Provider,
        expect: impl Fn(Rule, String),
    ) -> Result<(), String> {
        let views = every_run(store);
        if let Err(broken) = self.families.look(store, views.iter().map(|view| &view.head), &self.runs) {
            expect(Rule::FamiliesKept, broken);
        }
        for view in views {
            let head = view.head;
            let id = head.id();
            let before = self.runs.insert(id, head.clone());
            if before.as_ref() == Some(&head) {
                continue;
            }
            if let Some(RunResult::Failed(failure) | RunResult::Cancelled(failure)) = &view.result
                && !EXPECTED.contains(&failure.code().unwrap_or_default())
            {
                return Err(format!("{id} ended with {failure:?}"));
            }
            let seen = before.as_ref().map_or(Version::default(), |before| before.version);
            let events = at_once(store.list_events(&head.facts.workspace, id, seen));
            check_head(before.as_ref(), &head, &events, store).map_err(|what| format!("{id}: {what}"))?;
            if let Some(lost) = self.requests.look(before.as_ref(), &head, &events) {
                expect(Rule::RequestsTakeEffect, format!("{id}: {lost}"));
            }
            self.check_steps(store, before.as_ref(), &head, &events, provider)
                .map_err(|what| format!("{id}: {what}"))?;
        }
        self.looks += 1;
        match self.looks % LOOKS_PER_FSCK {
            0 => check_store(store),
            _ => self.check_keys(store),
        }
    }

    /// Invariants 31, 33, 38, 44 and 47.
    fn check_steps(
        &mut self,
        store: &MemoryStore,
        before: Option<&RunHead>,
        head: &RunHead,
        events: &[RunEvent],
        provider: &Provider,
    ) -> Result<(), String> {
        let id = head.id();
        if events.iter().any(|event| event.kind == EventKind::CancelRequested) {
            self.cancelled.insert(id, head.fence);
        }
        let mut log = at_once(store.find_log(&head.facts.workspace, id)).expect("it was listed");
        log.steps.sort_by_key(|step| step.changed_version);
        if events.iter().any(|event| event.kind == EventKind::Retried) {
            // Only a retry may revoke an outcome.
            *self.retries.entry(id).or_default() += 1;
            let kept: BTreeSet<&StepId> = log.steps.iter().map(|step| &step.id).collect();
            self.note_repeats(store, head)?;
            self.outcomes.retain(|(run, generation, step), _| {
                *run != id || *generation != head.generation || kept.contains(step)
            });
        } else if before.is_some_and(|before| before.generation == head.generation) {
            let of_run = self.outcomes.range((id, head.generation, StepId::from_stored(""))..);
            let of_run =
                of_run.take_while(|((run, generation, _), _)| (*run, *generation) == (id, head.generation));
            for ((_, _, step), _) in of_run {
                if !log.steps.iter().any(|record| record.id == *step) {
                    return Err(format!("invariant 31: the outcome of step {step} is gone"));
                }
            }
        }
        if before.is_some_and(|before| before.generation < head.generation) {
            self.began_anew.insert(id);
        }
        check_all_undone(head, &log.steps)?;
        for step in &log.steps {
            if let (StepKind::Sleep, StepState::Waiting { until: Some(until) }) = (step.kind, &step.state) {
                self.sleeps.insert((id, head.generation, step.id.clone()), *until);
            }
        }
        for step in log.steps.iter().filter(|step| step.state.status().is_final()) {
            let place = (id, head.generation, step.id.clone());
            match self.outcomes.get(&place) {
                Some(known) if *known == step.state => {}
                Some(known) => {
                    return Err(format!(
                        "invariant 31: the outcome of step {} was {known:?} and is {:?}",
                        step.id, step.state
                    ));
                }
                None => {
                    self.outcomes.insert(place, step.state.clone());
                    self.check_new_outcome(head, step, &log.steps, provider)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that an effect that has happened runs again only if people allowed it for this very effect.
    fn note_repeats(&mut self, store: &MemoryStore, head: &RunHead) -> Result<(), String> {
        let request = ListJournal {
            workspace: head.facts.workspace.clone(),
            run: Some(head.id()),
            by_people: false,
            after: 0,
            limit: usize::MAX,
        };
        let mut allowed: BTreeMap<EffectKey, u32> = BTreeMap::new();
        let mut dropped: BTreeMap<EffectKey, u32> = BTreeMap::new();
        for StoredJournalEntry { note, .. } in at_once(store.list_journal(request)) {
            let Some(step) = &note.step else { continue };
            let key = EffectKey::new(head.id(), note.generation, step);
            match (&note.what, &note.evidence) {
                (JournalEvent::RepeatAllowed { .. }, _) => *allowed.entry(key).or_default() += 1,
                (JournalEvent::Superseded { occurrence: Occurrence::Happened, .. }, Some(evidence))
                    if evidence.class == EffectClass::Claimed =>
                {
                    *dropped.entry(key).or_default() += 1;
                }
                _ => {}
            }
        }
        for (key, times) in dropped {
            if allowed.get(&key).copied().unwrap_or(0) < times {
                return Err(format!("{key} has happened, and its record was dropped without permission"));
            }
            self.repeats.insert(key.to_string(), times);
        }
        Ok(())
    }

    /// Number of times people allowed a claimed effect to happen again.
    pub fn repeats(&self, key: &str) -> u32 {
        self.repeats.get(key).copied().unwrap_or(0)
    }

    /// Sum of [`Self::repeats`] over all effects.
    pub fn all_repeats(&self) -> u64 {
        self.repeats.values().map(|times| u64::from(*times)).sum()
    }

    fn check_new_outcome(
        &mut self,
        head: &RunHead,
        step: &StepRecord,
        steps: &[StepRecord],
        provider: &Provider,
    ) -> Result<(), String> {
        let StepState::Completed { output, at } = &step.state else { return Ok(()) };
        let key = EffectKey::new(head.id(), head.generation, &step.id);
        match step.kind {
            StepKind::Effect | StepKind::Claimed | StepKind::Undo => {
                if !provider.has_happened(key.as_str()) {
                    return Err(format!(
                        "invariant 33: {key} is recorded as done, but never came to its end"
                    ));
                }
                if step.kind == StepKind::Undo {
                    check_undone_in_order(step, steps)?;
                }
            }
            StepKind::Signal => {
                let next = self.signals.entry(head.id()).or_default();
                let given: u64 = output.to().map_err(|error| format!("{}: {error}", step.id))?;
                let skipped = given > *next && self.began_anew.remove(&head.id());
                if given != *next && !skipped {
                    return Err(format!(
                        "invariant 44: step {} was given signal {given}, not {next}",
                        step.id
                    ));
                }
                *next = given + 1;
            }
            StepKind::Sleep => {
                let until = self.sleeps.get(&(head.id(), head.generation, step.id.clone()));
                if until.is_some_and(|until| at < until) {
                    return Err(format!("invariant 47: {} ended before its time", step.id));
                }
            }
            StepKind::Promise
            | StepKind::Child
            | StepKind::Value
            | StepKind::Select
            | StepKind::Transaction
            | StepKind::AfterEffect => {}
        }
        Ok(())
    }

    /// Invariant 7: no key moves to another run. Keys never expire here.
    fn check_keys(&mut self, store: &MemoryStore) -> Result<(), String> {
        for (place, record) in at_once(store.list_keys(None)) {
            // A promise's key is deleted with the promise. Only keys of runs are permanent.
            let Some(named) = record.run() else { continue };
            let run = *self.keys.entry(place.clone()).or_insert(named);
            if run != named {
                return Err(format!("invariant 7: key {} named {run} and names {named}", place.key));
            }
        }
        Ok(())
    }

    /// Number of times people reopened the run.
    pub fn retries(&self, run: RunId) -> u32 {
        self.retries.get(&run).copied().unwrap_or(0)
    }

    /// Returns true if the run was asked to cancel before it was granted under `fence`, so its holder knows.
    pub fn is_known_to_be_cancelled(&self, run: RunId, fence: Fence) -> bool {
        self.cancelled.get(&run).is_some_and(|asked_under| *asked_under < fence)
    }

    /// The recorded output of a completed step.
    pub fn output(&self, run: RunId, generation: u32, step: &str) -> Option<&Payload> {
        let place = (run, Generation::new(generation), StepId::from_stored(step));
        match self.outcomes.get(&place) {
            Some(StepState::Completed { output, .. }) => Some(output),
            _ => None,
        }
    }
}

/// Invariants 17, 19, 25 and 26.
fn check_head(
    before: Option<&RunHead>,
    head: &RunHead,
    events: &[RunEvent],
    store: &MemoryStore,
) -> Result<(), String> {
    let mut last = before.map_or(Version::default(), |before| before.version);
    for event in events {
        if event.version <= last || event.version > head.version {
            return Err(format!("invariant 26: version {} follows {last}", event.version));
        }
        last = event.version;
    }
    let grants = [EventKind::Started, EventKind::Claimed, EventKind::TakenOver];
    let granted =
        events.iter().filter(|event| grants.contains(&event.kind) && event.fence > Fence::default());
    let fence_before = before.map_or(Fence::default(), |before| before.fence);
    if head.fence.get() != fence_before.get() + granted.count() as u64 {
        return Err(format!("invariant 17: the fence went from {fence_before} to {}", head.fence));
    }
    let Some(before) = before else { return Ok(()) };
    if head.version < before.version || head.arrivals < before.arrivals {
        return Err("invariant 26: its counters went back".into());
    }
    if head.version == before.version && head.status() != before.status() {
        return Err("invariant 26: its status changed without a version".into());
    }
    let lease = before.state.lease();
    if let Some(lease) = lease.filter(|_| head.fence > before.fence)
        && lease.until > store.now()
        && !events.iter().any(|event| matches!(event.kind, EventKind::Waited | EventKind::Released))
    {
        return Err("invariant 19: a living lease was taken".into());
    }
    let kept = lease.zip(head.state.lease()).filter(|_| head.fence == before.fence);
    if let Some((old, new)) = kept
        && (new.owner != old.owner || new.until < old.until)
    {
        return Err("invariant 19: a lease changed owner or shrank under one fence".into());
    }
    if let RunState::Closed { .. } = before.state
        && head.state != before.state
        && !events.iter().any(|event| event.kind == EventKind::Retried)
    {
        return Err(format!("invariant 25: it was {} and is {:?}", before.status().as_str(), head.state));
    }
    Ok(())
}

/// Invariant 38, for sequential bookings: `undo` of one booking runs after the `undo` of all later ones.
fn check_undone_in_order(undo: &StepRecord, steps: &[StepRecord]) -> Result<(), String> {
    let booking = |id: &str| id.strip_prefix("book-").and_then(|n| n.parse::<u32>().ok());
    let undone = undo.id.as_str().trim_end_matches("~undo").to_string();
    let Some(mine) = booking(&undone) else { return Ok(()) };
    for step in steps {
        let later = booking(step.id.as_str()).is_some_and(|theirs| theirs > mine);
        let stands = matches!(step.state, StepState::Completed { .. });
        let undo_of = step.id.undo();
        let is_undone = steps.iter().any(|other| other.id == undo_of && other.state.status().is_final());
        if later && stands && !is_undone {
            return Err(format!("invariant 38: {} was undone before {}", undone, step.id));
        }
    }
    Ok(())
}

/// Invariant 38: bookings are undone, or an attempt is made, when the run ends without success.
fn check_all_undone(head: &RunHead, steps: &[StepRecord]) -> Result<(), String> {
    if !matches!(head.status(), RunStatus::Failed | RunStatus::Cancelled) {
        return Ok(());
    }
    let is_undone = |step: &StepRecord| {
        let undo = step.id.undo();
        steps.iter().any(|other| other.id == undo && other.state.status().is_final())
    };
    let booked = |step: &&StepRecord| {
        let is_booking = step.id.as_str().starts_with("book-") && step.kind == StepKind::Effect;
        is_booking && step.state.status() == StepStatus::Completed
    };
    match steps.iter().filter(booked).find(|step| !is_undone(step)) {
        None => Ok(()),
        Some(step) => Err(format!("invariant 38: it ended, and {} was not undone", step.id)),
    }
}
