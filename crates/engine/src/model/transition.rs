//! How operations begin and end: the claim before the action, and the guarded write after it.

use std::time::Duration;

use super::{
    Actor, ClaimTo, EffectKey, Entity, EntityNote, EntityRef, Fingerprint, Home, IdempotencyKey, Invalid,
    Irreversible, JournalEntry, JournalEvent, Name, Operation, OperationEnd, OperationId, OperationState,
    OutboxMessage, OwnerId, Payload, Recovery, RetryAnswer, RunId, Timestamp, Version, WorkspaceId,
    merge_data,
};

/// A transition that somebody asks for, with all that the configured step says about it.
#[derive(Debug, Clone)]
pub struct BeginOperation {
    /// The id it gets if it is new.
    pub id: OperationId,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What is to be moved.
    pub entity: EntityRef,
    /// Where that lives.
    pub home: Home,
    /// The entity workflow.
    pub workflow: Name,
    /// The module whose janitor looks after it.
    pub module: Name,
    /// The step.
    pub step: Name,
    /// As whom it is asked for.
    pub requester: Option<Name>,
    /// Who asks.
    pub by: Option<Actor>,
    /// The key it is asked for under.
    pub key: Option<IdempotencyKey>,
    /// What sameness means under the key.
    pub fingerprint: Fingerprint,
    /// What the action is given.
    pub input: Payload,
    /// The statuses where the step applies.
    pub from: Vec<Name>,
    /// The status after it.
    pub to: Name,
    /// How it is claimed, if it is.
    pub claim: Option<ClaimTo>,
    /// Every transient status of the workflow: an entity in one of them is claimed, whoever did it.
    pub transient: Vec<Name>,
    /// What becomes of it if its holder vanishes.
    pub recovery: Recovery,
    /// What a caller is told who asks again after it was done.
    pub retry: RetryAnswer,
    /// May it be done again once it is done, or may be?
    pub irreversible: Irreversible,
    /// Does its action reach outside the transaction that records its end? Not if it has none, shares the transaction, or is a run, which has effects of its own.
    pub has_effect: bool,
    /// A manager's word that it is to be done although it may have happened.
    pub overridden: Option<Override>,
    /// The document that the request follows. `None` if the workflow is code.
    pub document: Option<DocumentRef>,
    /// How long after its holder was last heard of its action may still take effect. No janitor touches it before.
    pub grace: Duration,
    /// The version of the entity that was looked at and found fit.
    pub seen: Version,
    /// The run that will carry it out, if a run does.
    pub run: Option<RunId>,
    /// The engine that asks.
    pub owner: OwnerId,
}

/// A manager's word that an irreversible step is to be done although it may have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Who.
    pub by: Actor,
    /// Why.
    pub reason: String,
}

/// One version of an entity workflow in the catalog ([`super::CatalogKind::EntityWorkflow`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRef {
    /// Id of the item.
    pub item: Name,
    /// Version of the item.
    pub version: Version,
}

/// What a store knows that bears on whether an operation may begin.
#[derive(Debug, Clone, Default)]
pub struct BeginFacts {
    /// The operation under the same key; without a key, the one with the same id.
    pub known: Option<Operation>,
    /// The entity.
    pub entity: Option<Entity>,
    /// The operation that holds the entity ([`Operation::holds_entity`]).
    pub holder: Option<Operation>,
    /// The newest operation of the same step on the entity ([`Operation::seniority`]). Only needed if [`BeginOperation::asks_for_last`].
    pub last: Option<Operation>,
    /// Version of the document now. It must not change before the operation is committed. Only needed if the request names a document.
    pub document: Option<Version>,
    /// Highest number of a try in the journal under the effect key of [`BeginFacts::continued_effect`]. Only needed if there is one.
    pub last_try: u32,
}

