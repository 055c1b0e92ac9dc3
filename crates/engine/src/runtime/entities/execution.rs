//! Runs the action of an operation while its claim holds, and records the result.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::heartbeats::ActiveOperation;
use super::probing;
use super::registry::{ActionCode, Registered};
use super::step_call::{ActionAnswer, StepCall};
use super::transition::TransitionOutcome;
use crate::model::{
    Action, AfterFailure, EffectKey, Entity, EntityJournalEntry, Failure, FinishBy, FinishOperation,
    FinishOperationOutcome, JournalEvent, Name, Occurrence, Operation, OperationEnd, OperationState,
    OutboxMessage, OutboxState, PANICKED, Payload, RunId, RunResult, StepView, Timestamp,
    decide_after_failure,
};
use crate::runtime::drive::panic_text;
use crate::runtime::inner::Phase;
use crate::runtime::stats::Counters;
use crate::runtime::{Engine, Error};
use crate::store::{EntityStore, StoreError, TransactOperation, TransactOperationOutcome};

/// Failure code of an operation whose entity was changed by another writer while its action ran.
pub const CONCURRENCY_ERROR: &str = "CONCURRENCY_ERROR";

/// Number of tries to record a late outcome.
const LATE_RECORD_TRIES: u32 = 10;
/// Wait before the second try. It doubles after each try.
const LATE_RECORD_WAIT: Duration = Duration::from_millis(50);

/// Runs the action of an operation that began here at `since`, and finishes the operation.
pub(super) async fn execute_action(
    engine: Engine,
    registered: Arc<Registered>,
    view: StepView,
    operation: Operation,
    entity: Entity,
    since: Duration,
) -> Result<TransitionOutcome, Error> {
    let inner = engine.inner.clone();
    let patience = inner.entities.patience_of(&operation.module);
    let active = inner.active_operations.start(&inner.clock, &operation, patience, since);
    let (id, attempt) = (operation.id, operation.attempt);
    let mut execution = ActionExecution { engine: engine.clone(), registered, view, operation, entity };
    let outcome = execution.run(&active).await;
    inner.active_operations.finish(id, attempt);
    inner.operation_finished.notify_waiters();
    if inner.phase() != Phase::Running {
        // A shutdown waits for the last operation.
        inner.changed.notify_waiters();
    }
    outcome
}

/// End of an action.
enum ActionEnd {
    /// The action ended; its result must be recorded.
    Ended(OperationEnd),
    /// The action committed its result in its own transaction.
    Committed(FinishOperationOutcome),
    /// The action continues without this process. The next follower records its end.
    Detached(Error),
}

struct ActionExecution {
    engine: Engine,
    registered: Arc<Registered>,
    view: StepView,
    operation: Operation,
    entity: Entity,
}

impl ActionExecution {
    async fn run(&mut self, active: &ActiveOperation) -> Result<TransitionOutcome, Error> {
        if self.is_in_transaction() {
            active.set_ending();
        }
        let mut tries = self.operation.tries;
        loop {
            let end = match self.attempt(active, tries).await {
                AttemptOutcome::FinishOperationOutcome(ActionEnd::Ended(end)) => end,
                AttemptOutcome::FinishOperationOutcome(ActionEnd::Committed(finished)) => {
                    return self.handle_finished(finished, tries).await;
                }
                AttemptOutcome::FinishOperationOutcome(ActionEnd::Detached(error)) => return Err(error),
                AttemptOutcome::ClaimLost(late) => return self.handle_lost_claim(late, tries).await,
            };
            let (end, notes) = match end {
                OperationEnd::Failed(failure) if !self.is_in_transaction() => {
                    match decide_after_failure(&self.view, &self.operation, &failure, tries) {
                        AfterFailure::Release => (OperationEnd::Failed(failure), Vec::new()),
                        AfterFailure::Doubt => {
                            let attempt = self.attempt_number(tries);
                            (
                                OperationEnd::InDoubt,
                                vec![self.note(JournalEvent::Doubted { attempt, failure })],
                            )
                        }
                        AfterFailure::TryAgain { after } => {
                            if !self.try_again(active, failure, after, &mut tries).await? {
                                return self.handle_lost_claim(None, tries).await;
                            }
                            continue;
                        }
                    }
                }
                end => (end, Vec::new()),
            };
            active.set_ending();
            let finished = tokio::select! {
                biased;
                finished = self.finish(end.clone(), tries, notes) => finished?,
                () = active.lost() => return self.handle_lost_claim(Some(end), tries).await,
            };
            return match finished {
                FinishOperationOutcome::Lost(_) => self.handle_lost_claim(Some(end), tries).await,
                finished => self.handle_finished(finished, tries).await,
            };
        }
    }

