//! Writes by the holder of a lease: any number of changes to one run in one guarded commit.

use super::{
    Ending, EventKind, Evidence, Failure, Fence, JournalEntry, JournalEvent, NewRun, Occurrence,
    OutboxMessage, OwnerId, Payload, PendingRequest, Promise, PromiseId, RunEvent, RunHead, RunResult,
    RunState, RunTransition, RunningState, StepId, StepKind, StepRecord, StepState, StepStatus,
    StepTransition, Subscribers, Timestamp, Version, WriteToken,
};
use super::{Generation, RunId, WorkspaceId, quarantine_note};
use crate::limits::{MAX_DESCENDANTS, MAX_STALLS};

/// History note of a cancellation that was acknowledged after the run had failed and was only being undone.
pub const CANCEL_TOO_LATE: &str = "the cancellation came too late: the run had failed by itself";

/// One write under a lease. It takes effect as a whole if the run still has the expected version and fence.
/// Otherwise nothing is written.
#[derive(Debug, Clone)]
pub struct RunCommit {
    /// Version the run must have.
    pub expected: Version,
    /// Fence the run must have.
    pub fence: Fence,
    /// Identifies this write.
    pub token: WriteToken,
    /// The run after the write.
    pub head: RunHead,
    /// Step records to insert or replace.
    pub steps: Vec<StepRecord>,
    /// Events for the history.
    pub events: Vec<RunEvent>,
    /// Promises to open. One that exists is left unchanged.
    pub promises: Vec<Promise>,
    /// Pending promises to mark as timed out. If one of them has been settled, the write is refused as stale.
    pub timed_out: Vec<PromiseId>,
    /// Sequence numbers of the signals that steps consumed.
    pub consumed: Vec<u64>,
    /// Child runs to start.
    pub children: Vec<NewRun>,
    /// Largest number of descendants the root of the run may have, including these children.
    pub max_descendants: u64,
    /// Entries for the journal.
    pub notes: Vec<JournalEntry>,
    /// Messages for the outbox.
    pub posts: Vec<OutboxMessage>,
    /// Subscribers to announce runs to that end with this one.
    pub announce: Subscribers,
    /// Input of the next generation, if the run continues as new. The records of the previous generation are
    /// deleted.
    pub input: Option<Payload>,
    /// Result of the run, if it ended.
    pub result: Option<RunResult>,
}

impl RunCommit {
    /// Workspace of the run.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.head.facts.workspace
    }

    /// Id of the run.
    pub fn run(&self) -> RunId {
        self.head.facts.id
    }
}

/// A transition that the lifecycle does not allow. Always a bug in the engine, never a user error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the lifecycle has no change {change} from {from}")]
pub struct IllegalChange {
    change: &'static str,
    from: &'static str,
}

/// A change to one step.
#[derive(Debug, Clone)]
pub struct StepChange {
    /// Id of the step.
    pub id: StepId,
    /// Kind of the step.
    pub kind: StepKind,
    /// Current record of the step, if it has one.
    pub previous: Option<StepRecord>,
    /// The transition.
    pub transition: StepTransition,
    /// State after the transition.
    pub state: StepState,
    /// Attempts begun so far.
    pub attempts: u32,
    /// When the first attempt began.
    pub started_at: Timestamp,
    /// The child run that the step waits for.
    pub child: Option<RunId>,
}

/// Collects the changes of one write and assigns versions to them.
#[derive(Debug)]
pub struct CommitBuilder {
    write: RunCommit,
    now: Timestamp,
    holder: Option<OwnerId>,
    /// Evidence from the changed steps, with the generation of each step.
    proven: Vec<(StepId, Generation, Evidence)>,
}

impl CommitBuilder {
    /// Starts a write on the run as the holder last read it.
    pub fn new(head: &RunHead, now: Timestamp) -> Self {
        let write = RunCommit {
            expected: head.version,
            fence: head.fence,
            token: WriteToken::fresh(),
            head: head.clone(),
            steps: Vec::new(),
            events: Vec::new(),
            promises: Vec::new(),
            timed_out: Vec::new(),
            consumed: Vec::new(),
            children: Vec::new(),
            max_descendants: MAX_DESCENDANTS,
            notes: Vec::new(),
            posts: Vec::new(),
            announce: Subscribers::default(),
            input: None,
            result: None,
        };
        let holder = match head.state {
            RunState::Running(RunningState::Leased(lease)) => Some(lease.owner),
            _ => None,
        };
        CommitBuilder { write, now, holder, proven: Vec::new() }
    }