impl BeginFacts {
    /// The effect that a new operation goes on with, once the other facts are known. The stores look up [`BeginFacts::last_try`] for it.
    pub fn continued_effect(&self, request: &BeginOperation) -> Option<EffectKey> {
        let before =
            self.known.as_ref().filter(|known| matches!(known.state, OperationState::Reverted { .. }));
        let continued = request.continued(before, self.last.as_ref())?;
        Some(EffectKey::of_operation(continued.effect_of, request.step.as_str()))
    }
}

/// What a request to begin came to.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum OperationBegun {
    /// The operation is begun, and its action is the caller's to run.
    Begun {
        /// The operation.
        operation: Box<Operation>,
        /// The entity, as the claim left it.
        entity: Entity,
        /// What is to be noted about it. Only of interest to stores.
        notes: Vec<EntityNote>,
        /// What it proves of tries under its effect key, for the journal. Only of interest to stores.
        evidence: Vec<JournalEntry>,
    },
    /// It was asked for before: this is what is recorded of it, which may be that it is under way.
    Recorded(Box<Operation>),
    /// The key stands for something else.
    KeyConflict(Box<Operation>),
    /// Another operation is in progress; `None` if somebody claimed the entity in a table of the user's by themselves.
    ClaimFailed(Option<Box<Operation>>),
    /// The step does not apply in this status.
    NotAllowed(Entity),
    /// It is irreversible and may have happened, by this operation: only a manager may have it done.
    OverrideRequired(Box<Operation>),
    /// The document was replaced: begin again under this version of it. `None` if there is no document any more.
    DocumentChanged(Option<Version>),
    /// The entity is no longer as it was when it was looked at: look again.
    Stale(Entity),
    /// There is no such entity.
    NoSuchEntity,
}

impl BeginOperation {
    /// Must a store look for the newest operation of the same step before it decides?
    pub fn asks_for_last(&self, entity: &Entity) -> bool {
        self.may_ask_for_last()
            && (self.has_effect
                || self.irreversible == Irreversible::Once
                || !self.from.contains(&entity.status))
    }

    /// May it, whatever status the entity has?
    pub fn may_ask_for_last(&self) -> bool {
        self.has_effect || self.irreversible == Irreversible::Once || self.retry == RetryAnswer::Returns
    }

    /// Does `last` bar it, so that only a manager may have it done?
    fn is_barred_by(&self, last: &Operation) -> bool {
        self.irreversible == Irreversible::Once && last.needs_override()
    }

    /// Does it make a new effect, on a manager's word, although that of `last` may have happened?
    fn overrides(&self, last: &Operation) -> bool {
        self.overridden.is_some() && (self.is_barred_by(last) || last.leaves_doubt())
    }

    /// The operation whose effect it goes on with: `before`, which it tries again, or the `last` one of the step.
    fn continued<'a>(
        &self,
        before: Option<&'a Operation>,
        last: Option<&'a Operation>,
    ) -> Option<&'a Operation> {
        let goes_on = |last: &&Operation| {
            self.has_effect
                && !self.overrides(last)
                && last.is_continued_by(self.claim.is_some(), &self.fingerprint)
        };
        // An operation that is tried again keeps its own key.
        before.or_else(|| last.filter(goes_on))
    }
}

