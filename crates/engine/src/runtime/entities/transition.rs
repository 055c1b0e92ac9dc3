//! Taking a step with an entity: look, validate, claim, act, and write what became of it.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;

use super::acting::carry_out;
use super::held::TakenUp;
use super::registry::Registered;
use super::step_call::StepCall;
use crate::hold::Hold;
use crate::limits::MAX_BEGIN_TRIES;
use crate::model::{
    Action, Actor, BeginOperation, BeginOperationOutcome, EffectKey, Entity, EntityId, EntityRef, EntityStep,
    Failure, Fingerprint, IdempotencyKey, Invalid, Name, Operation, OperationId, OperationState, Override,
    Payload, Role, StepView, Version, check_actor_and_reason,
};
use crate::runtime::inner::Phase;
use crate::runtime::stats::Counters;
use crate::runtime::{Engine, Error};
use crate::store::{EntityStore, StoreError};

/// What a request to take a step came to.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Outcome {
    /// It is done.
    Done {
        /// The operation.
        operation: Box<Operation>,
        /// The entity afterwards; `None` if it was done before.
        entity: Option<Entity>,
        /// Was it done before, and is this what is recorded of it?
        recorded: bool,
    },
    /// It was rejected, by a validation (then there is no operation) or by the action; the entity is as before.
    Rejected {
        /// The operation, if there is one.
        operation: Option<Box<Operation>>,
        /// Why.
        failure: Failure,
        /// Was it rejected before?
        recorded: bool,
    },
    /// The action failed; the entity is as before.
    Failed {
        /// The operation.
        operation: Box<Operation>,
        /// Why.
        failure: Failure,
        /// Did it fail before?
        recorded: bool,
    },
    /// Another operation is already in progress; nothing was done.
    ClaimFailed {
        /// Which; `None` if the entity was claimed by something else than an operation.
        existing: Option<Box<Operation>>,
    },
    /// The step does not apply to the entity as it stands, or not to whoever asks; nothing was done.
    NotAllowed {
        /// The entity.
        entity: Entity,
        /// Why.
        reason: String,
    },
    /// Nobody knows whether it happened; people must decide.
    InDoubt {
        /// The operation.
        operation: Box<Operation>,
    },
    /// It is under way, and the caller did not want to wait longer.
    Pending {
        /// The operation.
        operation: Box<Operation>,
        /// Did an earlier request begin it?
        recorded: bool,
    },
    /// The key stands for another operation; nothing was done.
    KeyConflict {
        /// Which.
        existing: Box<Operation>,
    },
    /// It may have happened and cannot be taken back: a manager must say that it is to be done. Nothing was done.
    OverrideRequired {
        /// The operation that may have done it.
        existing: Box<Operation>,
    },
}

impl Outcome {
    /// What an operation that is recorded means to whoever asks for it again.
    pub(super) fn of(operation: Operation, entity: Option<Entity>, recorded: bool) -> Self {
        let boxed = Box::new(operation);
        match boxed.state.clone() {
            OperationState::Pending { .. } => Outcome::Pending { operation: boxed, recorded },
            OperationState::Done { .. } => Outcome::Done { operation: boxed, entity, recorded },
            OperationState::Rejected { failure, .. } => {
                Outcome::Rejected { operation: Some(boxed), failure, recorded }
            }
            OperationState::Failed { failure, .. } => Outcome::Failed { operation: boxed, failure, recorded },
            OperationState::Reverted { settled, .. } => {
                let failure = match settled {
                    false => Failure::unknown(
                        "its holder was not heard of for too long, and the claim was given back",
                    ),
                    true => Failure::retryable("it did not happen, and the claim was given back"),
                };
                Outcome::Failed { operation: boxed, failure: failure.with_code("reverted"), recorded }
            }
            OperationState::InDoubt { .. } => Outcome::InDoubt { operation: boxed },
        }
    }
}

