//! Answers of people to approvals that workflows ask for: of several answers the first counts, and the others are told so.

use super::doubts::{decided_in, fresh_request};
use super::{Engine, Error};
use crate::model::{
    Actor, EventKind, JournalEntry, JournalEvent, Payload, RecordedDecision, RunId, SignalId, StepId, Version,
};

/// How ids of signals begin that the engine chooses itself. Callers cannot use them.
pub(super) const RESERVED_SIGNAL_IDS: &str = "~approval:";

/// An answer to an approval.
#[derive(Debug, Clone)]
pub struct ApprovalAnswer {
    /// The run.
    pub run: RunId,
    /// The step that asks.
    pub step: String,
    /// The signal that the step waits for.
    pub signal: String,
    /// What the signal carries.
    pub payload: Payload,
    /// Who answers.
    pub by: Actor,
    /// The decision in one word.
    pub decision: String,
    /// What they say about it.
    pub comment: Option<String>,
    /// Identifies the request, if it may be sent again after a crash: the second time it finds its own answer.
    pub request: Option<String>,
}

impl Engine {
    /// Answers an approval. It counts once for each time the step asks, and is in the audit log.
    ///
    /// An answer may come before the step asks. Whoever is not the first gets [`Error::ApprovalOver`].
    pub async fn answer_approval(&self, answer: ApprovalAnswer) -> Result<(), Error> {
        let ApprovalAnswer { run, step, signal, payload, by, decision, comment, request } = answer;
        let request = request.unwrap_or_else(fresh_request);
        let log = self.get_log(run).await?;
        let id = StepId::from_stored(&step);
        let record = log.steps.iter().find(|record| record.id == id);
        let is_over = record.is_some_and(|record| record.state.status().is_final());
        let is_answered = log.signals.iter().any(|known| known.name.as_str() == signal && !known.consumed);
        if is_over || is_answered {
            return self.answered_before(run, step, &request).await;
        }
        // A retry of the run may make the step ask again, and nothing else does: answers to one question have one id.
        let asked = self.count_retries(run).await?;
        let signal_id = format!("{RESERVED_SIGNAL_IDS}{}.{asked}.{signal}", log.head.generation.get());
        let signal_id = SignalId::new(&signal_id)?;
        let at = self.inner.store.now();
        let what = JournalEvent::Answered { decision, comment, request: Some(request.clone()) };
        let note = JournalEntry::on_run(&log.head, Some(id), by, at, what);
        match self.send_signal(run, &signal, payload, Some(signal_id), Some(note)).await? {
            true => Ok(()),
            false => self.answered_before(run, step, &request).await,
        }
    }

    /// What is said to an answer that is not the first.
    async fn answered_before(&self, run: RunId, step: String, request: &str) -> Result<(), Error> {
        let id = StepId::from_stored(&step);
        let mut last: Option<RecordedDecision> = None;
        for placed in self.notes_of(run).await? {
            let note = placed.note;
            if note.step.as_ref() != Some(&id) || !matches!(note.what, JournalEvent::Answered { .. }) {
                continue;
            }
            if let Some((decided, by_request)) = decided_in(&note.what, note.by.as_ref(), note.at) {
                if by_request == Some(request) {
                    return Ok(());
                }
                last = Some(decided);
            }
        }
        Err(Error::ApprovalOver { run, step, decided: last.map(Box::new) })
    }

    async fn count_retries(&self, run: RunId) -> Result<usize, Error> {
        let (mut retries, mut after) = (0, Version::default());
        loop {
            let events = self.list_events(run, after).await?;
            let Some(last) = events.last() else { return Ok(retries) };
            after = last.version;
            retries += events.iter().filter(|event| event.kind == EventKind::Retried).count();
        }
    }
}