    /// Runs the action once. Its answer counts even if the claim was lost in between.
    async fn attempt(&self, active: &ActiveOperation, tries: u32) -> AttemptOutcome {
        let key = self.operation.effect_key();
        let (operation, step, entity) = (self.operation.id, &self.operation.step, &self.operation.entity);
        let number = self.attempt_number(tries);
        if tries > 0 {
            Counters::add(&self.engine.inner.counters.effects);
            tracing::info!(%key, %operation, %step, %entity, attempt = number, "effect begun");
        }
        let acting = self.act(active, number);
        tokio::pin!(acting);
        let acted = tokio::select! {
            biased;
            acted = &mut acting => acted,
            () = active.lost() => match self.wait_for_answer(acting).await {
                Some(ActionEnd::Ended(end)) => return AttemptOutcome::ClaimLost(Some(end)),
                _ => return AttemptOutcome::ClaimLost(None),
            },
        };
        if tries > 0
            && let ActionEnd::Ended(end) = &acted
        {
            let outcome = outcome_label(end);
            tracing::info!(%key, %operation, %step, %entity, attempt = number, outcome, "effect ended");
        }
        AttemptOutcome::FinishOperationOutcome(acted)
    }

    /// Waits for the answer after the claim was lost. Nothing more is sent. A request in flight may still be
    /// answered, which is evidence. Code is stopped at once.
    async fn wait_for_answer(&self, acting: impl Future<Output = ActionEnd>) -> Option<ActionEnd> {
        let inner = &self.engine.inner;
        if inner.phase() == Phase::Killed || !matches!(self.view.action, Some(Action::Hosted(_))) {
            return None;
        }
        let (step, requester) = (&self.operation.step, self.operation.requester.as_ref());
        let patience = self.registered.host.action_timeout(step, requester);
        tokio::select! {
            biased;
            acted = acting => Some(acted),
            () = inner.clock.sleep_until(inner.clock.now().plus(patience)) => None,
        }
    }

    /// Records that the action is retried, and waits until it is due. Returns false if the claim was lost.
    async fn try_again(
        &mut self,
        active: &ActiveOperation,
        failure: Failure,
        after: Duration,
        tries: &mut u32,
    ) -> Result<bool, Error> {
        let (inner, key) = (&self.engine.inner, self.operation.effect_key());
        tracing::warn!(%key, operation = %self.operation.id, attempt = *tries, %failure, ?after,
            "the outcome of an effect is unknown; it is tried again under the same key");
        Counters::add(&inner.counters.retries);
        // A span, not an instant: a wall clock that is set back must not hold up the next attempt.
        tokio::select! {
            biased;
            () = active.lost() => return Ok(false),
            () = inner.clock.sleep(after) => {}
        }
        let attempt = self.attempt_number(*tries);
        let notes = vec![self.note(JournalEvent::Failed { attempt, failure })];
        let writing = self.finish(OperationEnd::TryAgain, *tries + 1, notes);
        let finished = tokio::select! {
            biased;
            () = active.lost() => return Ok(false),
            finished = writing => finished?,
        };
        *tries += 1;
        match finished {
            FinishOperationOutcome::Finished { operation, .. } | FinishOperationOutcome::Again(operation) => {
                // Other operations may have used numbers under the same effect key.
                self.operation.tries_before = operation.tries_before;
                Ok(true)
            }
            FinishOperationOutcome::Lost(_) | FinishOperationOutcome::Stale(_) => Ok(false),
        }
    }

    /// Number of an attempt among all attempts under the effect key.
    fn attempt_number(&self, tries: u32) -> u32 {
        self.operation.tries_before + tries.max(1)
    }