/// Decides whether an operation begins. A store writes the operation, the entity, the notes and the evidence of `Begun`, and nothing else.
pub fn decide_begin_operation(request: &BeginOperation, facts: BeginFacts, now: Timestamp) -> OperationBegun {
    let BeginFacts { known, entity, holder, last, document, last_try } = facts;
    let mut before = None;
    if let Some(known) = known {
        if known.fingerprint != request.fingerprint {
            return OperationBegun::KeyConflict(Box::new(known));
        }
        match known.state {
            // The caller's own, whose acknowledgement was lost.
            OperationState::Pending { .. } if known.id == request.id && known.owner == request.owner => {
                return match entity {
                    Some(entity) => {
                        let (notes, evidence) = (Vec::new(), Vec::new());
                        OperationBegun::Begun { operation: Box::new(known), entity, notes, evidence }
                    }
                    None => OperationBegun::NoSuchEntity,
                };
            }
            // There is no result to return: it goes on as another attempt of the same operation.
            OperationState::Reverted { .. } => before = Some(known),
            OperationState::Pending { .. }
            | OperationState::Done { .. }
            | OperationState::Rejected { .. }
            | OperationState::Failed { .. }
            | OperationState::InDoubt { .. } => return OperationBegun::Recorded(Box::new(known)),
        }
    }
    if request.document.as_ref().is_some_and(|seen| document != Some(seen.version)) {
        return OperationBegun::DocumentChanged(document);
    }
    let Some(mut entity) = entity else { return OperationBegun::NoSuchEntity };
    if holder.is_some() {
        return OperationBegun::ClaimFailed(holder.map(Box::new));
    }
    if entity.version != request.seen {
        return OperationBegun::Stale(entity);
    }
    if !request.from.contains(&entity.status) {
        return match last {
            _ if request.transient.contains(&entity.status) => OperationBegun::ClaimFailed(None),
            Some(last)
                if request.retry == RetryAnswer::Returns
                    && matches!(last.state, OperationState::Done { .. }) =>
            {
                OperationBegun::Recorded(Box::new(last))
            }
            _ => OperationBegun::NotAllowed(entity),
        };
    }
    let mut notes = Vec::new();
    let id = before.as_ref().map_or(request.id, |before| before.id);
    let attempt = before.as_ref().map_or(1, |before| before.attempt + 1);
    let mut note = |by, what| {
        let (workspace, entity) = (request.workspace.clone(), request.entity.clone());
        notes.push(EntityNote { workspace, entity, operation: Some(id), at: now, by, what, evidence: None });
    };
    match (&request.overridden, &last) {
        (None, Some(last)) if request.is_barred_by(last) => {
            return OperationBegun::OverrideRequired(Box::new(last.clone()));
        }
        (Some(word), Some(last)) if request.overrides(last) => {
            let operation = Some(last.id.to_string());
            note(Some(word.by.clone()), JournalEvent::Overridden { operation, reason: word.reason.clone() });
        }
        (Some(word), _) => {
            let what = JournalEvent::Overridden { operation: None, reason: word.reason.clone() };
            note(Some(word.by.clone()), what);
        }
        (None, _) => {
            if let Some(by) = &request.by {
                let key = request.key.as_ref().map(ToString::to_string);
                note(Some(by.clone()), JournalEvent::Stepped { step: request.step.to_string(), key });
            }
        }
    }
    let continued = request.continued(before.as_ref(), last.as_ref());
    let effect_of = continued.map_or(id, |continued| continued.effect_of);
    let may_repeat = continued.is_some_and(Operation::leaves_doubt);
    // Other operations may have gone on with the effect since: the journal knows all of their tries.
    let tries_before =
        continued.map_or(0, |continued| last_try.max(continued.tries_before + continued.tries));
    let done_before = last.as_ref().is_some_and(Operation::is_done)
        || before.as_ref().is_some_and(|before| before.done_before);
    if before.is_some() {
        note(None, JournalEvent::TriedAgain { attempt });
    }
    let from = entity.status.clone();
    if let Some(claim) = &request.claim {
        entity =
            Entity { status: claim.into.clone(), version: entity.version.next(), updated_at: now, ..entity };
    }
    let operation = Operation {
        id,
        workspace: request.workspace.clone(),
        entity: request.entity.clone(),
        home: request.home.clone(),
        workflow: request.workflow.clone(),
        module: request.module.clone(),
        step: request.step.clone(),
        requester: request.requester.clone(),
        by: request.by.clone(),
        key: request.key.clone(),
        fingerprint: request.fingerprint,
        input: request.input.clone(),
        from,
        to: request.to.clone(),
        claim: request.claim.clone(),
        recovery: request.recovery,
        irreversible: request.irreversible.is_irreversible(),
        document: request.document.as_ref().map(|document| document.version),
        effect_of,
        may_repeat,
        done_before,
        grace: request.grace,
        tries: u32::from(request.has_effect),
        tries_before,
        run: request.run.map(|_| id.as_run()),
        version: entity.version,
        attempt,
        owner: request.owner,
        began_at: before.map_or(now, |before| before.began_at),
        state: OperationState::Pending { heard_at: now },
    };
    let evidence = operation.proofs_of_begin(now);
    OperationBegun::Begun { operation: Box::new(operation), entity, notes, evidence }
}

