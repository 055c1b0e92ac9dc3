//! Takes a step with an entity: reads it, validates, claims, runs the action and records the result.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;

use super::execution::execute_action;
use super::heartbeats::OperationIdGuard;
use super::registry::Registered;
use super::step_call::StepCall;
use crate::hold::Hold;
use crate::limits::MAX_BEGIN_TRIES;
use crate::model::{
    Action, Actor, BeginOperation, BeginOperationOutcome, EffectKey, Entity, EntityId, EntityRef, EntityStep,
    Failure, Fingerprint, IdempotencyKey, Invalid, Name, Operation, OperationId, OperationState, Override,
    Payload, Role, StepView, Timestamp, Version, check_actor_and_reason,
};
use crate::runtime::inner::Phase;
use crate::runtime::stats::Counters;
use crate::runtime::{Engine, Error};
use crate::store::{EntityStore, StoreError};

/// Result of a request to take a step.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum TransitionOutcome {
    /// The step is done.
    Done {
        /// The operation.
        operation: Box<Operation>,
        /// Entity after the step; `None` for a repeated request.
        entity: Option<Entity>,
        /// True if this is the recorded result of an earlier request.
        recorded: bool,
    },
    /// A validation (without an operation) or the action rejected the step. The entity is unchanged.
    Rejected {
        /// The operation, if there is one.
        operation: Option<Box<Operation>>,
        /// Reason.
        failure: Failure,
        /// True if this is the recorded result of an earlier request.
        recorded: bool,
    },
    /// The action failed. The entity is unchanged.
    Failed {
        /// The operation.
        operation: Box<Operation>,
        /// Reason.
        failure: Failure,
        /// True if this is the recorded result of an earlier request.
        recorded: bool,
    },
    /// Another operation is in progress. Nothing was done.
    ClaimFailed {
        /// Operation in progress; `None` if something other than an operation claimed the entity.
        existing: Option<Box<Operation>>,
    },
    /// The step does not apply to the entity's status, or not to the requester. Nothing was done.
    NotAllowed {
        /// The entity.
        entity: Entity,
        /// Reason.
        reason: String,
    },
    /// The outcome is unknown and needs a ruling.
    InDoubt {
        /// The operation.
        operation: Box<Operation>,
    },
    /// The action is still running, and the caller's wait is over.
    Pending {
        /// The operation.
        operation: Box<Operation>,
        /// True if an earlier request began the operation.
        recorded: bool,
    },
    /// The key belongs to another operation. Nothing was done.
    KeyConflict {
        /// Operation that has the key.
        existing: Box<Operation>,
    },
    /// The step is irreversible and may already have happened. A manager must override it. Nothing was done.
    OverrideRequired {
        /// Operation that may have done it.
        existing: Box<Operation>,
    },
}

impl TransitionOutcome {
    /// Converts a recorded operation into the result for a repeated request.
    pub(super) fn of(operation: Operation, entity: Option<Entity>, recorded: bool) -> Self {
        let boxed = Box::new(operation);
        match boxed.state.clone() {
            OperationState::Pending { .. } => TransitionOutcome::Pending { operation: boxed, recorded },
            OperationState::Done { .. } => TransitionOutcome::Done { operation: boxed, entity, recorded },
            OperationState::Rejected { failure, .. } => {
                TransitionOutcome::Rejected { operation: Some(boxed), failure, recorded }
            }
            OperationState::Failed { failure, .. } => {
                TransitionOutcome::Failed { operation: boxed, failure, recorded }
            }
            OperationState::Reverted { settled, .. } => {
                let failure = match settled {
                    false => Failure::unknown(
                        "its holder was not heard of for too long, and the claim was given back",
                    ),
                    true => Failure::retryable("it did not happen, and the claim was given back"),
                };
                TransitionOutcome::Failed {
                    operation: boxed,
                    failure: failure.with_code("reverted"),
                    recorded,
                }
            }
            OperationState::InDoubt { .. } => TransitionOutcome::InDoubt { operation: boxed },
        }
    }
}