    /// Converts a write that took effect, or that found the entity changed.
    async fn handle_finished(
        &self,
        finished: FinishOperationOutcome,
        tries: u32,
    ) -> Result<TransitionOutcome, Error> {
        match finished {
            FinishOperationOutcome::Finished { operation, entity, .. } => {
                self.engine.inner.outbox_ready.notify_one();
                if matches!(operation.state, OperationState::InDoubt { .. }) {
                    Counters::add(&self.engine.inner.counters.doubts);
                    tracing::warn!(key = %operation.effect_key(), operation = %operation.id, "effect in doubt");
                    probing::schedule_probe(&self.engine, &operation);
                }
                Ok(TransitionOutcome::of(*operation, entity, false))
            }
            FinishOperationOutcome::Again(operation) => Ok(TransitionOutcome::of(*operation, None, false)),
            FinishOperationOutcome::Lost(_) => self.handle_lost_claim(None, tries).await,
            FinishOperationOutcome::Stale(_) => {
                Counters::add(&self.engine.inner.counters.stale_writes);
                // Nothing was written: another writer changed the entity while the action ran.
                let why = format!("{} was modified concurrently", self.operation.entity);
                // Only an action with an effect outside the store may have happened.
                let failure = match tries > 0 || self.operation.run.is_some() {
                    true => Failure::unknown(why),
                    false => Failure::retryable(why),
                };
                let end = OperationEnd::Failed(failure.with_code(CONCURRENCY_ERROR));
                // The action happened, whatever the result of the operation.
                let number = self.attempt_number(tries);
                let what = JournalEvent::Attempted { attempt: number, occurrence: Occurrence::Happened };
                let evidence = self.operation.evidence(number, Occurrence::Happened);
                let notes = evidence
                    .map(|evidence| EntityJournalEntry { evidence: Some(evidence), ..self.note(what) });
                match self.finish(end, tries, notes.into_iter().collect()).await? {
                    FinishOperationOutcome::Finished { operation, entity, .. } => {
                        Ok(TransitionOutcome::of(*operation, entity, false))
                    }
                    FinishOperationOutcome::Again(operation) => {
                        Ok(TransitionOutcome::of(*operation, None, false))
                    }
                    FinishOperationOutcome::Lost(_) | FinishOperationOutcome::Stale(_) => {
                        self.handle_lost_claim(None, tries).await
                    }
                }
            }
        }
    }

    /// Returns whether the action commits its result itself.
    fn is_in_transaction(&self) -> bool {
        let Some(Action::Handler { name, .. }) = &self.view.action else { return false };
        matches!(self.engine.inner.entities.find_action(name), Some(ActionCode::InTransaction(_)))
    }

    /// Handles the loss of the claim. If no other decision was made, the known result is still recorded. A
    /// result after that resolves a doubt if it shows that the action happened. Otherwise it is only
    /// evidence.
    async fn handle_lost_claim(
        &self,
        late: Option<OperationEnd>,
        tries: u32,
    ) -> Result<TransitionOutcome, Error> {
        let inner = &self.engine.inner;
        if inner.phase() == Phase::Killed {
            return Err(Error::ShuttingDown);
        }
        Counters::add(&inner.counters.fenced_writes);
        let Operation { id, attempt, .. } = self.operation;
        let key = self.operation.effect_key();
        let occurrence = late.as_ref().and_then(known_occurrence);
        tracing::warn!(%key, operation = %id, ?occurrence, "the operation was taken from this process; nothing more is sent");
        let evidence =
            occurrence.and_then(|known| self.operation.evidence(self.attempt_number(tries), known));
        let note =
            EntityJournalEntry { evidence, ..self.note(JournalEvent::Refused { attempt, occurrence }) };
        if let (Some(occurrence), Some(end)) = (occurrence, late) {
            let written = match self.finish(end.clone(), tries, Vec::new()).await? {
                FinishOperationOutcome::Lost(_) if occurrence == Occurrence::Happened => {
                    let now = inner.store.now();
                    let request =
                        finish_request(&self.operation, Some(&self.view), FinishBy::LateResult, end, now);
                    let request = FinishOperation { notes: vec![note.clone()], ..request };
                    finish(&self.engine, request).await?
                }
                written => written,
            };
            match written {
                FinishOperationOutcome::Finished { operation, entity, .. } => {
                    inner.outbox_ready.notify_one();
                    return Ok(TransitionOutcome::of(*operation, entity, false));
                }
                FinishOperationOutcome::Again(operation) => {
                    return Ok(TransitionOutcome::of(*operation, None, false));
                }
                FinishOperationOutcome::Lost(_) | FinishOperationOutcome::Stale(_) => {}
            }
        }
        let store = self.engine.entity_store()?;
        self.record_late_notes(store, vec![note]).await;
        let stands = inner.call_store(store.find_operation(&self.operation.workspace, id)).await?;
        Ok(TransitionOutcome::of(stands.ok_or(Error::NoSuchOperation(id))?, None, false))
    }

