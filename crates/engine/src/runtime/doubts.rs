//! Lists and resolves effects in doubt, and reads the audit log.

use serde::Serialize;

use super::{Engine, Error};
use crate::limits::MAX_JOURNAL_ENTRIES_SCANNED;
use crate::model::{
    Actor, DoubtRef, DoubtedAttempt, EffectKey, Evidence, Failure, Generation, IdempotencyKey, JournalEntry,
    JournalEvent, Payload, PromiseId, PromiseRef, PromiseState, ProposedRuling, RecordedDecision, Ruling,
    RulingError, RunId, SettleRequest, SettleRule, Settlement, StepId, StepRecord, StepState, Timestamp,
    Version, WorkspaceId, WriteToken, can_be_carried_out, check_actor_and_reason, check_ruling,
    check_two_people, decide_confirmation,
};
use crate::store::{
    AuditCursor, AuditFilter, DoubtCursor, ListAudit, ListDoubts, ListJournal, RunLog, SettleOutcome,
    StoredDoubt, StoredJournalEntry,
};

/// Effect with an unknown outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Doubt {
    /// Workspace of the run.
    pub workspace: WorkspaceId,
    /// Run that contains the step.
    pub run: RunId,
    /// Step in doubt.
    pub step: StepId,
    /// Idempotency key that the provider received.
    pub key: EffectKey,
    /// Number of attempts begun.
    pub attempts: u32,
    /// Engine that began the last attempt.
    pub owner: Option<String>,
    /// Start of the doubt.
    pub since: Timestamp,
    /// Reason for the doubt.
    pub failure: Failure,
    /// Version at which the step came into doubt. A ruling must name it.
    pub version: Version,
}

impl Doubt {
    /// Reference to this doubt, for a ruling.
    pub fn as_seen(&self) -> DoubtRef {
        DoubtRef { run: self.run, step: self.step.clone(), seen: self.version }
    }
}

/// One page of doubts, oldest first.
#[derive(Debug, Clone, Default)]
pub struct DoubtPage {
    /// Doubts on this page.
    pub doubts: Vec<Doubt>,
    /// Start of the next page; `None` on the last page.
    pub next: Option<DoubtCursor>,
}

/// Printed form of one audit log entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditEntry {
    /// Position in the journal.
    pub place: u64,
    /// Time of the action.
    pub at: String,
    /// Person who acted.
    pub by: crate::model::Actor,
    /// Run, if the action was about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Step, if the action was about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Action that was taken.
    #[serde(flatten)]
    pub what: JournalEvent,
}

impl AuditEntry {
    /// Converts a journal entry, if a person made it.
    pub fn of(placed: StoredJournalEntry) -> Option<Self> {
        let StoredJournalEntry { place, note: JournalEntry { run, step, at, by, what, .. } } = placed;
        let step = step.map(|step| step.to_string());
        let run = (run != RunId::NONE).then(|| run.to_string());
        by.map(|by| AuditEntry { place, at: at.to_string(), by, run, step, what })
    }
}

impl Engine {
    /// Lists effects in doubt that still need a ruling, oldest first.
    pub async fn list_doubts(&self, after: Option<DoubtCursor>, limit: usize) -> Result<DoubtPage, Error> {
        let limit = limit.clamp(1, crate::limits::MAX_PAGE);
        let request = ListDoubts { workspace: Some(self.workspace.clone()), after, limit };
        let stored = self.inner.call_store(self.inner.store.list_doubts(request)).await?;
        let last = stored.last().filter(|_| stored.len() == limit);
        let next = last.map(|last| DoubtCursor {
            since: since(&last.step).0,
            run: last.run,
            step: last.step.id.clone(),
        });
        let mut doubts = Vec::new();
        let mut notes_left = MAX_JOURNAL_ENTRIES_SCANNED;
        for doubt in stored {
            let run = self.inner.call_store(self.inner.store.find_run(&doubt.workspace, doubt.run)).await?;
            if let Some(run) = run
                && self.is_open(&doubt, run.head.generation).await?
            {
                doubts.push(self.shown(doubt, run.head.generation, &mut notes_left).await?);
            }
        }
        Ok(DoubtPage { doubts, next })
    }

    /// Finds the doubt about a step. `None` if the step is not in doubt, or its doubt has a ruling.
    pub async fn find_doubt(&self, run: RunId, step: &StepId) -> Result<Option<Doubt>, Error> {
        let log = self.get_log(run).await?;
        let in_doubt =
            |record: &&StepRecord| record.id == *step && matches!(record.state, StepState::InDoubt { .. });
        let Some(record) = log.steps.iter().find(in_doubt) else { return Ok(None) };
        if open_promise(&log, record).is_none() {
            return Ok(None);
        }
        let doubt = StoredDoubt { workspace: self.workspace.clone(), run, step: record.clone() };
        let mut notes_left = MAX_JOURNAL_ENTRIES_SCANNED;
        self.shown(doubt, log.head.generation, &mut notes_left).await.map(Some)
    }

