//! How operations begin and end: the claim before the action, and the guarded write after it.

use std::time::Duration;

use super::{
    Actor, ClaimTo, EffectKey, Entity, EntityJournalEntry, EntityRef, EntityStorage, Fingerprint,
    IdempotencyKey, Invalid, Irreversible, JournalEntry, JournalEvent, Name, Operation, OperationEnd,
    OperationId, OperationState, OutboxMessage, OwnerId, Payload, Recovery, RetryAnswer, RunId, Timestamp,
    Version, WorkspaceId, merge_data,
};

/// A requested transition, with everything the configured step says about it.
#[derive(Debug, Clone)]
pub struct BeginOperation {
    /// Id to use if it is new.
    pub id: OperationId,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The entity to move.
    pub entity: EntityRef,
    /// Where the entity is stored.
    pub home: EntityStorage,
    /// The entity workflow.
    pub workflow: Name,
    /// The module whose janitor is responsible for it.
    pub module: Name,
    /// Key of the step.
    pub step: Name,
    /// The requester role it is asked for with.
    pub requester: Option<Name>,
    /// The person or credential that asks.
    pub by: Option<Actor>,
    /// The idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Fingerprint that a request under the key must have.
    pub fingerprint: Fingerprint,
    /// Input of the action.
    pub input: Payload,
    /// Statuses the step applies to.
    pub from: Vec<Name>,
    /// Status after the step.
    pub to: Name,
    /// The claim, if the step has one.
    pub claim: Option<ClaimTo>,
    /// Every transient status of the workflow. An entity in one of them is claimed, even if no operation holds it.
    pub transient: Vec<Name>,
    /// Policy if its holder vanishes.
    pub recovery: Recovery,
    /// Answer to a caller who asks again after it was done.
    pub retry: RetryAnswer,
    /// True if it may be repeated once it has happened, or may have.
    pub irreversible: Irreversible,
    /// True if its action reaches outside the transaction that records its end. False if it has no action,
    /// shares the transaction, or is a run, which has effects of its own.
    pub has_effect: bool,
    /// A manager's decision to take the step although it may have happened.
    pub overridden: Option<Override>,
    /// The document that the request follows. `None` if the workflow is code.
    pub document: Option<DocumentRef>,
    /// How long after the last heartbeat its action may still take effect. The janitor leaves it alone until
    /// then.
    pub grace: Duration,
    /// Version of the entity that the request was checked against.
    pub seen: Version,
    /// The run that will carry it out, if one does.
    pub run: Option<RunId>,
    /// The engine that asks.
    pub owner: OwnerId,
}

/// A manager's decision to take an irreversible step although it may have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The manager.
    pub by: Actor,
    /// The reason.
    pub reason: String,
}

/// One version of an entity workflow in the catalog ([`super::CatalogKind::EntityWorkflow`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRef {
    /// Id of the catalog item.
    pub item: Name,
    /// Version of the catalog item.
    pub version: Version,
}

/// Stored facts that decide whether an operation may begin.
#[derive(Debug, Clone, Default)]
pub struct BeginFacts {
    /// The operation under the same key. Without a key, the one with the same id.
    pub known: Option<Operation>,
    /// The entity.
    pub entity: Option<Entity>,
    /// The operation that holds the entity ([`Operation::holds_entity`]).
    pub holder: Option<Operation>,
    /// The newest operation of the same step on the entity ([`Operation::begin_order`]). Needed only if
    /// [`BeginOperation::asks_for_last`].
    pub last: Option<Operation>,
    /// Current version of the document. It must not change before the operation is committed. Needed only if
    /// the request names a document.
    pub document: Option<Version>,
    /// Highest number of a try in the journal under the effect key of [`BeginFacts::continued_effect`]. Only needed if there is one.
    pub last_try: u32,
}

impl BeginFacts {
    /// The effect that a new operation continues, once the other facts are known. The stores look up
    /// [`BeginFacts::last_try`] for it.
    pub fn continued_effect(&self, request: &BeginOperation) -> Option<EffectKey> {
        let before =
            self.known.as_ref().filter(|known| matches!(known.state, OperationState::Reverted { .. }));
        let continued = request.continued(before, self.last.as_ref())?;
        Some(EffectKey::for_operation(continued.effect_of, request.step.as_str()))
    }
}

/// Outcome of a request to begin.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum BeginOperationOutcome {
    /// The operation has begun. The caller must run its action.
    Begun {
        /// The operation.
        operation: Box<Operation>,
        /// The entity after the claim.
        entity: Entity,
        /// Entries to append to the journal of the entity. For stores.
        notes: Vec<EntityJournalEntry>,
        /// Evidence about attempts under its effect key, for the journal. For stores.
        evidence: Vec<JournalEntry>,
    },
    /// The same request came before. This is its record; it may still be running.
    Recorded(Box<Operation>),
    /// The key names another operation.
    KeyConflict(Box<Operation>),
    /// Another operation is in progress. `None` if something else claimed the entity in a user's table.
    ClaimFailed(Option<Box<Operation>>),
    /// The step does not apply in this status.
    NotAllowed(Entity),
    /// The step is irreversible and may have happened, by this operation. Only a manager's override allows
    /// it.
    OverrideRequired(Box<Operation>),
    /// The document was replaced. Begin again under this version. `None` if the document no longer exists.
    DocumentChanged(Option<Version>),
    /// The entity has changed since it was read. Read it again.
    Stale(Entity),
    /// The entity does not exist.
    NoSuchEntity,
}