/// Builder for taking an entity step. Await it to take the step.
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
    /// Takes step `step` with entity `entity` of type `kind`. Await the returned [`Transition`].
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
    /// Sets the requester. Fields of the step may differ by requester.
    pub fn requester(mut self, requester: impl Into<String>) -> Self {
        self.requester = Some(requester.into());
        self
    }

    /// Sets the person or credential that asks, for the operation's history.
    pub fn by(mut self, by: Actor) -> Self {
        self.by = Some(by);
        self
    }

    /// Sets the input of the action.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.input = Payload::of(input);
        self
    }

    /// Sets the input of the action as a [`Payload`].
    pub fn input_payload(mut self, input: Payload) -> Self {
        self.input = Ok(input);
        self
    }

    /// Sets the idempotency key: a second request with this key and the same input returns the recorded
    /// result.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Overrides the protection of an irreversible step that may already have happened. Only a manager may do
    /// so.
    pub fn overridden(mut self, by: Actor, reason: impl Into<String>) -> Self {
        self.overridden = Some(Override { by, reason: reason.into() });
        self
    }

    /// Requires this version of the entity. A recorded result under the key is returned in any case.
    pub fn expecting(mut self, version: Version) -> Self {
        self.expected = Some(version);
        self
    }

    /// Sets the operation id, for a request that may be repeated after a crash: the repeated request finds
    /// the existing operation.
    pub fn operation_id(mut self, id: OperationId) -> Self {
        self.id = Some(id);
        self
    }

    /// Limits how long to wait for the action, which continues in any case. By default the wait has no limit.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    async fn run(self) -> Result<TransitionOutcome, Error> {
        let engine = self.engine.clone();
        let inner = &engine.inner;
        if inner.phase() != Phase::Running {
            return Err(Error::ShuttingDown);
        }
        let deadline = self.wait.map(|wait| inner.clock.now().plus(wait));
        let kind = Name::new("entity type", &self.kind)?;
        let mut registered = engine.entity_workflow(&kind).await?;
        let request = TransitionRequest {
            entity: EntityRef { kind, id: EntityId::new(&self.entity)? },
            step: Name::new("step key", &self.step)?,
            requester: self.requester.as_deref().map(|text| Name::new("requester", text)).transpose()?,
            by: self.by,
            input: self.input?,
            key: self.key.as_deref().map(IdempotencyKey::new).transpose()?,
            overridden: self.overridden,
            expected: self.expected,
            id: self.id.unwrap_or_else(|| OperationId::new(inner.store.now())),
            has_caller_id: self.id.is_some(),
        };
        request.check_override()?;
        let store = engine.entity_store()?;
        let id_guard = match self.id {
            Some(id) => match reserve_id(&engine, id, deadline).await? {
                IdReservation::Reserved(guard) => Some(guard),
                IdReservation::InProgress(known) => return request.recorded(&engine, *known, deadline).await,
                IdReservation::TimedOut => return Err(Error::EntityBusy(request.entity)),
            },
            None => None,
        };
        for _ in 0..MAX_BEGIN_TRIES {
            let workspace = &engine.workspace;
            let home = &registered.workflow.home;
            let found = inner.call_store(store.find_entity(workspace, &request.entity, home)).await?;
            let Some(entity) = found else { return Err(Error::NoSuchEntity(request.entity)) };
            let view = match request.view(&engine, &registered)? {
                Ok(view) => view,
                Err(reason) => return Ok(TransitionOutcome::NotAllowed { entity, reason }),
            };
            // For an unexpected version, the store decides the result.
            let is_expected = request.expected.is_none_or(|expected| expected == entity.version);
            if is_expected && let Err(failure) = request.validate(&engine, &registered, &view, &entity).await
            {
                // A recorded result under the key takes precedence over the validation.
                if let Some(key) = &request.key
                    && let Some(known) = inner.call_store(store.find_keyed_operation(workspace, key)).await?
                    && !matches!(known.state, OperationState::Reverted { .. })
                {
                    return request.recorded(&engine, known, deadline).await;
                }
                return Ok(TransitionOutcome::Rejected { operation: None, failure, recorded: false });
            }
            let begin_request = request.begin(&engine, &registered, &view, &entity)?;
            let since = inner.clock.monotonic();
            match begin(&engine, store, begin_request).await? {
                BeginOperationOutcome::Begun { operation, entity, .. } => {
                    Counters::add(&inner.counters.operations);
                    let (outcome_tx, outcome_rx) = oneshot::channel();
                    let carried =
                        execute_action(engine.clone(), registered, view, *operation.clone(), entity, since);
                    // The action continues even if the caller stops waiting.
                    tokio::spawn(async move {
                        let outcome = carried.await;
                        drop(id_guard);
                        drop(outcome_tx.send(outcome));
                    });
                    return match before_deadline(&engine, deadline, outcome_rx).await {
                        Some(Ok(outcome)) => outcome,
                        // The engine was killed in the middle.
                        Some(Err(_)) => Err(Error::ShuttingDown),
                        None => Ok(TransitionOutcome::Pending { operation, recorded: false }),
                    };
                }
                BeginOperationOutcome::Recorded(known) => {
                    Counters::add(&inner.counters.duplicates);
                    // The recorded result may belong to another request, under another key.
                    return wait_for_recorded(&engine, *known, deadline).await;
                }
                BeginOperationOutcome::KeyConflict(existing) => {
                    Counters::add(&inner.counters.conflicts);
                    return Ok(TransitionOutcome::KeyConflict { existing });
                }
                BeginOperationOutcome::ClaimFailed(existing) => {
                    Counters::add(&inner.counters.claims_lost);
                    return Ok(TransitionOutcome::ClaimFailed { existing });
                }
                BeginOperationOutcome::NotAllowed(entity) => {
                    let applies: Vec<&str> = view.status.iter().map(Name::as_str).collect();
                    let reason = format!(
                        "{} is {}; step {} applies to {}",
                        request.entity,
                        entity.status,
                        request.step,
                        applies.join(" or ")
                    );
                    return Ok(TransitionOutcome::NotAllowed { entity, reason });
                }
                BeginOperationOutcome::OverrideRequired(existing) => {
                    return Ok(TransitionOutcome::OverrideRequired { existing });
                }
                BeginOperationOutcome::DocumentChanged(_) => {
                    // Another node received a new document. It applies from now on, also to this request.
                    inner.entities.load(workspace, &request.entity.kind).await?;
                    registered = engine.entity_workflow(&request.entity.kind).await?;
                }
                BeginOperationOutcome::NoSuchEntity => return Err(Error::NoSuchEntity(request.entity)),
                BeginOperationOutcome::Stale(entity) => {
                    if request.expected.is_some() {
                        let version = entity.version;
                        return Err(Error::EntityChanged { entity: request.entity, version });
                    }
                }
            }
        }
        Err(Error::EntityBusy(request.entity))
    }
}

