//! Effects in doubt, for people: what they are, and what was decided.

use serde::Serialize;

use super::{Engine, Error};
use crate::limits::MAX_NOTES_LOOKED_AT;
use crate::model::{
    Actor, Decided, DoubtRef, DoubtedAttempt, EffectKey, Evidence, Failure, Generation, IdempotencyKey,
    JournalEntry, JournalEvent, Payload, PromiseId, PromiseRef, PromiseState, Ruling, RunId, SettleRule,
    Settlement, StepId, StepRecord, StepState, Timestamp, Version, Wish, WorkspaceId, WriteToken,
    can_be_carried_out, check_ruling,
};
use crate::store::{
    AuditFilter, AuditPlace, DoubtPlace, ListAudit, ListDoubts, ListJournal, PlacedEntry, RunLog,
    SettleOutcome, StoredDoubt,
};

/// An effect of which nobody knows whether it happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Doubt {
    /// The workspace of its run.
    pub workspace: WorkspaceId,
    /// Its run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
    /// What the provider knows it by.
    pub key: EffectKey,
    /// Attempts begun.
    pub attempts: u32,
    /// The engine that began the last one.
    pub owner: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub failure: Failure,
    /// The version at which it came into doubt; a ruling names it.
    pub version: Version,
}

impl Doubt {
    /// What a ruling refers to.
    pub fn as_seen(&self) -> DoubtRef {
        DoubtRef { run: self.run, step: self.step.clone(), seen: self.version }
    }
}

/// One page of doubts, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct DoubtPage {
    /// The doubts.
    pub doubts: Vec<Doubt>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<DoubtPlace>,
}

/// One entry of the audit log, as it is printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditEntry {
    /// Its place in the journal.
    pub place: u64,
    /// When.
    pub at: String,
    /// Who.
    pub by: crate::model::Actor,
    /// On which run, if on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// On which step, if on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What.
    #[serde(flatten)]
    pub what: JournalEvent,
}

impl AuditEntry {
    /// The entry of a note, if a person made it.
    pub fn of(placed: PlacedEntry) -> Option<Self> {
        let PlacedEntry { place, note: JournalEntry { run, step, at, by, what, .. } } = placed;
        let step = step.map(|step| step.to_string());
        let run = (run != RunId::NONE).then(|| run.to_string());
        by.map(|by| AuditEntry { place, at: at.to_string(), by, run, step, what })
    }
}

impl Engine {
    /// Effects in doubt that nobody has ruled on, the oldest first.
    pub async fn list_doubts(&self, after: Option<DoubtPlace>, limit: usize) -> Result<DoubtPage, Error> {
        let limit = limit.clamp(1, crate::limits::MAX_PAGE);
        let request = ListDoubts { workspace: Some(self.workspace.clone()), after, limit };
        let stored = self.inner.answer(self.inner.store.list_doubts(request)).await?;
        let last = stored.last().filter(|_| stored.len() == limit);
        let next = last.map(|last| DoubtPlace {
            since: since(&last.step).0,
            run: last.run,
            step: last.step.id.clone(),
        });
        let mut doubts = Vec::new();
        let mut notes_left = MAX_NOTES_LOOKED_AT;
        for doubt in stored {
            let run = self.inner.answer(self.inner.store.find_run(&doubt.workspace, doubt.run)).await?;
            if let Some(run) = run
                && self.is_open(&doubt, run.head.generation).await?
            {
                doubts.push(self.shown(doubt, run.head.generation, &mut notes_left).await?);
            }
        }
        Ok(DoubtPage { doubts, next })
    }

    /// Has nobody ruled on it? Only the promises of its last rounds are read, however long the log of the run is.
    async fn is_open(&self, doubt: &StoredDoubt, generation: Generation) -> Result<bool, Error> {
        let about = DoubtedAttempt::new(doubt.run, generation, &doubt.step.id, doubt.step.attempts);
        let find = async |round: u64| {
            let id = about.round(round);
            self.inner.answer(self.inner.store.find_promise(&doubt.workspace, &id)).await
        };
        // Rounds are numbered without gaps: one beyond the last is looked for in strides that double, then halve.
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

    /// The engine that claimed the attempt, if the journal tells within `notes_left` entries; those that were read are taken off.
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
            let page = self.inner.answer(self.inner.store.list_journal(request)).await?;
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

    /// Decides what is to become of an effect in doubt. It counts once, for the doubt as it was seen, and is in the audit log.
    pub async fn resolve_doubt(&self, doubt: &DoubtRef, ruling: Ruling) -> Result<(), Error> {
        self.resolve_doubt_once(doubt, ruling, &fresh_request()).await
    }

    /// The same for a request that may be sent again after a crash: the second time it finds its own ruling, and is told that it counts.
    pub async fn resolve_doubt_once(
        &self,
        doubt: &DoubtRef,
        ruling: Ruling,
        request: &str,
    ) -> Result<(), Error> {
        check_ruling(&ruling)?;
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
            return Err(Error::NobodyActs { run, step: step.clone() });
        }
        let what = JournalEvent::Resolved {
            resolution: ruling.resolution.clone(),
            seconded_by: ruling.seconded_by.clone(),
            reason: ruling.reason.clone(),
            request: Some(request.into()),
        };
        let at = self.inner.store.now();
        let note = JournalEntry {
            workspace: self.workspace.clone(),
            ..JournalEntry::on_run(&log.head, Some(step.clone()), ruling.by.clone(), at, what)
        };
        let evidence = Evidence::of_ruling(&ruling.resolution, run, log.head.generation, record);
        let note = JournalEntry { evidence, ..note };
        // An equal ruling of somebody else is not this one: only the request tells them apart.
        let rule = SettleRule::SameKey { key, strict: true };
        let wish = Wish { rule, ..Wish::new(Settlement::Resolved(Payload::of(&ruling)?)) };
        match self.settle_promise(PromiseRef::Id(promise), wish, None, Some(note)).await? {
            SettleOutcome::Settled { .. } | SettleOutcome::AlreadySettled { same: true, .. } => Ok(()),
            SettleOutcome::AlreadySettled { same: false, .. } | SettleOutcome::TimedOut { .. } => {
                self.ruled_before(run, &step, request).await
            }
            SettleOutcome::NoSuchPromise | SettleOutcome::Kept { .. } | SettleOutcome::AlreadyKept { .. } => {
                Err(gone())
            }
        }
    }