    /// The run after the changes collected so far.
    pub fn head(&self) -> &RunHead {
        &self.write.head
    }

    /// Returns true if nothing has been collected.
    pub fn is_empty(&self) -> bool {
        self.write.expected == self.write.head.version
    }

    /// Returns the finished write.
    pub fn finish(mut self) -> RunCommit {
        self.write.head.changed_at = self.now;
        for (step, generation, evidence) in std::mem::take(&mut self.proven) {
            self.prove(step, generation, evidence);
        }
        self.write
    }

    /// Attaches evidence to the journal entry about the attempt, or adds an entry for it.
    fn prove(&mut self, step: StepId, generation: Generation, evidence: Evidence) {
        let tells_of_it = |note: &&mut JournalEntry| {
            let attempt = match note.what {
                // Evidence by key is about the effect, not about the attempt that failed.
                _ if evidence.by_key => return false,
                JournalEvent::Failed { attempt, .. } | JournalEvent::Doubted { attempt, .. } => attempt,
                JournalEvent::Claimed { attempt } if evidence.occurrence == Occurrence::MayHaveHappened => {
                    attempt
                }
                _ => return false,
            };
            note.step.as_ref() == Some(&step)
                && note.generation == generation
                && attempt == evidence.attempt
                && note.evidence.is_none()
        };
        if let Some(note) = self.write.notes.iter_mut().find(tells_of_it) {
            note.evidence = Some(evidence);
            return;
        }
        let RunCommit { head, notes, .. } = &mut self.write;
        notes.push(JournalEntry {
            workspace: head.facts.workspace.clone(),
            run: head.facts.id,
            generation,
            step: Some(step),
            at: self.now,
            fence: head.fence,
            owner: self.holder,
            by: None,
            what: JournalEvent::Attempted { attempt: evidence.attempt, occurrence: evidence.occurrence },
            evidence: Some(evidence),
        });
    }

    /// Changes a step. If the start of the attempt was not recorded, this write records it too. So each
    /// attempt takes two versions, whether or not its start was written first (S0.34).
    pub fn step(&mut self, change: StepChange) -> Result<StepRecord, IllegalChange> {
        self.run_change(RunTransition::Step)?;
        let from = change.previous.as_ref().map(|record| record.state.status());
        let mut started_version = change.previous.as_ref().map(|record| record.started_version);
        if change.transition.target(from).is_none() {
            let mid = StepTransition::Begin.target(from);
            if mid.is_none() || change.transition.target(mid) != Some(change.state.status()) {
                return Err(IllegalChange {
                    change: change.transition.as_str(),
                    from: from.map_or("no record", StepStatus::as_str),
                });
            }
            let begun = self.next_version();
            started_version.get_or_insert(begun);
        }
        let changed_version = self.next_version();
        let record = StepRecord {
            id: change.id,
            kind: change.kind,
            state: change.state,
            attempts: change.attempts,
            started_at: change.started_at,
            started_version: started_version.unwrap_or(changed_version),
            changed_version,
            fence: self.write.head.fence,
            child: change.child,
        };
        // Starting an attempt is no progress: a step that kills every worker must end up in quarantine.
        if change.transition != StepTransition::Begin {
            self.write.head.stalls = 0;
        }
        let (run, generation) = (self.write.head.facts.id, self.write.head.generation);
        let previous = change.previous.as_ref();
        if let Some(evidence) = Evidence::from_change(run, generation, previous, change.transition, &record) {
            self.proven.retain(|(_, _, known)| {
                (&known.effect, known.attempt, known.by_key)
                    != (&evidence.effect, evidence.attempt, evidence.by_key)
                    || known.occurrence > evidence.occurrence
            });
            self.proven.push((record.id.clone(), generation, evidence));
        }
        if record.state.status() == StepStatus::InDoubt && from != Some(StepStatus::InDoubt) {
            let RunCommit { head, announce, .. } = &self.write;
            let told =
                announce.announce_doubt(&head.facts, head.generation, &record.id, record.attempts, self.now);
            self.write.posts.extend(told);
        }
        self.write.steps.push(record.clone());
        Ok(record)
    }