impl BeginOperation {
    /// Returns true if a store must read the newest operation of the same step before it decides.
    pub fn asks_for_last(&self, entity: &Entity) -> bool {
        self.may_ask_for_last()
            && (self.has_effect
                || self.irreversible == Irreversible::Once
                || !self.from.contains(&entity.status))
    }

    /// Returns true if it may have to, for any status of the entity.
    pub fn may_ask_for_last(&self) -> bool {
        self.has_effect || self.irreversible == Irreversible::Once || self.retry == RetryAnswer::Returns
    }

    /// Does `last` bar it, so that only a manager may have it done?
    fn is_barred_by(&self, last: &Operation) -> bool {
        self.irreversible == Irreversible::Once && last.needs_override()
    }

    /// Returns true if a manager allowed a new effect although the effect of `last` may have happened.
    fn overrides(&self, last: &Operation) -> bool {
        self.overridden.is_some() && (self.is_barred_by(last) || last.leaves_doubt())
    }

    /// The operation whose effect it continues: `before`, which it retries, or `last`, the previous one of the step.
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

/// Decides whether an operation begins. A store writes the operation, the entity, the entries and the
/// evidence of `Begun`, and nothing else.
pub fn decide_begin_operation(
    request: &BeginOperation,
    facts: BeginFacts,
    now: Timestamp,
) -> BeginOperationOutcome {
    let BeginFacts { known, entity, holder, last, document, last_try } = facts;
    let mut before = None;
    if let Some(known) = known {
        if known.fingerprint != request.fingerprint {
            return BeginOperationOutcome::KeyConflict(Box::new(known));
        }
        match known.state {
            // The caller's own request, whose acknowledgement was lost.
            OperationState::Pending { .. } if known.id == request.id && known.owner == request.owner => {
                return match entity {
                    Some(entity) => {
                        let (notes, evidence) = (Vec::new(), Vec::new());
                        BeginOperationOutcome::Begun { operation: Box::new(known), entity, notes, evidence }
                    }
                    None => BeginOperationOutcome::NoSuchEntity,
                };
            }
            // There is no result to return. It continues as another attempt of the same operation.
            OperationState::Reverted { .. } => before = Some(known),
            OperationState::Pending { .. }
            | OperationState::Done { .. }
            | OperationState::Rejected { .. }
            | OperationState::Failed { .. }
            | OperationState::InDoubt { .. } => return BeginOperationOutcome::Recorded(Box::new(known)),
        }
    }
    if request.document.as_ref().is_some_and(|seen| document != Some(seen.version)) {
        return BeginOperationOutcome::DocumentChanged(document);
    }
    let Some(mut entity) = entity else { return BeginOperationOutcome::NoSuchEntity };
    if holder.is_some() {
        return BeginOperationOutcome::ClaimFailed(holder.map(Box::new));
    }
    if entity.version != request.seen {
        return BeginOperationOutcome::Stale(entity);
    }
    if !request.from.contains(&entity.status) {
        return match last {
            _ if request.transient.contains(&entity.status) => BeginOperationOutcome::ClaimFailed(None),
            Some(last)
                if request.retry == RetryAnswer::Returns
                    && matches!(last.state, OperationState::Done { .. }) =>
            {
                BeginOperationOutcome::Recorded(Box::new(last))
            }
            _ => BeginOperationOutcome::NotAllowed(entity),
        };
    }
    let mut notes = Vec::new();
    let id = before.as_ref().map_or(request.id, |before| before.id);
    let attempt = before.as_ref().map_or(1, |before| before.attempt + 1);
    let mut note = |by, what| {
        let (workspace, entity) = (request.workspace.clone(), request.entity.clone());
        notes.push(EntityJournalEntry {
            workspace,
            entity,
            operation: Some(id),
            at: now,
            by,
            what,
            evidence: None,
        });
    };
    match (&request.overridden, &last) {
        (None, Some(last)) if request.is_barred_by(last) => {
            return BeginOperationOutcome::OverrideRequired(Box::new(last.clone()));
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
    // Other operations may have continued the effect since. The journal has all their attempts.
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
    BeginOperationOutcome::Begun { operation: Box::new(operation), entity, notes, evidence }
}

/// A request to end an operation.
#[derive(Debug, Clone)]
pub struct FinishOperation {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Id of the operation.
    pub operation: OperationId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Authority of the writer.
    pub by: FinishBy,
    /// How it ends.
    pub end: OperationEnd,
    /// How often the action was entered in this attempt. `None` if the writer does not know.
    pub tries: Option<u32>,
    /// Outbox messages to add.
    pub posts: Vec<OutboxMessage>,
    /// Entries to append to the journal of the entity.
    pub notes: Vec<EntityJournalEntry>,
}

/// Authority to end an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishBy {
    /// Its holder ran the action.
    Holder(OwnerId),
    /// The janitor: the holder has sent no heartbeat since before this instant.
    Janitor {
        /// The instant.
        unheard_since: Timestamp,
    },
    /// A run carried it out and has ended. Any engine that sees this may write it.
    Run,
    /// Its holder learned that the action happened after the operation had been put in doubt.
    LateResult,
    /// A probe resolved a doubt.
    Probe,
    /// A person ruled on a doubt.
    People,
}

/// Outcome of a request to end an operation.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum FinishOperationOutcome {
    /// It is written.
    Finished {
        /// The operation.
        operation: Box<Operation>,
        /// The entity as it is now. `None` if it was not changed.
        entity: Option<Entity>,
        /// Evidence about attempts under its effect key, for the journal. For stores.
        evidence: Vec<JournalEntry>,
    },
    /// An earlier sending of the same request was written.
    Again(Box<Operation>),
    /// The operation is no longer the caller's to finish. Nothing is written. `None` if it does not exist.
    Lost(Option<Box<Operation>>),
    /// The entity has changed since the operation claimed it, so the new status cannot be written. Nothing is
    /// written.
    Stale(Option<Entity>),
}

/// Facts that a store loads before an operation ends.
#[derive(Debug, Clone, Default)]
pub struct FinishFacts {
    /// The operation.
    pub operation: Option<Operation>,
    /// The entity.
    pub entity: Option<Entity>,
    /// Highest attempt number in the journal under the operation's effect key. Only needed if
    /// [`FinishOperation::asks_for_last_try`].
    pub last_try: u32,
}

impl FinishOperation {
    /// Returns whether the decision needs the last attempt number under the effect key.
    pub fn asks_for_last_try(&self) -> bool {
        matches!(self.end, OperationEnd::TryAgain)
    }
}

/// Decides how an operation ends. A store writes everything in `Finished`, together with the messages and
/// entries of the request, or nothing.
pub fn decide_finish_operation(
    request: &FinishOperation,
    facts: FinishFacts,
    now: Timestamp,
) -> Result<FinishOperationOutcome, Invalid> {
    let FinishFacts { operation, entity, last_try } = facts;
    let Some(mut operation) = operation else { return Ok(FinishOperationOutcome::Lost(None)) };
    if operation.attempt != request.attempt || !may_finish(request.by, &request.end, &operation) {
        let again = operation.attempt == request.attempt
            && is_end(&request.end, &operation.state, operation.owner, request.by);
        return Ok(match again {
            true => FinishOperationOutcome::Again(Box::new(operation)),
            false => FinishOperationOutcome::Lost(Some(Box::new(operation))),
        });
    }
    // As the operation left it: in its transient status, or, without a claim, unchanged.
    let is_held = |entity: &Entity| match &operation.claim {
        Some(claim) => entity.status == claim.into,
        None => entity.status == operation.from && entity.version == operation.version,
    };
    let held = entity.as_ref().is_some_and(is_held);
    let (status, data) = match &request.end {
        OperationEnd::Done { .. } if !held => return Ok(FinishOperationOutcome::Stale(entity)),
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
        // Several operations of an unclaimed step can share one effect key, so the next number may be taken.
        let number = last_try.max(operation.last_try()).saturating_add(1);
        operation.tries_before = operation.tries_before.max(number.saturating_sub(tries));
    }
    operation.tries = tries;
    let evidence = operation.proofs_of_change(&before, request.by, now);
    Ok(FinishOperationOutcome::Finished { operation: Box::new(operation), entity, evidence })
}

fn may_finish(by: FinishBy, end: &OperationEnd, operation: &Operation) -> bool {
    match (by, &operation.state) {
        (FinishBy::Holder(owner), OperationState::Pending { .. }) => operation.owner == owner,
        _ if matches!(end, OperationEnd::TryAgain) => false,
        (FinishBy::Janitor { unheard_since }, OperationState::Pending { heard_at }) => {
            *heard_at < unheard_since
        }
        (FinishBy::Run, OperationState::Pending { .. }) => operation.run.is_some(),
        // A late result can only say that the action happened.
        (FinishBy::LateResult, OperationState::InDoubt { .. }) => matches!(end, OperationEnd::Done { .. }),
        (FinishBy::Probe | FinishBy::People, OperationState::InDoubt { .. }) => true,
        _ => false,
    }
}

/// Returns true if an earlier sending of the same request brought the operation into this state.
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