/// What becomes of an operation.
#[derive(Debug, Clone)]
pub struct FinishOperation {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Which operation.
    pub operation: OperationId,
    /// Which attempt of it.
    pub attempt: u32,
    /// By what right.
    pub by: FinishBy,
    /// What becomes of it.
    pub end: OperationEnd,
    /// How often the action was entered in this attempt. `None` if whoever writes does not know.
    pub tries: Option<u32>,
    /// After-effects of it.
    pub posts: Vec<OutboxMessage>,
    /// What is noted about it.
    pub notes: Vec<EntityNote>,
}

/// By what right an operation is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishBy {
    /// Its holder ran the action.
    Holder(OwnerId),
    /// Its holder has not been heard of since before this instant.
    Janitor {
        /// The instant.
        unheard_since: Timestamp,
    },
    /// A run carried it out and has ended; whoever sees it may say so.
    Run,
    /// Its holder learnt that the action happened after the operation had been put in doubt.
    LateResult,
    /// A probe found out what became of a doubt.
    Probe,
    /// People decided on a doubt.
    People,
}

/// What a request to finish came to.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Finished {
    /// It is written.
    Finished {
        /// The operation.
        operation: Box<Operation>,
        /// The entity as it is now; `None` if it was not touched.
        entity: Option<Entity>,
        /// What it proves of tries under its effect key, for the journal. Only of interest to stores.
        evidence: Vec<JournalEntry>,
    },
    /// It stands, since an earlier sending of the same request.
    Again(Box<Operation>),
    /// The operation is no longer the caller's to finish; nothing is written. `None` if there is none.
    Lost(Option<Box<Operation>>),
    /// The entity is no longer as the operation left it, so the new status cannot be written; nothing is.
    Stale(Option<Entity>),
}

/// What a store knows that bears on what becomes of an operation.
#[derive(Debug, Clone, Default)]
pub struct FinishFacts {
    /// The operation.
    pub operation: Option<Operation>,
    /// The entity.
    pub entity: Option<Entity>,
    /// Highest number of a try in the journal under the operation's effect key. Only needed if [`FinishOperation::asks_for_last_try`].
    pub last_try: u32,
}

impl FinishOperation {
    /// Must a store look for the last try under the effect key before it decides?
    pub fn asks_for_last_try(&self) -> bool {
        matches!(self.end, OperationEnd::TryAgain)
    }
}