    /// Opens a promise in the same write as the step that waits for it.
    pub fn open_promise(&mut self, promise: Promise) {
        self.write.promises.push(promise);
    }

    /// Sets the subscribers to announce later changes of this write to.
    pub fn announce(&mut self, subscribers: Subscribers) {
        self.write.announce = subscribers;
    }

    /// Marks a promise as timed out in the same write as the step that saw it.
    pub fn time_out_promise(&mut self, id: PromiseId) {
        // A promise that ends before it is written needs no key, and must not consume an early settlement.
        self.write
            .promises
            .iter_mut()
            .filter(|promise| promise.id == id)
            .for_each(|promise| promise.key = None);
        self.write.timed_out.push(id);
    }

    /// Marks a signal as consumed by a step.
    pub fn consume_signal(&mut self, seq: u64) {
        self.write.consumed.push(seq);
    }

    /// Starts a child in the same write as the step that waits for it.
    pub fn start_child(&mut self, child: NewRun) {
        self.write.children.push(child);
    }

    /// Sets the largest number of descendants the root of the run may have, including the children of this
    /// write. The default is [`MAX_DESCENDANTS`].
    pub fn limit_descendants(&mut self, most: u64) {
        self.write.max_descendants = most;
    }

    /// Adds a journal entry to the write.
    pub fn note(&mut self, note: JournalEntry) {
        self.write.notes.push(note);
    }

    /// Adds an outbox message to the write.
    pub fn post(&mut self, post: OutboxMessage) {
        self.write.posts.push(post);
    }

    /// Parks the run until an arrival or `wake_at`, and releases the lease. `arrivals_seen` is the number of
    /// arrivals the holder has processed. If there are more, the run is due at once.
    pub fn wait(&mut self, wake_at: Option<Timestamp>, arrivals_seen: u64) -> Result<(), IllegalChange> {
        self.run_change(RunTransition::Wait)?;
        self.write.head.state = RunState::Waiting { wake_at };
        self.write.head.arrivals = arrivals_seen;
        self.event(EventKind::Waited, None);
        Ok(())
    }

    /// Releases the lease. Another worker may continue at once.
    pub fn release(&mut self) -> Result<(), IllegalChange> {
        self.run_change(RunTransition::Release)?;
        self.write.head.state = RunState::Running(RunningState::Ready { due_at: self.now });
        self.event(EventKind::Released, None);
        Ok(())
    }

    /// Releases the lease after a stretch without progress. The run is due at `due_at`, or quarantined if it
    /// has lost too many leases in a row.
    pub fn release_stalled(&mut self, due_at: Timestamp) -> Result<(), IllegalChange> {
        let stalls = self.write.head.stalls + 1;
        if stalls > MAX_STALLS {
            self.run_change(RunTransition::Quarantine)?;
            self.write.head.state = RunState::Paused;
            self.event(EventKind::Quarantined, Some(quarantine_note()));
        } else {
            self.run_change(RunTransition::Release)?;
            self.write.head.state = RunState::Running(RunningState::Ready { due_at });
            self.event(EventKind::Released, Some("its driver panicked".into()));
        }
        self.write.head.stalls = stalls;
        Ok(())
    }

    /// Keeps the stall count above 0 when the run is released before the attempt of a vanished holder was
    /// counted. The next driver must know about it.
    pub fn remember_stall(&mut self) {
        self.write.head.stalls = self.write.head.stalls.max(1);
    }

    /// Pauses the run, on request or for the reason `why`.
    pub fn pause(&mut self, why: Option<String>) -> Result<(), IllegalChange> {
        self.run_change(RunTransition::Pause)?;
        if self.write.head.asked == PendingRequest::Cancel {
            // Pausing clears the pending request, so the cancellation would be lost.
            return Err(IllegalChange { change: "pause", from: "a run that is to cancel" });
        }
        self.write.head.state = RunState::Paused;
        self.write.head.asked = PendingRequest::Nothing;
        self.event(EventKind::Paused, why);
        Ok(())
    }

    /// Starts the run again with `input` and an empty history, under the same id, key and lease.
    pub fn continue_as_new(&mut self, input: Payload) -> Result<(), IllegalChange> {
        self.run_change(RunTransition::ContinueAsNew)?;
        self.write.head.generation = self.write.head.generation.next();
        self.write.head.stalls = 0;
        self.write.input = Some(input);
        self.event(EventKind::ContinuedAsNew, None);
        Ok(())
    }