/// A step about to be taken; await it.
#[must_use = "nothing happens until it is awaited"]
#[derive(Debug)]
pub struct Transition {
    engine: Engine,
    kind: String,
    entity: String,
    step: String,
    requester: Option<String>,
    by: Option<Actor>,
    input: Result<Payload, Invalid>,
    key: Option<String>,
    overridden: Option<Override>,
    expected: Option<Version>,
    id: Option<OperationId>,
    wait: Option<Duration>,
}

impl Engine {
    /// Takes the step `step` with the entity `entity` of type `kind`; await what it returns.
    pub fn transition(&self, kind: &str, entity: &str, step: &str) -> Transition {
        Transition {
            engine: self.clone(),
            kind: kind.into(),
            entity: entity.into(),
            step: step.into(),
            requester: None,
            by: None,
            input: Ok(Payload::null()),
            key: None,
            overridden: None,
            expected: None,
            id: None,
            wait: None,
        }
    }
}

impl Transition {
    /// As whom: fields of the step may differ by requester.
    pub fn requester(mut self, requester: impl Into<String>) -> Self {
        self.requester = Some(requester.into());
        self
    }

    /// Who asks, for the operation's history.
    pub fn by(mut self, by: Actor) -> Self {
        self.by = Some(by);
        self
    }

