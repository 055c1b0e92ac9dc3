//! Changes of a run that are queued but not yet committed.

use std::collections::HashMap;

use crate::model::{
    CommitBuilder, DoubtedAttempt, Failure, IllegalChange, JournalEntry, JournalEvent, NewRun, OutboxMessage,
    Payload, PendingRequest, Promise, PromiseId, RunCommit, RunHead, RunId, RunResult, StepChange, StepId,
    StepKind, StepRecord, StepState, StepStatus, StepTransition, Subscribers, Timestamp,
};

/// One queued change. It describes an event and not a version, so it can be committed again on top of another
/// writer's change.
#[derive(Debug, Clone)]
pub(crate) enum PendingChange {
    Step {
        id: StepId,
        kind: StepKind,
        transition: StepTransition,
        state: StepState,
        attempts: u32,
        started_at: Timestamp,
        child: Option<RunId>,
    },
    OpenPromise(Box<Promise>),
    TimeOutPromise(PromiseId),
    ConsumeSignal(u64),
    /// A child run, and the maximum number of descendants that its root may have with it.
    StartChild(Box<NewRun>, u64),
    /// A journal entry.
    JournalEntry(Box<JournalEntry>),
    /// An after-effect.
    OutboxMessage(Box<OutboxMessage>),
    /// No branch waits for this step any more. If it has no outcome yet, it is cancelled.
    CancelIfOpen(StepId),
}

impl PendingChange {
    /// Creates a step change: the end of a step that started in the same commit, or of a step recorded
    /// earlier.
    pub(crate) fn finished(
        id: &StepId,
        kind: StepKind,
        transition: StepTransition,
        state: StepState,
        attempts: u32,
        started_at: Timestamp,
    ) -> PendingChange {
        PendingChange::Step { id: id.clone(), kind, transition, state, attempts, started_at, child: None }
    }
}

impl PendingChange {
    /// Returns the step, if the change is the outcome of an attempt at its effect or gives the attempt up.
    pub(crate) fn attempted_step(&self) -> Option<StepId> {
        let PendingChange::Step { id, kind, transition, .. } = self else { return None };
        kind.effect_class()?;
        let was_entered = transition.is_of_attempt() || *transition == StepTransition::Cancel;
        was_entered.then(|| id.clone())
    }
}

/// Effect of a commit on the run itself, beyond its steps.
#[derive(Debug, Clone)]
pub(crate) enum CommitAction {
    /// The run keeps running.
    KeepRunning,
    /// The run parks.
    Park { wake_at: Option<Timestamp>, arrivals_seen: u64 },
    /// The run pauses: on request, or for the given reason of its own.
    Pause(Option<String>),
    /// The lease is released.
    Release,
    /// The run starts a new generation with this input.
    ContinueAsNew(Payload),
    /// The run ends.
    Close(RunResult),
}

/// State that a commit is built on.
pub(crate) struct CommitBase<'a> {
    pub(crate) head: &'a RunHead,
    /// Records of steps that are not final.
    pub(crate) open: &'a HashMap<StepId, StepRecord>,
    /// True if a previous holder may have begun a step without a record.
    pub(crate) has_unrecorded_steps: bool,
    /// True if a run that ends does so because of a cancellation.
    pub(crate) ends_by_cancel: bool,
}