    /// What is said to a ruling on a doubt that is over.
    async fn ruled_before(&self, run: RunId, step: &StepId, request: &str) -> Result<(), Error> {
        let decided = match self.find_ruling(run, step, request).await? {
            Some((_, true)) => return Ok(()),
            Some((decided, false)) => Some(Box::new(decided)),
            None => None,
        };
        Err(Error::DoubtResolved { run, step: step.clone(), decided })
    }

    /// The ruling of `request` on a step, or else the last one, and whether it is that of `request`.
    async fn find_ruling(
        &self,
        run: RunId,
        step: &StepId,
        request: &str,
    ) -> Result<Option<(Decided, bool)>, Error> {
        let notes = self.notes_of(run).await?;
        let on_step = notes.iter().rev().filter(|placed| placed.note.step.as_ref() == Some(step));
        let rulings: Vec<_> = on_step.filter_map(|PlacedEntry { note, .. }| ruling_in(note)).collect();
        let own = rulings.iter().find(|(_, by_request)| *by_request == Some(request));
        let found = own.or(rulings.first());
        Ok(found.map(|(decided, by_request)| (decided.clone(), *by_request == Some(request))))
    }

    /// What people did, oldest first, after `after`.
    pub async fn list_audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, Error> {
        let workspace = self.workspace.clone();
        let request = ListJournal { workspace, run: None, by_people: true, after, limit };
        let notes = self.inner.answer(self.inner.store.list_journal(request)).await?;
        Ok(notes.into_iter().filter_map(AuditEntry::of).collect())
    }

    /// One page of the audit log: entries that fit, oldest first.
    pub async fn search_audit(
        &self,
        filter: AuditFilter,
        after: Option<AuditPlace>,
        limit: usize,
    ) -> Result<Vec<PlacedEntry>, Error> {
        let request = ListAudit { workspace: self.workspace.clone(), filter, after, limit };
        Ok(self.inner.answer(self.inner.store.list_audit(request)).await?)
    }

    /// Everything the journal has on a run.
    pub(super) async fn notes_of(&self, run: RunId) -> Result<Vec<PlacedEntry>, Error> {
        let mut all: Vec<PlacedEntry> = Vec::new();
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
            let page = self.inner.answer(self.inner.store.list_journal(request)).await?;
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

/// The promise by which the doubt is settled, unless it is.
pub(super) fn open_promise(log: &RunLog, step: &StepRecord) -> Option<PromiseId> {
    let about = DoubtedAttempt::new(log.head.id(), log.head.generation, &step.id, step.attempts);
    let last = about.last_of(&log.promises)?;
    (last.state == PromiseState::Pending).then(|| last.id.clone())
}

/// Identifies one request among all.
pub(super) fn fresh_request() -> String {
    format!("{:016x}", WriteToken::fresh().get())
}

/// The ruling that an entry tells of, and the request that brought it.
fn ruling_in(note: &JournalEntry) -> Option<(Decided, Option<&str>)> {
    decided_in(&note.what, note.by.as_ref(), note.at)
}

/// What a person decided by `what`, and the request that brought it.
pub(super) fn decided_in<'a>(
    what: &'a JournalEvent,
    by: Option<&Actor>,
    at: Timestamp,
) -> Option<(Decided, Option<&'a str>)> {
    let (decision, request) = match what {
        JournalEvent::Resolved { resolution, request, .. } => (resolution.as_str().to_owned(), request),
        JournalEvent::Answered { decision, request, .. } => (decision.clone(), request),
        _ => return None,
    };
    Some((Decided { by: by?.clone(), decision, at }, request.as_deref()))
}