    /// Returns whether the doubt still needs a ruling. Reads only the promises of its last rounds, however
    /// long the run's log is.
    async fn is_open(&self, doubt: &StoredDoubt, generation: Generation) -> Result<bool, Error> {
        let about = DoubtedAttempt::new(doubt.run, generation, &doubt.step.id, doubt.step.attempts);
        let find = async |round: u64| {
            let id = about.round(round);
            self.inner.call_store(self.inner.store.find_promise(&doubt.workspace, &id)).await
        };
        // Rounds are numbered without gaps, so doubling and then halving the stride finds the last one.
        let (mut last, mut beyond) = (None, 1);
        let mut known = 0;
        while let Some(promise) = find(beyond).await? {
            (known, last) = (beyond, Some(promise));
            beyond *= 2;
        }
        while known + 1 < beyond {
            let middle = known + (beyond - known) / 2;
            match find(middle).await? {
                Some(promise) => (known, last) = (middle, Some(promise)),
                None => beyond = middle,
            }
        }
        Ok(last.is_some_and(|promise| promise.state == PromiseState::Pending))
    }

    async fn shown(
        &self,
        doubt: StoredDoubt,
        generation: Generation,
        notes_left: &mut usize,
    ) -> Result<Doubt, Error> {
        let StoredDoubt { workspace, run, step } = doubt;
        let owner = self.find_claimant(run, generation, &step, notes_left).await?;
        let (since, failure) = since(&step);
        Ok(Doubt {
            workspace,
            run,
            key: EffectKey::new(run, generation, &step.id),
            attempts: step.attempts,
            owner,
            since,
            failure,
            version: step.changed_version,
            step: step.id,
        })
    }

    /// Returns the engine that claimed the attempt, if the journal shows it within `notes_left` entries.
    /// Subtracts the entries that were read.
    async fn find_claimant(
        &self,
        run: RunId,
        generation: Generation,
        step: &StepRecord,
        notes_left: &mut usize,
    ) -> Result<Option<String>, Error> {
        let is_its_claim = |note: &JournalEntry| {
            note.generation == generation
                && note.step.as_ref() == Some(&step.id)
                && matches!(note.what, JournalEvent::Claimed { attempt } if attempt == step.attempts)
        };
        let mut after = 0;
        while *notes_left > 0 {
            let limit = crate::limits::MAX_PAGE.min(*notes_left);
            let workspace = self.workspace.clone();
            let request = ListJournal { workspace, run: Some(run), by_people: false, after, limit };
            let page = self.inner.call_store(self.inner.store.list_journal(request)).await?;
            *notes_left -= page.len();
            if let Some(claim) = page.iter().find(|placed| is_its_claim(&placed.note)) {
                return Ok(claim.note.owner.map(|owner| owner.to_string()));
            }
            match page.last() {
                Some(last) if page.len() == limit => after = last.place,
                _ => break,
            }
        }
        Ok(None)
    }

    /// Resolves an effect in doubt with a person's ruling and records it in the audit log.
    ///
    /// The ruling counts once, for the doubt as the person saw it.
    pub async fn resolve_doubt(&self, doubt: &DoubtRef, ruling: Ruling) -> Result<(), Error> {
        self.resolve_doubt_once(doubt, ruling, &fresh_request()).await
    }