    /// What the action is given.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.input = Payload::of(input);
        self
    }

    /// What the action is given, if that is a payload already.
    pub fn input_payload(mut self, input: Payload) -> Self {
        self.input = Ok(input);
        self
    }

    /// Names the operation: a second request with this key and the same input is told what is recorded of the first.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// A manager's word that an irreversible step is to be done although it may have happened.
    pub fn overridden(mut self, by: Actor, reason: impl Into<String>) -> Self {
        self.overridden = Some(Override { by, reason: reason.into() });
        self
    }

    /// Only if the entity still has this version. What is recorded under the key is told in any case.
    pub fn expecting(mut self, version: Version) -> Self {
        self.expected = Some(version);
        self
    }

    /// The id of the operation, for a request that may be sent again after a crash: the second time it finds the operation that the first one began.
    pub fn operation_id(mut self, id: OperationId) -> Self {
        self.id = Some(id);
        self
    }

    /// How long to wait for the end of the action, which goes on in any case; for ever unless said.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    async fn take(self) -> Result<Outcome, Error> {
        let engine = self.engine.clone();
        let inner = &engine.inner;
        if inner.phase() != Phase::Running {
            return Err(Error::ShuttingDown);
        }
        let deadline = self.wait.map(|wait| inner.clock.now().plus(wait));
        let kind = Name::new("entity type", &self.kind)?;
        let mut registered = engine.entity_workflow(&kind).await?;
        let asked = Asked {
            entity: EntityRef { kind, id: EntityId::new(&self.entity)? },
            step: Name::new("step key", &self.step)?,
            requester: self.requester.as_deref().map(|text| Name::new("requester", text)).transpose()?,
            by: self.by,
            input: self.input?,
            key: self.key.as_deref().map(IdempotencyKey::new).transpose()?,
            overridden: self.overridden,
            expected: self.expected,
            id: self.id.unwrap_or_else(|| OperationId::new(inner.store.now())),
            is_named: self.id.is_some(),
        };
        asked.check_override()?;
        let book = engine.entity_store()?;
        let taken_up = match self.id {
            Some(id) => match take_up(&engine, id, deadline).await? {
                TakingUp::Mine(taken_up) => Some(taken_up),
                TakingUp::UnderWay(known) => return asked.recorded(&engine, *known, deadline).await,
                TakingUp::Impatient => return Err(Error::EntityBusy(asked.entity)),
            },
            None => None,
        };
        for _ in 0..MAX_BEGIN_TRIES {
            let workspace = &engine.workspace;
            let home = &registered.workflow.home;
            let found = inner.answer(book.find_entity(workspace, &asked.entity, home)).await?;
            let Some(entity) = found else { return Err(Error::NoSuchEntity(asked.entity)) };
            let view = match asked.view(&engine, &registered)? {
                Ok(view) => view,
                Err(reason) => return Ok(Outcome::NotAllowed { entity, reason }),
            };
            // Of another version than the expected one only the store says what is to be said.
            let is_expected = asked.expected.is_none_or(|expected| expected == entity.version);
            if is_expected && let Err(failure) = asked.validate(&engine, &registered, &view, &entity).await {
                // What is recorded under the key goes before what would be said now.
                if let Some(key) = &asked.key
                    && let Some(known) = inner.answer(book.find_keyed_operation(workspace, key)).await?
                    && !matches!(known.state, OperationState::Reverted { .. })
                {
                    return asked.recorded(&engine, known, deadline).await;
                }
                return Ok(Outcome::Rejected { operation: None, failure, recorded: false });
            }
            let request = asked.begin(&engine, &registered, &view, &entity)?;
            let since = inner.clock.monotonic();
            match begin(&engine, book, request).await? {
                BeginOperationOutcome::Begun { operation, entity, .. } => {
                    Counters::add(&inner.counters.operations);
                    let (tell, told) = oneshot::channel();
                    let carried =
                        carry_out(engine.clone(), registered, view, *operation.clone(), entity, since);
                    // It goes on if whoever asked does not wait for it.
                    tokio::spawn(async move {
                        let outcome = carried.await;
                        drop(taken_up);
                        drop(tell.send(outcome));
                    });
                    return match or_until(&engine, deadline, told).await {
                        Some(Ok(outcome)) => outcome,
                        // Killed in the middle of it, or not awaited to the end.
                        Some(Err(_)) => Err(Error::ShuttingDown),
                        None => Ok(Outcome::Pending { operation, recorded: false }),
                    };
                }
                BeginOperationOutcome::Recorded(known) => {
                    Counters::add(&inner.counters.duplicates);
                    // What a step returns to those who ask again may be what another request did, under another key.
                    return recorded(&engine, *known, deadline).await;
                }
                BeginOperationOutcome::KeyConflict(existing) => {
                    Counters::add(&inner.counters.conflicts);
                    return Ok(Outcome::KeyConflict { existing });
                }
                BeginOperationOutcome::ClaimFailed(existing) => {
                    Counters::add(&inner.counters.claims_lost);
                    return Ok(Outcome::ClaimFailed { existing });
                }
                BeginOperationOutcome::NotAllowed(entity) => {
                    let applies: Vec<&str> = view.status.iter().map(Name::as_str).collect();
                    let reason = format!(
                        "{} is {}; step {} applies to what is {}",
                        asked.entity,
                        entity.status,
                        asked.step,
                        applies.join(" or ")
                    );
                    return Ok(Outcome::NotAllowed { entity, reason });
                }
                BeginOperationOutcome::OverrideRequired(existing) => {
                    return Ok(Outcome::OverrideRequired { existing });
                }
                BeginOperationOutcome::DocumentChanged(_) => {
                    // Another node was given a new document. What it says holds from now on, for this request as well.
                    inner.entities.load(workspace, &asked.entity.kind).await?;
                    registered = engine.entity_workflow(&asked.entity.kind).await?;
                }
                BeginOperationOutcome::NoSuchEntity => return Err(Error::NoSuchEntity(asked.entity)),
                BeginOperationOutcome::Stale(entity) => {
                    if asked.expected.is_some() {
                        let version = entity.version;
                        return Err(Error::EntityChanged { entity: asked.entity, version });
                    }
                }
            }
        }
        Err(Error::EntityBusy(asked.entity))
    }
}

/// A request that is well formed.
struct Asked {
    entity: EntityRef,
    step: Name,
    requester: Option<Name>,
    by: Option<Actor>,
    input: Payload,
    key: Option<IdempotencyKey>,
    overridden: Option<Override>,
    expected: Option<Version>,
    id: OperationId,
    /// Did the caller choose the id, under a key of its own?
    is_named: bool,
}

impl Asked {
    fn fingerprint(&self) -> Result<Fingerprint, Error> {
        Ok(Fingerprint::of_operation(&self.entity, &self.step, self.requester.as_ref(), &self.input)?)
    }

