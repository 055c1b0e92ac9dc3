//! The operations of one group commit.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use hapax_engine::model::{JournalEvent, NewRun, RunCommit, RunId};
use hapax_engine::store::{CommitOutcome, StartOutcome, StoreError};

use crate::job::{EnqueuedAt, Reply};
use crate::limits::{MAX_BATCH, MAX_BATCH_BYTES};

/// An operation of the hot path.
pub(crate) enum HotOp {
    Start(Start),
    RunCommit(QueuedWrite),
}

/// A start, with its caller.
pub(crate) struct Start {
    pub(crate) new: NewRun,
    pub(crate) reply: Reply<StartOutcome>,
    pub(crate) entered: EnqueuedAt,
}

/// A write under a lease, with its caller.
pub(crate) struct QueuedWrite {
    pub(crate) advance: Box<RunCommit>,
    pub(crate) reply: Reply<CommitOutcome>,
    pub(crate) entered: EnqueuedAt,
}

/// Operations for one transaction: no two concern the same run or key.
#[derive(Default)]
pub(crate) struct Batch {
    /// In the order of their keys.
    pub(crate) starts: Vec<Start>,
    /// In the order of their runs.
    pub(crate) moves: Vec<QueuedWrite>,
}

impl Batch {
    /// Takes the operations that fit from the front; conflicting ones stay for the next batch.
    pub(crate) fn take(waiting: &mut VecDeque<HotOp>) -> Batch {
        let mut batch = Batch::default();
        let mut runs: HashSet<RunId> = HashSet::with_capacity(waiting.len());
        let mut keys = HashSet::new();
        let mut stays = VecDeque::new();
        let mut bytes = 0;
        while let Some(op) = waiting.pop_front() {
            bytes += size(&op);
            let is_full = batch.len() == MAX_BATCH || (bytes > MAX_BATCH_BYTES && batch.len() > 0);
            if is_full {
                waiting.push_front(op);
                break;
            }
            let is_free = match &op {
                HotOp::Start(Start { new, .. }) => {
                    let key = new.facts.key.clone().map(|key| (new.facts.workspace.clone(), key));
                    runs.insert(new.facts.id) && key.is_none_or(|key| keys.insert(key))
                }
                HotOp::RunCommit(QueuedWrite { advance, .. }) => runs.insert(advance.run()),
            };
            match op {
                op if !is_free => stays.push_back(op),
                HotOp::Start(start) => batch.starts.push(start),
                HotOp::RunCommit(moved) => batch.moves.push(moved),
            }
        }
        while let Some(op) = stays.pop_back() {
            waiting.push_front(op);
        }
        batch.starts.sort_by(|a, b| {
            let place = |start: &Start| (start.new.facts.workspace.clone(), start.new.facts.key.clone());
            place(a).cmp(&place(b))
        });
        batch.moves.sort_by_key(|moved| moved.advance.run());
        batch
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() + self.moves.len()
    }

    /// Each operation as a batch of its own.
    pub(crate) fn into_singles(self) -> impl Iterator<Item = Batch> {
        let starts = self.starts.into_iter().map(|start| Batch { starts: vec![start], moves: Vec::new() });
        let moves = self.moves.into_iter().map(|moved| Batch { starts: Vec::new(), moves: vec![moved] });
        starts.chain(moves)
    }

    /// Rejects operations that have waited too long, so that no caller waits longer than its
    /// deadline. Call it only while nothing of the batch is on its way.
    pub(crate) fn turn_away(&mut self, patience: Duration) {
        let (mut starts, mut moves) = (Vec::new(), Vec::new());
        for start in self.starts.drain(..) {
            match start.entered.is_over(patience) {
                true => drop(start.reply.send(Err(EnqueuedAt::too_long(patience)))),
                false => starts.push(start),
            }
        }
        for moved in self.moves.drain(..) {
            match moved.entered.is_over(patience) {
                true => drop(moved.reply.send(Err(EnqueuedAt::too_long(patience)))),
                false => moves.push(moved),
            }
        }
        (self.starts, self.moves) = (starts, moves);
    }

    /// Answers all callers with the error.
    pub(crate) fn fail(self, error: &StoreError) {
        // Callers that stopped waiting will ask again.
        self.starts.into_iter().for_each(|start| drop(start.reply.send(Err(error.clone()))));
        self.moves.into_iter().for_each(|moved| drop(moved.reply.send(Err(error.clone()))));
    }
}

/// About how many bytes of payload an operation carries.
fn size(op: &HotOp) -> usize {
    match op {
        HotOp::Start(start) => start.new.input.as_str().len(),
        HotOp::RunCommit(moved) => size_of_write(&moved.advance),
    }
}

/// About how many bytes of payload a write carries.
pub(crate) fn size_of_write(advance: &RunCommit) -> usize {
    use hapax_engine::model::{RunResult, StepState};
    let steps = advance.steps.iter().map(|step| match &step.state {
        StepState::Completed { output, .. } => output.as_str().len(),
        StepState::Pending { failure, .. }
        | StepState::Failed { failure, .. }
        | StepState::InDoubt { failure, .. } => failure.message().len(),
        StepState::Running
        | StepState::Waiting { .. }
        | StepState::Skipped { .. }
        | StepState::Cancelled { .. } => 0,
    });
    let result = match &advance.result {
        Some(RunResult::Completed(output)) => output.as_str().len(),
        Some(RunResult::Failed(failure) | RunResult::Cancelled(failure)) => failure.message().len(),
        None => 0,
    };
    let children = advance.children.iter().map(|child| child.input.as_str().len());
    let input = advance.input.as_ref().map_or(0, |input| input.as_str().len());
    let posts = advance.posts.iter().map(|post| post.payload.as_str().len());
    let notes = advance.notes.iter().map(|note| size_of_note(&note.what));
    steps.sum::<usize>()
        + children.sum::<usize>()
        + posts.sum::<usize>()
        + notes.sum::<usize>()
        + result
        + input
}

fn size_of_note(what: &JournalEvent) -> usize {
    match what {
        JournalEvent::Failed { failure, .. } | JournalEvent::Doubted { failure, .. } => {
            failure.message().len()
        }
        JournalEvent::Resolved { reason, .. }
        | JournalEvent::RulingProposed { reason, .. }
        | JournalEvent::PayloadsRevealed { reason }
        | JournalEvent::RepeatAllowed { reason, .. }
        | JournalEvent::Commanded { reason, .. }
        | JournalEvent::Redelivered { reason }
        | JournalEvent::Overridden { reason, .. }
        | JournalEvent::KeyReleased { reason, .. } => reason.len(),
        JournalEvent::Remarked { text } => text.len(),
        JournalEvent::Answered { comment, .. } => comment.as_ref().map_or(0, String::len),
        JournalEvent::OnEntity { did, .. } => size_of_note(did),
        JournalEvent::Claimed { .. }
        | JournalEvent::Attempted { .. }
        | JournalEvent::Superseded { .. }
        | JournalEvent::Probed { .. }
        | JournalEvent::Refused { .. }
        | JournalEvent::SignInsRefused { .. }
        | JournalEvent::SetUp { .. }
        | JournalEvent::Settled { .. }
        | JournalEvent::TokenIssued { .. }
        | JournalEvent::Stepped { .. }
        | JournalEvent::Reverted { .. }
        | JournalEvent::StrayReverted { .. }
        | JournalEvent::Held { .. }
        | JournalEvent::TriedAgain { .. } => 0,
    }
}