    /// Like [`Engine::resolve_doubt`], for a request that may be repeated after a crash. The repeated request
    /// finds its own ruling and succeeds.
    pub async fn resolve_doubt_once(
        &self,
        doubt: &DoubtRef,
        ruling: Ruling,
        request: &str,
    ) -> Result<(), Error> {
        check_ruling(&ruling)?;
        if self.inner.options.four_eyes {
            check_two_people(&ruling)?;
        }
        let key = Some(IdempotencyKey::new(request)?);
        let (run, step) = (doubt.run, doubt.step.clone());
        let gone = || Error::NoSuchDoubt { run, step: step.clone() };
        let log = self.get_log(run).await?;
        let record = log.steps.iter().find(|record| record.id == step).ok_or_else(gone)?;
        let is_in_doubt = matches!(record.state, StepState::InDoubt { .. });
        if !is_in_doubt || record.changed_version != doubt.seen {
            return match self.find_ruling(run, &step, request).await? {
                Some((_, true)) => Ok(()),
                Some((decided, false)) if !is_in_doubt => {
                    Err(Error::DoubtResolved { run, step, decided: Some(Box::new(decided)) })
                }
                Some((_, false)) | None => Err(gone()),
            };
        }
        let Some(promise) = open_promise(&log, record) else {
            return self.ruled_before(run, &step, request).await;
        };
        if !can_be_carried_out(&ruling.resolution, log.head.status(), &since(record).1) {
            return Err(Error::RulingNotPossible { run, step: step.clone() });
        }
        let what = JournalEvent::Resolved {
            resolution: ruling.resolution.clone(),
            seconded_by: ruling.seconded_by.clone(),
            reason: ruling.reason.clone(),
            request: Some(request.into()),
        };
        let at = self.inner.store.now();
        let evidence = Evidence::from_ruling(&ruling.resolution, run, log.head.generation, record);
        let note = JournalEntry {
            evidence,
            ..JournalEntry::on_run(&log.head, Some(step.clone()), ruling.by.clone(), at, what)
        };
        // Another person may give an equal ruling, so only the request id identifies this one.
        let rule = SettleRule::SameKey { key, strict: true };
        let wish = SettleRequest { rule, ..SettleRequest::new(Settlement::Resolved(Payload::of(&ruling)?)) };
        match self.settle_promise(PromiseRef::Id(promise), wish, None, Some(note)).await? {
            SettleOutcome::Settled { .. } | SettleOutcome::AlreadySettled { same: true, .. } => Ok(()),
            SettleOutcome::AlreadySettled { same: false, .. } | SettleOutcome::TimedOut { .. } => {
                self.ruled_before(run, &step, request).await
            }
            SettleOutcome::NoSuchPromise
            | SettleOutcome::KeptEarly { .. }
            | SettleOutcome::AlreadyKept { .. } => Err(gone()),
        }
    }

    /// Do all irreversible rulings take two people?
    pub fn takes_two_people(&self) -> bool {
        self.inner.options.four_eyes
    }

    /// Proposes a ruling, which a second person may confirm. It settles nothing. `request` names the proposal; repeated, it finds
    /// its own.
    pub async fn propose_ruling(
        &self,
        doubt: &DoubtRef,
        ruling: Ruling,
        request: &str,
    ) -> Result<ProposedRuling, Error> {
        check_actor_and_reason(&ruling.by, &ruling.reason)?;
        let (run, step) = (doubt.run, doubt.step.clone());
        if let Some(own) = self.find_proposal(run, &step, request).await? {
            return Ok(own);
        }
        let gone = || Error::NoSuchDoubt { run, step: step.clone() };
        let log = self.get_log(run).await?;
        let record = log.steps.iter().find(|record| record.id == step).ok_or_else(gone)?;
        let is_in_doubt = matches!(record.state, StepState::InDoubt { .. });
        if !is_in_doubt || record.changed_version != doubt.seen || open_promise(&log, record).is_none() {
            return Err(gone());
        }
        if !can_be_carried_out(&ruling.resolution, log.head.status(), &since(record).1) {
            return Err(Error::RulingNotPossible { run, step: step.clone() });
        }
        let Ruling { resolution, by, reason, .. } = ruling;
        let (seen, at) = (doubt.seen.get(), self.inner.store.now());
        let what = JournalEvent::RulingProposed { resolution, reason, seen, request: request.into() };
        let entry = JournalEntry::on_run(&log.head, Some(step.clone()), by, at, what);
        self.inner.call_store(self.inner.store.append_journal(vec![entry.clone()])).await?;
        ProposedRuling::in_entry(&entry, run, &step).ok_or_else(gone)
    }

    /// Confirms a proposal as a second person, and so resolves the doubt.
    pub async fn confirm_ruling(
        &self,
        doubt: &DoubtRef,
        proposal: &str,
        by: Actor,
        reason: &str,
        request: &str,
    ) -> Result<Ruling, Error> {
        let found = self.find_proposal(doubt.run, &doubt.step, proposal).await?;
        let found = found.ok_or(RulingError::NoSuchProposal)?;
        let ruling = decide_confirmation(&found, doubt.seen.get(), by, reason)?;
        self.resolve_doubt_once(doubt, ruling.clone(), request).await?;
        Ok(ruling)
    }

    async fn find_proposal(
        &self,
        run: RunId,
        step: &StepId,
        request: &str,
    ) -> Result<Option<ProposedRuling>, Error> {
        self.get(run).await?;
        let notes = self.list_run_journal(run).await?;
        let mut proposals =
            notes.iter().filter_map(|placed| ProposedRuling::in_entry(&placed.note, run, step));
        Ok(proposals.find(|proposal| proposal.id == request))
    }