/// Builds a commit.
pub(crate) fn build(
    base: &CommitBase<'_>,
    changes: &[PendingChange],
    action: &CommitAction,
    announce: Subscribers,
    now: Timestamp,
) -> Result<RunCommit, IllegalChange> {
    let CommitBase { head, open, has_unrecorded_steps, ends_by_cancel } = *base;
    let mut write = CommitBuilder::new(head, now);
    write.announce(announce);
    let mut written: HashMap<StepId, StepRecord> = HashMap::new();
    for change in changes {
        match change {
            PendingChange::Step { id, kind, transition, state, attempts, started_at, child } => {
                let previous = written.get(id).or_else(|| open.get(id)).cloned();
                let record = write.step(StepChange {
                    id: id.clone(),
                    kind: *kind,
                    previous,
                    transition: *transition,
                    state: state.clone(),
                    attempts: *attempts,
                    started_at: *started_at,
                    child: *child,
                })?;
                if !record.state.status().is_final() || open.contains_key(id) || written.contains_key(id) {
                    written.insert(id.clone(), record);
                }
            }
            PendingChange::OpenPromise(promise) => write.open_promise((**promise).clone()),
            PendingChange::TimeOutPromise(id) => write.time_out_promise(id.clone()),
            PendingChange::ConsumeSignal(seq) => write.consume_signal(*seq),
            PendingChange::StartChild(child, most) => {
                write.limit_descendants(*most);
                write.start_child((**child).clone());
            }
            PendingChange::JournalEntry(entry) => write.note((**entry).clone()),
            PendingChange::OutboxMessage(message) => write.post((**message).clone()),
            PendingChange::CancelIfOpen(id) => {
                let record = written.get(id).or_else(|| open.get(id)).cloned();
                // An undo is carried out even if no branch waits for it.
                if let Some(record) = record
                    .filter(|record| is_open(record) && record.kind != StepKind::Undo && !is_doubtful(record))
                {
                    written.insert(id.clone(), cancel_step(&mut write, &record, now)?);
                }
            }
        }
    }
    match action {
        CommitAction::KeepRunning => {}
        CommitAction::Park { wake_at, arrivals_seen } => write.wait(*wake_at, *arrivals_seen)?,
        CommitAction::Pause(why) => write.pause(why.clone())?,
        CommitAction::Release => write.release()?,
        CommitAction::ContinueAsNew(input) => {
            close_open_steps(&mut write, open, &written, now)?;
            write.continue_as_new(input.clone())?;
        }
        CommitAction::Close(result) => {
            close_open_steps(&mut write, open, &written, now)?;
            match ends_by_cancel || head.asked != PendingRequest::Cancel {
                true => write.close(result.clone())?,
                false => write.close_before_cancel(result.clone())?,
            }
        }
    }
    let is_given_back =
        matches!(action, CommitAction::Pause(_) | CommitAction::Release | CommitAction::Park { .. });
    if has_unrecorded_steps && is_given_back {
        write.remember_stall();
    }
    Ok(write.finish())
}

/// Closes open steps, so that a closed run has no step that looks active.
fn close_open_steps(
    write: &mut CommitBuilder,
    open: &HashMap<StepId, StepRecord>,
    written: &HashMap<StepId, StepRecord>,
    now: Timestamp,
) -> Result<(), IllegalChange> {
    let untouched = open.values().filter(|record| !written.contains_key(&record.id));
    let mut left: Vec<&StepRecord> = untouched.chain(written.values()).collect();
    left.retain(|record| is_open(record));
    left.sort_by_key(|record| record.started_version);
    for record in left {
        match (record.kind, record.state.status()) {
            // A doubt stays in the list of doubts even after the run has ended.
            (_, StepStatus::InDoubt) => {}
            (StepKind::Claimed, StepStatus::Running) => doubt(write, record, now)?,
            _ => drop(cancel_step(write, record, now)?),
        }
    }
    Ok(())
}

/// Records a doubt because the run ends in the middle of a claimed effect.
fn doubt(write: &mut CommitBuilder, record: &StepRecord, now: Timestamp) -> Result<(), IllegalChange> {
    let failure = Failure::unknown("the run ended in the middle of it").with_code("cut_off");
    let head = write.head();
    let (run, generation) = (head.id(), head.generation);
    // The version is higher than the number of any round.
    let id = DoubtedAttempt::new(run, generation, &record.id, record.attempts).round(head.version.get());
    let promise = Promise::pending(id, run, now, None);
    write.note(JournalEntry {
        workspace: head.facts.workspace.clone(),
        run,
        generation,
        step: Some(record.id.clone()),
        at: now,
        fence: head.fence,
        owner: None,
        by: None,
        what: JournalEvent::Doubted { attempt: record.attempts, failure: failure.clone() },
        evidence: None,
    });
    write.open_promise(promise);
    write.step(StepChange {
        id: record.id.clone(),
        kind: record.kind,
        previous: Some(record.clone()),
        transition: StepTransition::Doubt,
        state: StepState::InDoubt { since: now, failure },
        attempts: record.attempts,
        started_at: record.started_at,
        child: None,
    })?;
    Ok(())
}

/// Returns whether the outcome of the effect is unknown, or will be if the step is abandoned.
fn is_doubtful(record: &StepRecord) -> bool {
    match record.state.status() {
        StepStatus::InDoubt => true,
        StepStatus::Running => record.kind == StepKind::Claimed,
        _ => false,
    }
}

fn is_open(record: &StepRecord) -> bool {
    !record.state.status().is_final()
}

fn cancel_step(
    write: &mut CommitBuilder,
    record: &StepRecord,
    now: Timestamp,
) -> Result<StepRecord, IllegalChange> {
    write.step(StepChange {
        id: record.id.clone(),
        kind: record.kind,
        previous: Some(record.clone()),
        transition: StepTransition::Cancel,
        state: StepState::Cancelled { at: now },
        attempts: record.attempts,
        started_at: record.started_at,
        child: record.child,
    })
}