    /// Records late notes. They are evidence, so the write is repeated if the store does not answer.
    async fn record_late_notes(&self, store: &dyn EntityStore, notes: Vec<EntityJournalEntry>) {
        let inner = &self.engine.inner;
        let (key, operation) = (self.operation.effect_key(), self.operation.id);
        let mut wait = LATE_RECORD_WAIT;
        for _ in 0..LATE_RECORD_TRIES {
            let Err(error) = inner.call_store(store.append_entity_journal(notes.clone())).await else {
                return;
            };
            tracing::warn!(%key, %error, %operation, "a late outcome could not be noted yet");
            if !error.is_retryable() || inner.phase() == Phase::Killed {
                return;
            }
            inner.clock.sleep_until(inner.clock.now().plus(wait)).await;
            wait *= 2;
        }
    }

    fn note(&self, what: JournalEvent) -> EntityJournalEntry {
        EntityJournalEntry {
            workspace: self.operation.workspace.clone(),
            entity: self.operation.entity.clone(),
            operation: Some(self.operation.id),
            at: self.engine.inner.store.now(),
            by: None,
            what,
            evidence: None,
        }
    }

    async fn act(&self, active: &ActiveOperation, number: u32) -> ActionEnd {
        let Some(action) = &self.view.action else {
            return ActionEnd::Ended(OperationEnd::Done { result: Payload::null(), data: None });
        };
        let acting = async {
            // The task may have waited to be scheduled. After losing the claim it must not run the action.
            if let Err(failure) = active.hold.ensure_still_held() {
                return ActionEnd::Ended(OperationEnd::Failed(failure));
            }
            match action {
                Action::Hosted(_) => {
                    self.to_action_end(self.registered.host.act(self.call(active, number)).await)
                }
                Action::Workflow(workflow) => self.follow_run(workflow, active, number).await,
                Action::Handler { name, .. } => match self.engine.inner.entities.find_action(name) {
                    Some(ActionCode::Free(code)) => self.to_action_end(code(self.call(active, number)).await),
                    Some(ActionCode::InTransaction(make)) => {
                        self.transact(make(self.call(active, number))).await
                    }
                    None => match self.engine.inner.entities.elsewhere() {
                        Some(elsewhere) => {
                            self.to_action_end(elsewhere.act(name, self.call(active, number)).await)
                        }
                        None => {
                            let failure = Failure::permanent(format!(
                                "no action {name} is registered here; register it before its steps are taken"
                            ));
                            ActionEnd::Ended(OperationEnd::Failed(failure.with_code("unknown_action")))
                        }
                    },
                },
            }
        };
        match AssertUnwindSafe(acting).catch_unwind().await {
            Ok(acted) => acted,
            Err(panic) => {
                let text = panic_text(&*panic);
                tracing::error!(operation = %self.operation.id, step = %self.operation.step, "the action panicked: {text}");
                let failure = Failure::unknown(format!("the action panicked: {text}")).with_code(PANICKED);
                ActionEnd::Ended(OperationEnd::Failed(failure))
            }
        }
    }

    fn call(&self, active: &ActiveOperation, number: u32) -> StepCall {
        StepCall::of(&self.operation, &self.entity, number, active.hold.clone())
    }

    fn to_action_end(&self, answer: Result<ActionAnswer, Failure>) -> ActionEnd {
        let end = match answer.and_then(|answer| to_operation_end(&self.operation, answer)) {
            Ok(end) => end,
            Err(failure) => OperationEnd::Failed(failure),
        };
        ActionEnd::Ended(end)
    }

    /// Starts the run with the operation's id, so that repeated starts give one run, and waits for its end.
    async fn follow_run(&self, workflow: &Name, active: &ActiveOperation, number: u32) -> ActionEnd {
        let input = match self.registered.host.run_input(&self.call(active, number)).await {
            Ok(input) => input,
            Err(failure) => return ActionEnd::Ended(OperationEnd::Failed(failure)),
        };
        let start = self.engine.start_payload(workflow.as_str(), input).run_id(self.operation.id.as_run());
        let run = match start.await {
            Ok(run) => run,
            // The run may have been started. The next follower finds out.
            Err(error @ (Error::Store(_) | Error::ShuttingDown)) => return ActionEnd::Detached(error),
            Err(error) => {
                let failure = Failure::permanent(error.to_string()).with_code("run_not_started");
                return ActionEnd::Ended(OperationEnd::Failed(failure));
            }
        };
        match run.wait_for_end().await {
            Ok(result) => ActionEnd::Ended(operation_end_of_run(result)),
            Err(error) => ActionEnd::Detached(error),
        }
    }

