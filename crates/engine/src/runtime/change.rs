//! Changes a driven run has collected but not yet written.

use std::collections::HashMap;

use crate::model::{
    CommitBuilder, DoubtedAttempt, Failure, IllegalChange, JournalEntry, JournalEvent, NewRun, OutboxMessage,
    Payload, PendingRequest, Promise, PromiseId, RunCommit, RunHead, RunId, RunResult, StepChange, StepId,
    StepKind, StepRecord, StepState, StepStatus, StepTransition, Subscribers, Timestamp,
};

/// One collected change. It says what happened, not which version it will take, so that it can be written again
/// on top of what others changed meanwhile.
#[derive(Debug, Clone)]
pub(crate) enum Change {
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
    /// A child, and how many descendants its root may have with it.
    StartChild(Box<NewRun>, u64),
    /// An entry of the journal.
    Note(Box<JournalEntry>),
    /// An after-effect.
    OutboxMessage(Box<OutboxMessage>),
    /// Nobody waits for this step any more; if it has no outcome yet, it is given up.
    GiveUp(StepId),
}

impl Change {
    /// A step that ends in the same write in which it began, or ends what was marked before.
    pub(crate) fn finished(
        id: &StepId,
        kind: StepKind,
        transition: StepTransition,
        state: StepState,
        attempts: u32,
        started_at: Timestamp,
    ) -> Change {
        Change::Step { id: id.clone(), kind, transition, state, attempts, started_at, child: None }
    }
}

impl Change {
    /// The step whose effect was attempted, if the change tells what an attempt came to, or that nobody waited for that.
    pub(crate) fn attempted(&self) -> Option<StepId> {
        let Change::Step { id, kind, transition, .. } = self else { return None };
        kind.effect_class()?;
        let was_entered = transition.is_of_attempt() || *transition == StepTransition::Cancel;
        was_entered.then(|| id.clone())
    }
}

/// What a write does to the run beyond its steps.
#[derive(Debug, Clone)]
pub(crate) enum Closing {
    /// Nothing: the run goes on.
    GoOn,
    /// It parks.
    Wait { wake_at: Option<Timestamp>, arrivals_seen: u64 },
    /// It stops, as people asked, or for this reason of its own.
    Pause(Option<String>),
    /// The lease is given back.
    Release,
    /// It begins again with this input.
    Continue(Payload),
    /// It ends.
    End(RunResult),
}

/// What a write is built on.
pub(crate) struct Base<'a> {
    pub(crate) head: &'a RunHead,
    /// The records of steps that are not final.
    pub(crate) open: &'a HashMap<StepId, StepRecord>,
    /// May a vanished holder have begun a step of which nothing tells yet?
    pub(crate) is_hiding: bool,
    /// If the run ends: does it end because of a cancellation?
    pub(crate) heeds_cancel: bool,
}

/// Builds the write.
pub(crate) fn build(
    base: &Base<'_>,
    changes: &[Change],
    closing: &Closing,
    announce: Subscribers,
    now: Timestamp,
) -> Result<RunCommit, IllegalChange> {
    let Base { head, open, is_hiding, heeds_cancel } = *base;
    let mut write = CommitBuilder::new(head, now);
    write.announce(announce);
    let mut written: HashMap<StepId, StepRecord> = HashMap::new();
    for change in changes {
        match change {
            Change::Step { id, kind, transition, state, attempts, started_at, child } => {
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
            Change::OpenPromise(promise) => write.open_promise((**promise).clone()),
            Change::TimeOutPromise(id) => write.time_out_promise(id.clone()),
            Change::ConsumeSignal(seq) => write.consume_signal(*seq),
            Change::StartChild(child, most) => {
                write.limit_descendants(*most);
                write.start_child((**child).clone());
            }
            Change::Note(note) => write.note((**note).clone()),
            Change::OutboxMessage(post) => write.post((**post).clone()),
            Change::GiveUp(id) => {
                let record = written.get(id).or_else(|| open.get(id)).cloned();
                // What is to be undone is undone, whoever waits for it.
                if let Some(record) = record
                    .filter(|record| is_open(record) && record.kind != StepKind::Undo && !is_doubtful(record))
                {
                    written.insert(id.clone(), give_up(&mut write, &record, now)?);
                }
            }
        }
    }
    match closing {
        Closing::GoOn => {}
        Closing::Wait { wake_at, arrivals_seen } => write.wait(*wake_at, *arrivals_seen)?,
        Closing::Pause(why) => write.pause(why.clone())?,
        Closing::Release => write.release()?,
        Closing::Continue(input) => {
            give_up_open_steps(&mut write, open, &written, now)?;
            write.continue_as_new(input.clone())?;
        }
        Closing::End(result) => {
            give_up_open_steps(&mut write, open, &written, now)?;
            match heeds_cancel || head.asked != PendingRequest::Cancel {
                true => write.close(result.clone())?,
                false => write.close_before_cancel(result.clone())?,
            }
        }
    }
    let is_given_back = matches!(closing, Closing::Pause(_) | Closing::Release | Closing::Wait { .. });
    if is_hiding && is_given_back {
        write.remember_stall();
    }
    Ok(write.finish())
}

/// A run that ends leaves no step behind that looks as if it were still going on.
fn give_up_open_steps(
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
            // Nobody may forget it: it stays in the list of doubts, ended run or not.
            (_, StepStatus::InDoubt) => {}
            (StepKind::Claimed, StepStatus::Running) => doubt(write, record, now)?,
            _ => drop(give_up(write, record, now)?),
        }
    }
    Ok(())
}

/// The run ends in the middle of a claimed effect.
fn doubt(write: &mut CommitBuilder, record: &StepRecord, now: Timestamp) -> Result<(), IllegalChange> {
    let failure = Failure::unknown("the run ended in the middle of it").with_code("cut_off");
    let head = write.head();
    let (run, generation) = (head.id(), head.generation);
    // The version is above every round there was.
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

/// Of such an effect nobody knows, or will know, whether it happened.
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

fn give_up(
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
