//! Answers approval steps. The first answer to a question that was asked wins; later ones get an error that names it.

use super::doubts::{decided_in, fresh_request};
use super::{Engine, Error};
use crate::model::{
    Actor, EventKind, JournalEntry, JournalEvent, Payload, RecordedDecision, RunHead, RunId, START_COMMAND,
    SignalId, StepId, StepStatus, Version, find_starter,
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
    /// May the person who had the run started answer?
    pub starter_may_answer: bool,
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
    /// An answer before the step asks counts for nothing, and gets [`Error::ApprovalNotAsked`]: nobody approves what they have not
    /// seen. The person who had the run started does not approve it, unless the step allows it. Every later answer gets
    /// [`Error::ApprovalClosed`].
    pub async fn answer_approval(&self, answer: ApprovalAnswer) -> Result<(), Error> {
        let ApprovalAnswer { run, step, signal, payload, by, starter_may_answer, decision, comment, request } =
            answer;
        let request = request.unwrap_or_else(fresh_request);
        let log = self.get_log(run).await?;
        let id = StepId::from_stored(&step);
        let record = log.steps.iter().find(|record| record.id == id);
        let is_over = record.is_some_and(|record| record.state.status().is_final());
        let is_answered = log.signals.iter().any(|known| known.name.as_str() == signal && !known.consumed);
        if is_over || is_answered {
            return self.answered_before(run, step, &request).await;
        }
        if record.is_none_or(|record| record.state.status() != StepStatus::Waiting) {
            return Err(Error::ApprovalNotAsked { run, step });
        }
        if !starter_may_answer && self.had_it_started(&log.head, &by).await? {
            return Err(Error::OwnApproval { run, step });
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

    /// Did this person have the run started, or the run above it from which it comes?
    async fn had_it_started(&self, head: &RunHead, by: &Actor) -> Result<bool, Error> {
        let root = head.facts.parent.as_ref().map(|parent| parent.root);
        for run in std::iter::once(head.id()).chain(root) {
            let journal = self.list_run_journal(run).await?;
            let starter = find_starter(journal.iter().map(|placed| &placed.note));
            if starter.is_some_and(|starter| starter.is_same_person(by)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Records that a person has a run started. To be called before the start, so that no run is there without it; the same run again
    /// changes nothing.
    pub async fn note_starter(&self, run: RunId, by: Actor) -> Result<(), Error> {
        let journal = self.list_run_journal(run).await?;
        if find_starter(journal.iter().map(|placed| &placed.note)).is_some() {
            return Ok(());
        }
        let what = JournalEvent::Commanded { command: START_COMMAND.into(), reason: String::new() };
        let entry = JournalEntry::on_workspace(self.workspace.clone(), by, self.inner.store.now(), what);
        let entry = JournalEntry { run, ..entry };
        Ok(self.inner.call_store(self.inner.store.append_journal(vec![entry])).await?)
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