    /// Commits the action's writes, the new status and the record together.
    async fn transact(&self, work: Box<dyn std::any::Any + Send + Sync>) -> ActionEnd {
        let rejected = Arc::new(Mutex::new(None));
        let (stash, operation, view) = (rejected.clone(), self.operation.clone(), self.view.clone());
        let (owner, now) = (self.engine.inner.owner, self.engine.inner.store.now());
        let finish = Box::new(move |output: Payload| {
            let answer = output.to::<ActionAnswer>().map_err(|error| {
                Failure::permanent(format!("the work of an action gives an ActionAnswer: {error}"))
                    .with_code("answer_mismatch")
            })?;
            match to_operation_end(&operation, answer)? {
                OperationEnd::Rejected(failure) => {
                    // The writes are rolled back as for a failure. Only the record differs.
                    *stash.lock().expect("no holder panics") = Some(failure.clone());
                    Err(failure)
                }
                end => Ok(finish_request(&operation, Some(&view), FinishBy::Holder(owner), end, now)),
            }
        });
        let inner = &self.engine.inner;
        let store = match self.engine.entity_store() {
            Ok(store) => store,
            Err(error) => {
                return ActionEnd::Ended(OperationEnd::Failed(Failure::permanent(error.to_string())));
            }
        };
        match inner.call_store(store.transact_operation(TransactOperation { work, finish })).await {
            Ok(TransactOperationOutcome::Worked(finished)) => ActionEnd::Committed(finished),
            Ok(TransactOperationOutcome::WorkFailed(failure)) => {
                match rejected.lock().expect("no holder panics").take() {
                    Some(failure) => ActionEnd::Ended(OperationEnd::Rejected(failure)),
                    None => ActionEnd::Ended(OperationEnd::Failed(failure)),
                }
            }
            // If the transaction took effect after all, recording a failure is refused. If it is not refused,
            // the transaction did not happen.
            Err(error @ (StoreError::Unknown(_) | StoreError::Unavailable(_))) => {
                ActionEnd::Ended(OperationEnd::Failed(Failure::retryable(error)))
            }
            Err(error) => {
                let failure = Failure::permanent(error).with_code("transaction_refused");
                ActionEnd::Ended(OperationEnd::Failed(failure))
            }
        }
    }

    async fn finish(
        &self,
        end: OperationEnd,
        tries: u32,
        notes: Vec<EntityJournalEntry>,
    ) -> Result<FinishOperationOutcome, Error> {
        let by = match self.operation.run {
            Some(_) => FinishBy::Run,
            None => FinishBy::Holder(self.engine.inner.owner),
        };
        let now = self.engine.inner.store.now();
        let request = finish_request(&self.operation, Some(&self.view), by, end, now);
        finish(&self.engine, FinishOperation { tries: Some(tries), notes, ..request }).await
    }
}

/// Outcome of one attempt at an action.
enum AttemptOutcome {
    /// The action ended while the claim held.
    FinishOperationOutcome(ActionEnd),
    /// The claim was lost. The action may still have answered.
    ClaimLost(Option<OperationEnd>),
}

/// Returns whether the attempt happened, as far as the end of the action shows; `None` if it is unknown.
fn known_occurrence(end: &OperationEnd) -> Option<Occurrence> {
    let known = match end {
        OperationEnd::Done { .. } => Occurrence::Happened,
        OperationEnd::Rejected(_) => Occurrence::DidNotHappen,
        OperationEnd::Failed(failure) => Occurrence::from_failure(failure),
        OperationEnd::Reverted
        | OperationEnd::DidNotHappen
        | OperationEnd::InDoubt
        | OperationEnd::TryAgain => Occurrence::MayHaveHappened,
    };
    (known != Occurrence::MayHaveHappened).then_some(known)
}

fn outcome_label(end: &OperationEnd) -> &'static str {
    match end {
        OperationEnd::Done { .. } => "completed",
        OperationEnd::Rejected(_) => "rejected",
        OperationEnd::Failed(failure) if failure.may_have_happened() => "unknown",
        OperationEnd::Failed(_) => "failed",
        OperationEnd::Reverted | OperationEnd::DidNotHappen => "did_not_happen",
        OperationEnd::InDoubt | OperationEnd::TryAgain => "unknown",
    }
}