    /// Ends the run with its own result although a cancellation is pending. The history says so.
    pub fn close_before_cancel(&mut self, result: RunResult) -> Result<(), IllegalChange> {
        self.close(result)?;
        if let Some(event) = self.write.events.last_mut() {
            let note = event.note.take().map(|note| format!("{note}; ")).unwrap_or_default();
            event.note = Some(format!("{note}{CANCEL_TOO_LATE}"));
        }
        Ok(())
    }

    /// Ends the run.
    pub fn close(&mut self, result: RunResult) -> Result<(), IllegalChange> {
        let (transition, kind, note) = match &result {
            RunResult::Completed(_) => (RunTransition::Complete, EventKind::Completed, None),
            RunResult::Failed(failure) => (RunTransition::Fail, EventKind::Failed, Some(failure)),
            RunResult::Cancelled(failure) => (RunTransition::Cancel, EventKind::Cancelled, Some(failure)),
        };
        self.run_change(transition)?;
        let note = note.map(Failure::to_string);
        self.write.head.state = RunState::Closed { at: self.now, ending: result.ending() };
        self.write.head.asked = PendingRequest::Nothing;
        let (facts, ending) = (&self.write.head.facts, result.ending());
        let told =
            self.write.announce.announce_ending_of(facts, self.write.head.generation, ending, self.now);
        self.write.posts.extend(told);
        self.write.result = Some(result);
        self.event(kind, note);
        Ok(())
    }

    /// The ending, if this write closes the run. For tests and traces.
    pub fn ending(&self) -> Option<Ending> {
        self.write.result.as_ref().map(RunResult::ending)
    }

    /// The generation after the changes collected so far.
    pub fn generation(&self) -> Generation {
        self.write.head.generation
    }

    fn run_change(&self, transition: RunTransition) -> Result<(), IllegalChange> {
        let from = self.write.head.status();
        match transition.target(Some(from)) {
            Some(_) => Ok(()),
            None => Err(IllegalChange { change: transition.as_str(), from: from.as_str() }),
        }
    }

    fn next_version(&mut self) -> Version {
        self.write.head.version = self.write.head.version.next();
        self.write.head.version
    }