/// Decides what becomes of an operation. A store writes what `Finished` says, evidence included, with the posts and notes, or nothing.
pub fn decide_finish_operation(
    request: &FinishOperation,
    facts: FinishFacts,
    now: Timestamp,
) -> Result<Finished, Invalid> {
    let FinishFacts { operation, entity, last_try } = facts;
    let Some(mut operation) = operation else { return Ok(Finished::Lost(None)) };
    if operation.attempt != request.attempt || !may_finish(request.by, &request.end, &operation) {
        let again = operation.attempt == request.attempt
            && is_end(&request.end, &operation.state, operation.owner, request.by);
        return Ok(match again {
            true => Finished::Again(Box::new(operation)),
            false => Finished::Lost(Some(Box::new(operation))),
        });
    }
    // As the operation left it: in its transient status, or, if it has none, not changed at all.
    let is_held = |entity: &Entity| match &operation.claim {
        Some(claim) => entity.status == claim.into,
        None => entity.status == operation.from && entity.version == operation.version,
    };
    let held = entity.as_ref().is_some_and(is_held);
    let (status, data) = match &request.end {
        OperationEnd::Done { .. } if !held => return Ok(Finished::Stale(entity)),
        OperationEnd::Done { data, .. } => (Some(operation.to.clone()), data.as_ref()),
        OperationEnd::Rejected(_)
        | OperationEnd::Failed(_)
        | OperationEnd::Reverted
        | OperationEnd::DidNotHappen => {
            (operation.claim.as_ref().filter(|_| held).map(|claim| claim.revert_to.clone()), None)
        }
        OperationEnd::InDoubt | OperationEnd::TryAgain => (None, None),
    };
    let entity = match (status, entity) {
        (Some(status), Some(entity)) => {
            let data = match data {
                Some(patch) => merge_data(&entity.data, patch)?,
                None => entity.data.clone(),
            };
            Some(Entity { status, data, version: entity.version.next(), updated_at: now, ..entity })
        }
        _ => None,
    };
    let before = operation.clone();
    operation.state = match request.end.clone() {
        OperationEnd::Done { result, .. } => OperationState::Done { at: now, result },
        OperationEnd::Rejected(failure) => OperationState::Rejected { at: now, failure },
        OperationEnd::Failed(failure) => OperationState::Failed { at: now, failure },
        OperationEnd::Reverted => OperationState::Reverted { at: now, settled: false },
        OperationEnd::DidNotHappen => OperationState::Reverted { at: now, settled: true },
        OperationEnd::InDoubt => OperationState::InDoubt { since: now },
        OperationEnd::TryAgain => OperationState::Pending { heard_at: now },
    };
    let tries = request.tries.unwrap_or(operation.tries);
    if request.asks_for_last_try() && tries > operation.tries {
        // An unclaimed step may have several operations under one effect key at a time: the next number is not always free.
        let number = last_try.max(operation.last_try()).saturating_add(1);
        operation.tries_before = operation.tries_before.max(number.saturating_sub(tries));
    }
    operation.tries = tries;
    let evidence = operation.proofs_of_change(&before, request.by, now);
    Ok(Finished::Finished { operation: Box::new(operation), entity, evidence })
}

fn may_finish(by: FinishBy, end: &OperationEnd, operation: &Operation) -> bool {
    match (by, &operation.state) {
        (FinishBy::Holder(owner), OperationState::Pending { .. }) => operation.owner == owner,
        _ if matches!(end, OperationEnd::TryAgain) => false,
        (FinishBy::Janitor { unheard_since }, OperationState::Pending { heard_at }) => {
            *heard_at < unheard_since
        }
        (FinishBy::Run, OperationState::Pending { .. }) => operation.run.is_some(),
        // What comes late can only say that it happened.
        (FinishBy::LateResult, OperationState::InDoubt { .. }) => matches!(end, OperationEnd::Done { .. }),
        (FinishBy::Probe | FinishBy::People, OperationState::InDoubt { .. }) => true,
        _ => false,
    }
}

/// Did an earlier sending of the same request bring the operation there?
fn is_end(end: &OperationEnd, state: &OperationState, owner: OwnerId, by: FinishBy) -> bool {
    if matches!(by, FinishBy::Holder(asks) if asks != owner) {
        return false;
    }
    match (end, state) {
        (OperationEnd::Done { result, .. }, OperationState::Done { result: recorded, .. }) => {
            result == recorded
        }
        (OperationEnd::Rejected(failure), OperationState::Rejected { failure: recorded, .. })
        | (OperationEnd::Failed(failure), OperationState::Failed { failure: recorded, .. }) => {
            failure == recorded
        }
        (OperationEnd::Reverted, OperationState::Reverted { settled, .. }) => {
            !settled && !matches!(by, FinishBy::Holder(_))
        }
        (OperationEnd::DidNotHappen, OperationState::Reverted { settled, .. }) => *settled,
        (OperationEnd::InDoubt, OperationState::InDoubt { .. }) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::operation as example_operation;