/// Sends the request until the store has answered. A claim that is not released must wait for the janitor.
pub(super) async fn finish(
    engine: &Engine,
    request: FinishOperation,
) -> Result<FinishOperationOutcome, Error> {
    let (inner, store) = (&engine.inner, engine.entity_store()?);
    let mut wait = Duration::from_millis(5);
    loop {
        match inner.call_store(store.finish_operation(request.clone())).await {
            Err(error) if error.is_retryable() && inner.phase() != Phase::Killed => {
                tracing::warn!(%error, operation = %request.operation, "the outcome of an operation is not recorded yet; trying again");
                inner.clock.sleep_until(inner.clock.now().plus(wait)).await;
                wait = (wait * 2).min(Duration::from_secs(1));
            }
            answer => return Ok(answer?),
        }
    }
}

fn to_operation_end(operation: &Operation, answer: ActionAnswer) -> Result<OperationEnd, Failure> {
    Ok(match answer {
        ActionAnswer::Done { result, data } => {
            if data.is_some() && operation.home.table().is_some() {
                let why = format!(
                    "{} lives in your own table: write its data in the action's transaction",
                    operation.entity
                );
                return Err(Failure::permanent(why).with_code("data_mismatch"));
            }
            if data.as_ref().is_some_and(|data| !data.is_object()) {
                return Err(Failure::permanent("the data of an entity must be a JSON object")
                    .with_code("data_mismatch"));
            }
            let data = data.as_ref().map(Payload::of).transpose()?;
            OperationEnd::Done { result: Payload::of(&result)?, data }
        }
        ActionAnswer::Rejected { failure } => OperationEnd::Rejected(failure),
    })
}

/// Converts the result of the run that carries out an operation.
pub(super) fn operation_end_of_run(result: RunResult) -> OperationEnd {
    match result {
        RunResult::Completed(output) => OperationEnd::Done { result: output, data: None },
        RunResult::Failed(failure) => OperationEnd::Failed(failure),
        RunResult::Cancelled(failure) => OperationEnd::Rejected(failure),
    }
}

/// Request that finishes an operation, with the after-effects of its step, if the step still exists.
pub(super) fn finish_request(
    operation: &Operation,
    view: Option<&StepView>,
    by: FinishBy,
    end: OperationEnd,
    now: Timestamp,
) -> FinishOperation {
    let posts = view.and_then(|view| after_effect(operation, view, &end, now)).into_iter().collect();
    FinishOperation {
        workspace: operation.workspace.clone(),
        operation: operation.id,
        attempt: operation.attempt,
        by,
        end,
        tries: None,
        posts,
        notes: Vec::new(),
    }
}

fn after_effect(
    operation: &Operation,
    view: &StepView,
    end: &OperationEnd,
    now: Timestamp,
) -> Option<OutboxMessage> {
    let read = |payload: &Payload| payload.to::<Value>().unwrap_or_default();
    let (target, what, status, came) = match end {
        OperationEnd::Done { result, .. } => {
            let came = ("result", read(result));
            (view.success_after_effect.as_ref()?, "success".to_owned(), &operation.to, came)
        }
        OperationEnd::Rejected(failure) | OperationEnd::Failed(failure) => {
            let came = ("failure", json!({ "message": failure.message(), "code": failure.code() }));
            let what = format!("failure~{}", operation.attempt);
            (view.failure_after_effect.as_ref()?, what, &operation.from, came)
        }
        OperationEnd::Reverted
        | OperationEnd::DidNotHappen
        | OperationEnd::InDoubt
        | OperationEnd::TryAgain => return None,
    };
    let mut payload = json!({
        "entity": { "type": operation.entity.kind.as_str(), "id": operation.entity.id.as_str(), "status": status.as_str() },
        "workflow": operation.workflow.as_str(),
        "step": operation.step.as_str(),
        "requester": operation.requester.as_ref().map(Name::as_str),
        "operation": operation.id.to_string(),
        "input": read(&operation.input),
    });
    payload[came.0] = came.1;
    // A maximum-size input and a maximum-size result do not fit into one message. The receiver can read them
    // from the operation.
    let payload = Payload::of(&payload).or_else(|_| {
        payload["input"] = Value::Null;
        payload[came.0] = Value::Null;
        Payload::of(&payload)
    });
    Some(OutboxMessage {
        workspace: operation.workspace.clone(),
        id: EffectKey::for_operation(operation.id, &format!("{}~{what}", operation.step)),
        run: RunId::NONE,
        target: target.clone(),
        payload: payload.ok()?,
        created_at: now,
        attempts: 0,
        failure: None,
        state: OutboxState::Due { at: now },
    })
}