/// Validated request.
struct TransitionRequest {
    entity: EntityRef,
    step: Name,
    requester: Option<Name>,
    by: Option<Actor>,
    input: Payload,
    key: Option<IdempotencyKey>,
    overridden: Option<Override>,
    expected: Option<Version>,
    id: OperationId,
    /// True if the caller chose the operation id.
    has_caller_id: bool,
}

impl TransitionRequest {
    fn fingerprint(&self) -> Result<Fingerprint, Error> {
        Ok(Fingerprint::for_operation(&self.entity, &self.step, self.requester.as_ref(), &self.input)?)
    }

    /// Returns the recorded result of the operation that this request's key or id names.
    async fn recorded(
        &self,
        engine: &Engine,
        known: Operation,
        deadline: Option<Timestamp>,
    ) -> Result<TransitionOutcome, Error> {
        if known.fingerprint != self.fingerprint()? && known.key.is_some() {
            return Ok(TransitionOutcome::KeyConflict { existing: Box::new(known) });
        }
        wait_for_recorded(engine, known, deadline).await
    }

    fn check_override(&self) -> Result<(), Error> {
        let Some(Override { by, reason }) = &self.overridden else { return Ok(()) };
        check_actor_and_reason(by, reason)?;
        match by.role {
            Role::Manager => Ok(()),
            Role::Operator => Err(Error::NotManager),
        }
    }