    /// Result of a ruling on a resolved doubt: success if `request` made the earlier ruling, otherwise an
    /// error.
    async fn ruled_before(&self, run: RunId, step: &StepId, request: &str) -> Result<(), Error> {
        let decided = match self.find_ruling(run, step, request).await? {
            Some((_, true)) => return Ok(()),
            Some((decided, false)) => Some(Box::new(decided)),
            None => None,
        };
        Err(Error::DoubtResolved { run, step: step.clone(), decided })
    }

    /// Finds the ruling of `request` on a step, or else the last ruling, and whether it belongs to `request`.
    async fn find_ruling(
        &self,
        run: RunId,
        step: &StepId,
        request: &str,
    ) -> Result<Option<(RecordedDecision, bool)>, Error> {
        let notes = self.list_run_journal(run).await?;
        let on_step = notes.iter().rev().filter(|placed| placed.note.step.as_ref() == Some(step));
        let rulings: Vec<_> = on_step.filter_map(|StoredJournalEntry { note, .. }| ruling_in(note)).collect();
        let own = rulings.iter().find(|(_, by_request)| *by_request == Some(request));
        let found = own.or(rulings.first());
        Ok(found.map(|(decided, by_request)| (decided.clone(), *by_request == Some(request))))
    }

    /// Finds the entry of the audit log at exactly this position.
    pub async fn find_audit_entry(&self, at: AuditCursor) -> Result<Option<StoredJournalEntry>, Error> {
        let Some(place) = at.place.checked_sub(1) else { return Ok(None) };
        let after = AuditCursor { place, ..at };
        let found = self.search_audit(AuditFilter::default(), Some(after), 1).await?;
        Ok(found.into_iter().find(|found| found.place == at.place && found.note.at == at.at))
    }

    /// Lists audit log entries after position `after`, oldest first.
    pub async fn list_audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, Error> {
        let workspace = self.workspace.clone();
        let request = ListJournal { workspace, run: None, by_people: true, after, limit };
        let notes = self.inner.call_store(self.inner.store.list_journal(request)).await?;
        Ok(notes.into_iter().filter_map(AuditEntry::of).collect())
    }

    /// Lists one page of audit log entries that match the filter, oldest first.
    pub async fn search_audit(
        &self,
        filter: AuditFilter,
        after: Option<AuditCursor>,
        limit: usize,
    ) -> Result<Vec<StoredJournalEntry>, Error> {
        let request = ListAudit { workspace: self.workspace.clone(), filter, after, limit };
        Ok(self.inner.call_store(self.inner.store.list_audit(request)).await?)
    }

    /// Lists every journal entry of a run.
    pub(super) async fn list_run_journal(&self, run: RunId) -> Result<Vec<StoredJournalEntry>, Error> {
        let mut all: Vec<StoredJournalEntry> = Vec::new();
        loop {
            let after = all.last().map_or(0, |last| last.place);
            let limit = crate::limits::MAX_PAGE;
            let request = ListJournal {
                workspace: self.workspace.clone(),
                run: Some(run),
                by_people: false,
                after,
                limit,
            };
            let page = self.inner.call_store(self.inner.store.list_journal(request)).await?;
            let is_last = page.len() < limit;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }
}

fn since(step: &StepRecord) -> (Timestamp, Failure) {
    match &step.state {
        StepState::InDoubt { since, failure } => (*since, failure.clone()),
        _ => (step.started_at, Failure::unknown("it is not in doubt")),
    }
}

/// Returns the promise that settles the doubt, if it is still pending.
pub(super) fn open_promise(log: &RunLog, step: &StepRecord) -> Option<PromiseId> {
    let about = DoubtedAttempt::new(log.head.id(), log.head.generation, &step.id, step.attempts);
    let last = about.last_of(&log.promises)?;
    (last.state == PromiseState::Pending).then(|| last.id.clone())
}

/// Generates an id for one request.
pub fn fresh_request() -> String {
    format!("{:016x}", WriteToken::fresh().get())
}

/// Returns the ruling in a journal entry, and the id of the request that made it.
fn ruling_in(note: &JournalEntry) -> Option<(RecordedDecision, Option<&str>)> {
    decided_in(&note.what, note.by.as_ref(), note.at)
}

/// Returns the decision that `what` records, and the id of the request that made it.
pub(super) fn decided_in<'a>(
    what: &'a JournalEvent,
    by: Option<&Actor>,
    at: Timestamp,
) -> Option<(RecordedDecision, Option<&'a str>)> {
    let (decision, request) = match what {
        JournalEvent::Resolved { resolution, request, .. } => (resolution.as_str().to_owned(), request),
        JournalEvent::Answered { decision, request, .. } => (decision.clone(), request),
        _ => return None,
    };
    Some((RecordedDecision { by: by?.clone(), decision, at }, request.as_deref()))
}