    /// What is recorded of the operation that the key or the id of this request names.
    async fn recorded(
        &self,
        engine: &Engine,
        known: Operation,
        deadline: Option<crate::model::Timestamp>,
    ) -> Result<Outcome, Error> {
        if known.fingerprint != self.fingerprint()? && known.key.is_some() {
            return Ok(Outcome::KeyConflict { existing: Box::new(known) });
        }
        recorded(engine, known, deadline).await
    }

    fn check_override(&self) -> Result<(), Error> {
        let Some(Override { by, reason }) = &self.overridden else { return Ok(()) };
        check_actor_and_reason(by, reason)?;
        match by.role {
            Role::Manager => Ok(()),
            Role::Operator => Err(Error::NotManager),
        }
    }

    /// The step as the requester sees it, or why they may not take it.
    fn view(&self, engine: &Engine, registered: &Registered) -> Result<Result<StepView, String>, Error> {
        let workflow = &registered.workflow;
        let Some(step) = workflow.find_step(self.step.as_str()) else {
            return Err(Error::NoSuchStep {
                workflow: workflow.name.to_string(),
                step: self.step.to_string(),
            });
        };
        let Some(view) = step.view(self.requester.as_ref()) else {
            let requesters: Vec<&str> = step.requesters().into_iter().map(Name::as_str).collect();
            let asks = self.requester.as_ref().map_or("anybody who does not say as whom", Name::as_str);
            return Ok(Err(format!(
                "step {} is not for {asks}; it is for {}",
                self.step,
                requesters.join(", ")
            )));
        };
        if view.claim.is_some()
            && let Some(uncovered) = workflow.find_uncovered(&engine.inner.entities.modules())
        {
            return Err(Error::UncoveredClaims(vec![uncovered]));
        }
        if view.key_required && self.key.is_none() && !self.is_named {
            return Err(Error::StepKeyMissing(self.step.to_string()));
        }
        Ok(Ok(view))
    }

    /// Only what the step applies to is validated; of the rest the store decides what is said.
    async fn validate(
        &self,
        engine: &Engine,
        registered: &Registered,
        view: &StepView,
        entity: &Entity,
    ) -> Result<(), Failure> {
        match view.status.contains(&entity.status) {
            true => registered.host.check(&self.call(engine, registered, entity)).await,
            false => Ok(()),
        }
    }

    fn call(&self, engine: &Engine, registered: &Registered, entity: &Entity) -> StepCall {
        StepCall {
            workspace: engine.workspace.clone(),
            workflow: registered.workflow.name.clone(),
            step: self.step.clone(),
            entity: entity.clone(),
            requester: self.requester.clone(),
            input: self.input.clone(),
            operation: self.id,
            attempt: 1,
            effect_key: EffectKey::of_operation(self.id, self.step.as_str()),
            fence: 1,
            hold: Hold::unlimited(),
        }
    }

    fn begin(
        &self,
        engine: &Engine,
        registered: &Registered,
        view: &StepView,
        entity: &Entity,
    ) -> Result<BeginOperation, Error> {
        let workflow = &registered.workflow;
        let by_run = matches!(view.action, Some(Action::Workflow(_)));
        let timeout = registered.host.action_timeout(&self.step, self.requester.as_ref());
        let grace = engine.inner.entities.patience_of(&workflow.module) + timeout;
        Ok(BeginOperation {
            id: self.id,
            workspace: engine.workspace.clone(),
            entity: self.entity.clone(),
            home: workflow.home.clone(),
            workflow: workflow.name.clone(),
            module: workflow.module.clone(),
            step: self.step.clone(),
            requester: self.requester.clone(),
            by: self.by.clone(),
            key: self.key.clone(),
            fingerprint: self.fingerprint()?,
            input: self.input.clone(),
            from: view.status.clone(),
            to: view.successful_state.clone(),
            claim: view.claim.clone(),
            transient: workflow.claims().into_iter().map(|claim| claim.into.clone()).collect(),
            recovery: view.recovery,
            retry: view.retry,
            irreversible: view.irreversible,
            has_effect: EntityStep::has_effect(view),
            document: registered.document.clone(),
            grace,
            overridden: self.overridden.clone(),
            seen: self.expected.unwrap_or(entity.version),
            run: by_run.then(|| self.id.as_run()),
            owner: engine.inner.owner,
        })
    }
}