    /// Returns the step as the requester sees it, or the reason why they may not take it.
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
        if view.key_required && self.key.is_none() && !self.has_caller_id {
            return Err(Error::StepKeyMissing(self.step.to_string()));
        }
        Ok(Ok(view))
    }

    /// Validates the step if it applies to the entity's status. Otherwise the store decides the result.
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
            effect_key: EffectKey::for_operation(self.id, self.step.as_str()),
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

/// Result of reserving an operation id that a caller chose.
enum IdReservation {
    /// This request has the id.
    Reserved(OperationIdGuard),
    /// Another request here runs the operation with this id; this is its record.
    InProgress(Box<Operation>),
    /// Another request is about to begin the operation, and the caller's wait is over.
    TimedOut,
}

async fn reserve_id(
    engine: &Engine,
    id: OperationId,
    deadline: Option<Timestamp>,
) -> Result<IdReservation, Error> {
    let inner = &engine.inner;
    loop {
        if let Some(guard) = OperationIdGuard::new(inner, id) {
            return Ok(IdReservation::Reserved(guard));
        }
        if let Some(known) =
            inner.call_store(engine.entity_store()?.find_operation(&engine.workspace, id)).await?
        {
            return Ok(IdReservation::InProgress(Box::new(known)));
        }
        let looking = inner.clock.sleep_until(inner.clock.now().plus(Duration::from_millis(10)));
        if before_deadline(engine, deadline, looking).await.is_none() {
            return Ok(IdReservation::TimedOut);
        }
    }
}

/// Sends the request, and repeats it once if its outcome is unknown. The store recognises the repetition.
async fn begin(
    engine: &Engine,
    store: &dyn EntityStore,
    request: BeginOperation,
) -> Result<BeginOperationOutcome, StoreError> {
    let inner = &engine.inner;
    match inner.call_store(store.begin_operation(request.clone())).await {
        Err(StoreError::Unknown(_)) => {
            Counters::add(&inner.counters.unknown_resolved);
            inner.call_store(store.begin_operation(request)).await
        }
        answer => answer,
    }
}

/// Waits until a recorded operation ends or the deadline passes, and returns its result.
async fn wait_for_recorded(
    engine: &Engine,
    mut known: Operation,
    deadline: Option<Timestamp>,
) -> Result<TransitionOutcome, Error> {
    let inner = &engine.inner;
    let mut look_after = Duration::from_millis(20);
    while matches!(known.state, OperationState::Pending { .. }) {
        let looking = inner.clock.sleep_until(inner.clock.now().plus(look_after));
        let ended = inner.operation_finished.notified();
        let waited = async {
            tokio::select! {
                () = ended => {}
                () = looking => {}
            }
        };
        if before_deadline(engine, deadline, waited).await.is_none() {
            return Ok(TransitionOutcome::Pending { operation: Box::new(known), recorded: true });
        }
        look_after = (look_after * 2).min(inner.options.poll_every * 4);
        let found =
            inner.call_store(engine.entity_store()?.find_operation(&engine.workspace, known.id)).await?;
        known = found.ok_or(Error::NoSuchOperation(known.id))?;
    }
    Ok(TransitionOutcome::of(known, None, true))
}

async fn before_deadline<T>(
    engine: &Engine,
    deadline: Option<Timestamp>,
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
    type Output = Result<TransitionOutcome, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl Engine {
    /// Returns the workflow for an entity type. If it is unknown here, another node may have received it, so
    /// it is loaded.
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