    fn event(&mut self, kind: EventKind, note: Option<String>) {
        let version = self.next_version();
        self.write.events.push(RunEvent { version, at: self.now, fence: self.write.head.fence, kind, note });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{closed, leased};
    use crate::model::{AnnouncementKind, Name, Subscriber};

    const NOW: Timestamp = Timestamp::from_millis(100);

    fn change(previous: Option<StepRecord>, transition: StepTransition, state: StepState) -> StepChange {
        StepChange {
            id: StepId::from_stored("charge"),
            kind: StepKind::Effect,
            previous,
            transition,
            state,
            attempts: 1,
            started_at: NOW,
            child: None,
        }
    }

    fn done() -> StepState {
        StepState::Completed { at: NOW, output: Payload::null() }
    }

    #[test]
    fn only_the_end_of_an_attempt_is_progress() {
        let stalled = RunHead { stalls: 3, ..leased() };
        let mut write = CommitBuilder::new(&stalled, NOW);
        let begun = write.step(change(None, StepTransition::Begin, StepState::Running)).unwrap();
        assert_eq!(write.head().stalls, 3);
        write.step(change(Some(begun), StepTransition::Complete, done())).unwrap();
        assert_eq!(write.head().stalls, 0);
    }

    /// S0.34: a step takes two versions, whether or not its start was written first.
    #[test]
    fn a_step_takes_two_versions_marked_or_not() {
        let head = leased();
        let mut at_once = CommitBuilder::new(&head, NOW);
        let record = at_once.step(change(None, StepTransition::Complete, done())).unwrap();
        assert_eq!(record.started_version, head.version.next());
        assert_eq!(record.changed_version, head.version.next().next());

        let mut marking = CommitBuilder::new(&head, NOW);
        let mark = marking.step(change(None, StepTransition::Begin, StepState::Running)).unwrap();
        let marked = marking.finish().head;
        assert_eq!(marked.version, head.version.next());
        let mut finishing = CommitBuilder::new(&marked, NOW);
        finishing.step(change(Some(mark), StepTransition::Complete, done())).unwrap();
        assert_eq!(finishing.finish().head.version, at_once.finish().head.version);
    }

    #[test]
    fn a_lease_released_without_progress_counts_as_a_stall_and_the_last_one_quarantines() {
        let mut head = leased();
        for stalls in 1..=MAX_STALLS {
            let mut write = CommitBuilder::new(&head, NOW);
            write.release_stalled(NOW).unwrap();
            let released = write.finish().head;
            assert_eq!(
                (released.stalls, released.state),
                (stalls, RunState::Running(RunningState::Ready { due_at: NOW }))
            );
            head = RunHead { state: leased().state, ..released };
        }
        let mut write = CommitBuilder::new(&head, NOW);
        write.release_stalled(NOW).unwrap();
        assert_eq!(write.finish().head.state, RunState::Paused);
    }

    #[test]
    fn a_last_step_and_the_completion_are_one_write() {
        let head = leased();
        let mut write = CommitBuilder::new(&head, NOW);
        write.step(change(None, StepTransition::Complete, done())).unwrap();
        write.close(RunResult::Completed(Payload::null())).unwrap();
        let write = write.finish();
        assert_eq!((write.steps.len(), write.events.len()), (1, 1));
        assert_eq!(write.head.version.get(), head.version.get() + 3);
        assert_eq!(write.head.status(), super::super::RunStatus::Completed);
    }

    /// A probe may doubt a step again that is in doubt. That is not announced again.
    #[test]
    fn a_doubt_is_announced_once_however_often_it_is_written() {
        let mut write = CommitBuilder::new(&leased(), NOW);
        let target = Name::new("target", "people").unwrap();
        let wants = [AnnouncementKind::EffectInDoubt].into();
        write.announce(Subscribers::new(vec![Subscriber { target, wants }]));
        let doubted = || StepState::InDoubt { since: NOW, failure: Failure::unknown("the line was cut") };
        let begun = write.step(change(None, StepTransition::Begin, StepState::Running)).unwrap();
        let first = write.step(change(Some(begun), StepTransition::Doubt, doubted())).unwrap();
        write.step(change(Some(first), StepTransition::Doubt, doubted())).unwrap();
        assert_eq!(write.finish().posts.len(), 1);
    }

    /// S0.37, invariant 31: a final record is never replaced.
    #[test]
    fn a_final_step_cannot_change() {
        let mut write = CommitBuilder::new(&leased(), NOW);
        let record = write.step(change(None, StepTransition::Complete, done())).unwrap();
        assert!(write.step(change(Some(record), StepTransition::Complete, done())).is_err());
    }

    /// Invariant 45: an acknowledged cancellation is not forgotten.
    #[test]
    fn a_run_that_is_to_cancel_cannot_pause() {
        let asked = RunHead { asked: PendingRequest::Cancel, ..leased() };
        assert!(CommitBuilder::new(&asked, NOW).pause(None).is_err());
        let mut tired = CommitBuilder::new(&leased(), NOW);
        tired.pause(Some("step charge has used up its retries".into())).unwrap();
        let tired = tired.finish();
        assert_eq!(tired.head.state, RunState::Paused);
        assert!(tired.events[0].note.as_deref().unwrap().contains("charge"));
    }

    #[test]
    fn a_run_that_failed_by_itself_says_that_a_cancellation_came_too_late() {
        let mut write = CommitBuilder::new(&RunHead { asked: PendingRequest::Cancel, ..leased() }, NOW);
        write.close_before_cancel(RunResult::Failed(Failure::permanent("no money"))).unwrap();
        let write = write.finish();
        assert_eq!(write.head.asked, PendingRequest::Nothing);
        let note = write.events[0].note.as_deref().unwrap();
        assert!(note.contains("no money") && note.ends_with(CANCEL_TOO_LATE), "{note}");
    }

    #[test]
    fn a_closed_run_cannot_change() {
        let mut write = CommitBuilder::new(&closed(Ending::Completed), NOW);
        assert!(write.step(change(None, StepTransition::Complete, done())).is_err());
        assert!(write.wait(None, 0).is_err());
        assert!(write.close(RunResult::Completed(Payload::null())).is_err());
        assert!(write.is_empty());
    }
}
