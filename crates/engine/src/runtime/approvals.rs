//! Answers approval steps. The first answer wins; later ones get an error that names it.

use super::doubts::{decided_in, fresh_request};
use super::{Engine, Error};
use crate::model::{
    Actor, EventKind, JournalEntry, JournalEvent, Payload, RecordedDecision, RunId, SignalId, StepId, Version,
};

/// Prefix of the signal ids that the engine chooses itself. Callers cannot use it.
pub(super) const RESERVED_SIGNAL_IDS: &str = "~approval:";

/// Answer to an approval step.
#[derive(Debug, Clone)]
pub struct ApprovalAnswer {
    /// Run that contains the step.
    pub run: RunId,
    /// Step that asks for the approval.
    pub step: String,
    /// Signal that the step waits for.
    pub signal: String,
    /// Payload of the signal.
    pub payload: Payload,
    /// Person who answers.
    pub by: Actor,
    /// Decision in one word.
    pub decision: String,
    /// Comment of the person.
    pub comment: Option<String>,
    /// Id of the request, if it may be repeated after a crash. The repeated request then finds its own
    /// answer.
    pub request: Option<String>,
}

impl Engine {
    /// Answers an approval step and records the answer in the audit log. Each question takes one answer.
    ///
    /// The answer may arrive before the step asks. Every later answer gets [`Error::ApprovalClosed`].
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
        // Only a retry of the run can make the step ask again, so all answers to one question share one
        // signal id.
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

    /// Result of an answer that is not the first: success if `request` gave the earlier answer, otherwise an
    /// error.
    async fn answered_before(&self, run: RunId, step: String, request: &str) -> Result<(), Error> {
        let id = StepId::from_stored(&step);
        let mut last: Option<RecordedDecision> = None;
        for placed in self.list_run_journal(run).await? {
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
        Err(Error::ApprovalClosed { run, step, decided: last.map(Box::new) })
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