/// Whose an operation is that was asked for under an id of the caller's.
enum TakingUp {
    /// This request's.
    Mine(TakenUp),
    /// Another request of this id is at it here, and this is what is recorded of it.
    UnderWay(Box<Operation>),
    /// Another one is about to begin it, and the caller did not want to wait longer.
    Impatient,
}

async fn take_up(
    engine: &Engine,
    id: OperationId,
    deadline: Option<crate::model::Timestamp>,
) -> Result<TakingUp, Error> {
    let inner = &engine.inner;
    loop {
        if let Some(taken_up) = TakenUp::new(inner, id) {
            return Ok(TakingUp::Mine(taken_up));
        }
        if let Some(known) =
            inner.answer(engine.entity_store()?.find_operation(&engine.workspace, id)).await?
        {
            return Ok(TakingUp::UnderWay(Box::new(known)));
        }
        let looking = inner.clock.sleep_until(inner.clock.now().plus(Duration::from_millis(10)));
        if or_until(engine, deadline, looking).await.is_none() {
            return Ok(TakingUp::Impatient);
        }
    }
}

/// Sends the request; again, if it is not known whether it was written: the second time it recognises its own write.
async fn begin(
    engine: &Engine,
    book: &dyn EntityStore,
    request: BeginOperation,
) -> Result<BeginOperationOutcome, StoreError> {
    let inner = &engine.inner;
    match inner.answer(book.begin_operation(request.clone())).await {
        Err(StoreError::Unknown(_)) => {
            Counters::add(&inner.counters.unknown_resolved);
            inner.answer(book.begin_operation(request)).await
        }
        answer => answer,
    }
}

/// What is recorded of an operation, once it is over or the caller does not want to wait longer.
async fn recorded(
    engine: &Engine,
    mut known: Operation,
    deadline: Option<crate::model::Timestamp>,
) -> Result<Outcome, Error> {
    let inner = &engine.inner;
    let mut look_after = Duration::from_millis(20);
    while matches!(known.state, OperationState::Pending { .. }) {
        let looking = inner.clock.sleep_until(inner.clock.now().plus(look_after));
        let ended = inner.operated.notified();
        let waited = async {
            tokio::select! {
                () = ended => {}
                () = looking => {}
            }
        };
        if or_until(engine, deadline, waited).await.is_none() {
            return Ok(Outcome::Pending { operation: Box::new(known), recorded: true });
        }
        look_after = (look_after * 2).min(inner.options.poll_every * 4);
        let found = inner.answer(engine.entity_store()?.find_operation(&engine.workspace, known.id)).await?;
        known = found.ok_or(Error::NoSuchOperation(known.id))?;
    }
    Ok(Outcome::of(known, None, true))
}

async fn or_until<T>(
    engine: &Engine,
    deadline: Option<crate::model::Timestamp>,
    awaited: impl Future<Output = T>,
) -> Option<T> {
    let Some(deadline) = deadline else { return Some(awaited.await) };
    tokio::select! {
        biased;
        value = awaited => Some(value),
        () = engine.inner.clock.sleep_until(deadline) => None,
    }
}

impl IntoFuture for Transition {
    type Output = Result<Outcome, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.take())
    }
}

impl Engine {
    /// The workflow that moves things of this kind. One that is not known here may have been given to another node.
    pub(super) async fn entity_workflow(&self, kind: &Name) -> Result<Arc<Registered>, Error> {
        if let Some(found) = self.inner.entities.find(&self.workspace, kind) {
            return Ok(found);
        }
        self.inner.entities.load(&self.workspace, kind).await?;
        let found = self.inner.entities.find(&self.workspace, kind);
        found.ok_or_else(|| Error::UnknownEntityType(kind.to_string()))
    }

    pub(super) fn entity_store(&self) -> Result<&dyn EntityStore, Error> {
        let missing = || StoreError::Refused("this store keeps no entities".into());
        Ok(self.inner.store.entity_store().ok_or_else(missing)?)
    }
}
