//! Runs the action of an operation while its claim is kept, and writes what became of it.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::held::Held;
use super::registry::{ActionCode, Registered};
use super::step_call::{Answer, StepCall};
use super::transition::Outcome;
use crate::limits::CLAIM_STALE_AFTER;
use crate::model::{
    Action, EffectKey, Entity, EntityNote, Failure, FinishBy, FinishOperation, Finished, Name, Noted,
    Operation, OperationEnd, Payload, Post, PostState, RunId, RunResult, StepView, Timestamp,
};
use crate::runtime::drive::panic_text;
use crate::runtime::inner::Phase;
use crate::runtime::stats::Counters;
use crate::runtime::{Engine, Error};
use crate::store::{StoreError, TransactOperation, TransactedOperation};

/// The code of the failure of an action that panicked.
pub const PANICKED: &str = "panicked";
/// The code of the failure of an operation whose entity was changed by somebody else while its action ran.
pub const CHANGED_MEANWHILE: &str = "CONCURRENCY_ERROR";

/// Runs the action of an operation that was begun here at `since`, and finishes it.
pub(super) async fn carry_out(
    engine: Engine,
    registered: Arc<Registered>,
    view: StepView,
    operation: Operation,
    entity: Entity,
    since: Duration,
) -> Result<Outcome, Error> {
    let inner = engine.inner.clone();
    let janitor = inner.entities.find_janitor(&registered.workflow.module);
    let patience = janitor.map_or(CLAIM_STALE_AFTER, |janitor| janitor.stale_after);
    let held = inner.held.hold(&operation, patience, since);
    let (id, attempt) = (operation.id, operation.attempt);
    let errand = Errand { engine: engine.clone(), registered, view, operation, entity };
    let outcome = errand.run(&held).await;
    inner.held.let_go(id, attempt);
    inner.operated.notify_waiters();
    if inner.phase() != Phase::Running {
        // Who shuts down waits for the last one.
        inner.changed.notify_waiters();
    }
    outcome
}

/// How far an action came.
enum Acted {
    /// This is to be written.
    End(OperationEnd),
    /// It wrote by itself, in its transaction.
    Written(Finished),
}

struct Errand {
    engine: Engine,
    registered: Arc<Registered>,
    view: StepView,
    operation: Operation,
    entity: Entity,
}

impl Errand {
    async fn run(&self, held: &Held) -> Result<Outcome, Error> {
        if self.is_in_transaction() {
            held.ends();
        }
        let acted = tokio::select! {
            biased;
            () = held.lost() => return self.given_up().await,
            acted = self.act() => acted,
        };
        let finished = match acted {
            Acted::Written(finished) => finished,
            Acted::End(end) => {
                held.ends();
                tokio::select! {
                    biased;
                    () = held.lost() => return self.given_up().await,
                    finished = self.finish(end) => finished?,
                }
            }
        };
        match finished {
            Finished::Finished { operation, entity } => {
                self.engine.inner.posted.notify_one();
                Ok(Outcome::of(*operation, entity, false))
            }
            Finished::Again(operation) => Ok(Outcome::of(*operation, None, false)),
            Finished::Lost(_) => self.given_up().await,
            Finished::Stale(_) => {
                Counters::add(&self.engine.inner.counters.stale_writes);
                // Nothing was written: somebody changed the entity while the action ran.
                let failure =
                    Failure::unknown(format!("{} was modified concurrently", self.operation.entity));
                let end = OperationEnd::Failed(failure.with_code(CHANGED_MEANWHILE));
                match self.finish(end).await? {
                    Finished::Finished { operation, entity } => Ok(Outcome::of(*operation, entity, false)),
                    Finished::Again(operation) => Ok(Outcome::of(*operation, None, false)),
                    Finished::Lost(_) | Finished::Stale(_) => self.given_up().await,
                }
            }
        }
    }

    /// Does its action write what becomes of it?
    fn is_in_transaction(&self) -> bool {
        let Some(Action::Handler { name, .. }) = &self.view.action else { return false };
        matches!(self.engine.inner.entities.find_action(name), Some(ActionCode::InTransaction(_)))
    }

    /// Somebody else has decided about the operation meanwhile: what it came to is theirs to say, and nothing of ours is written.
    async fn given_up(&self) -> Result<Outcome, Error> {
        let inner = &self.engine.inner;
        if inner.phase() == Phase::Killed {
            return Err(Error::ShuttingDown);
        }
        Counters::add(&inner.counters.fenced_writes);
        let Operation { workspace, id, attempt, entity, .. } = &self.operation;
        let refused = EntityNote {
            workspace: workspace.clone(),
            entity: entity.clone(),
            operation: Some(*id),
            at: inner.store.now(),
            by: None,
            what: Noted::Refused { attempt: *attempt, occurrence: None },
            evidence: None,
        };
        let book = self.engine.entity_book()?;
        let stands =
            inner.answer(book.find_operation(workspace, *id)).await?.ok_or(Error::NoSuchOperation(*id))?;
        if let Err(error) = inner.answer(book.append_entity_notes(vec![refused])).await {
            tracing::warn!(%error, operation = %id, "that a late write was refused could not be noted");
        }
        Ok(Outcome::of(stands, None, false))
    }

    async fn act(&self) -> Acted {
        let Some(action) = &self.view.action else {
            return Acted::End(OperationEnd::Done { result: Payload::null(), data: None });
        };
        let acting = async {
            match action {
                Action::Hosted(_) => self.judge(self.registered.host.act(self.call()).await),
                Action::Workflow(workflow) => Acted::End(self.follow_run(workflow).await),
                Action::Handler { name, .. } => match self.engine.inner.entities.find_action(name) {
                    Some(ActionCode::Free(code)) => self.judge(code(self.call()).await),
                    Some(ActionCode::InTransaction(make)) => self.transact(make(self.call())).await,
                    None => {
                        let failure = Failure::permanent(format!(
                            "no action {name} is registered here; register it before its steps are taken"
                        ));
                        Acted::End(OperationEnd::Failed(failure.with_code("unknown_action")))
                    }
                },
            }
        };
        match AssertUnwindSafe(acting).catch_unwind().await {
            Ok(acted) => acted,
            Err(panic) => {
                let text = panic_text(&*panic);
                tracing::error!(operation = %self.operation.id, step = %self.operation.step, "the action panicked: {text}");
                let failure = Failure::unknown(format!("the action panicked: {text}")).with_code(PANICKED);
                Acted::End(OperationEnd::Failed(failure))
            }
        }
    }

    fn call(&self) -> StepCall {
        let operation = &self.operation;
        StepCall {
            workspace: operation.workspace.clone(),
            workflow: operation.workflow.clone(),
            step: operation.step.clone(),
            entity: self.entity.clone(),
            requester: operation.requester.clone(),
            input: operation.input.clone(),
            operation: operation.id,
            attempt: operation.attempt,
        }
    }

    fn judge(&self, answer: Result<Answer, Failure>) -> Acted {
        let end = match answer.and_then(|answer| end_of(&self.operation, answer)) {
            Ok(end) => end,
            Err(failure) => OperationEnd::Failed(failure),
        };
        Acted::End(end)
    }

    /// The run has the operation's number, so however often it is started there is one.
    async fn follow_run(&self, workflow: &Name) -> OperationEnd {
        let input = match self.registered.host.run_input(&self.call()).await {
            Ok(input) => input,
            Err(failure) => return OperationEnd::Failed(failure),
        };
        let start = self.engine.start_payload(workflow.as_str(), input).run_id(self.operation.id.as_run());
        let ending = match start.await {
            Ok(run) => run.ending().await,
            Err(error) => Err(error),
        };
        match ending {
            Ok(result) => end_of_run(result),
            Err(error) => {
                OperationEnd::Failed(Failure::unknown(error.to_string()).with_code("run_not_followed"))
            }
        }
    }

    /// The action's writes, the new status and the record are one commit.
    async fn transact(&self, work: Box<dyn std::any::Any + Send + Sync>) -> Acted {
        let rejected = Arc::new(Mutex::new(None));
        let (stash, operation, view) = (rejected.clone(), self.operation.clone(), self.view.clone());
        let (owner, now) = (self.engine.inner.owner, self.engine.inner.store.now());
        let finish = Box::new(move |output: Payload| {
            let answer = output.to::<Answer>().map_err(|error| {
                Failure::permanent(format!("the work of an action gives an Answer: {error}"))
                    .with_code("answer_mismatch")
            })?;
            match end_of(&operation, answer)? {
                OperationEnd::Rejected(failure) => {
                    // Its writes are taken back as if it had failed; only what is recorded differs.
                    *stash.lock().expect("no holder panics") = Some(failure.clone());
                    Err(failure)
                }
                end => Ok(finishing(&operation, Some(&view), FinishBy::Holder(owner), end, now)),
            }
        });
        let inner = &self.engine.inner;
        let book = match self.engine.entity_book() {
            Ok(book) => book,
            Err(error) => return Acted::End(OperationEnd::Failed(Failure::permanent(error.to_string()))),
        };
        match inner.answer(book.transact_operation(TransactOperation { work, finish })).await {
            Ok(TransactedOperation::Worked(finished)) => Acted::Written(finished),
            Ok(TransactedOperation::WorkFailed(failure)) => {
                match rejected.lock().expect("no holder panics").take() {
                    Some(failure) => Acted::End(OperationEnd::Rejected(failure)),
                    None => Acted::End(OperationEnd::Failed(failure)),
                }
            }
            // If it took effect after all, it is what stands: to say that it failed is then refused.
            Err(error @ StoreError::Unknown(_)) => Acted::End(OperationEnd::Failed(Failure::unknown(error))),
            Err(error @ StoreError::Unavailable(_)) => {
                Acted::End(OperationEnd::Failed(Failure::retryable(error)))
            }
            Err(error) => {
                let failure = Failure::permanent(error).with_code("transaction_refused");
                Acted::End(OperationEnd::Failed(failure))
            }
        }
    }

    async fn finish(&self, end: OperationEnd) -> Result<Finished, Error> {
        let by = match self.operation.run {
            Some(_) => FinishBy::Run,
            None => FinishBy::Holder(self.engine.inner.owner),
        };
        let now = self.engine.inner.store.now();
        let request = finishing(&self.operation, Some(&self.view), by, end, now);
        finish(&self.engine, request).await
    }
}

/// Sends it until the store has answered: a claim that is not given back waits for the janitor.
pub(super) async fn finish(engine: &Engine, request: FinishOperation) -> Result<Finished, Error> {
    let (inner, book) = (&engine.inner, engine.entity_book()?);
    let mut wait = Duration::from_millis(5);
    loop {
        match inner.answer(book.finish_operation(request.clone())).await {
            Err(error) if error.is_retryable() && inner.phase() != Phase::Killed => {
                tracing::warn!(%error, operation = %request.operation, "what became of an operation is not written yet; trying again");
                inner.clock.sleep_until(inner.clock.now().plus(wait)).await;
                wait = (wait * 2).min(Duration::from_secs(1));
            }
            answer => return Ok(answer?),
        }
    }
}

fn end_of(operation: &Operation, answer: Answer) -> Result<OperationEnd, Failure> {
    Ok(match answer {
        Answer::Done { result, data } => {
            if data.is_some() && operation.home.table().is_some() {
                let why = format!(
                    "{} lives in a table of yours: write what is known of it in the action's transaction",
                    operation.entity
                );
                return Err(Failure::permanent(why).with_code("data_mismatch"));
            }
            if data.as_ref().is_some_and(|data| !data.is_object()) {
                return Err(Failure::permanent("what is known of an entity is a JSON object")
                    .with_code("data_mismatch"));
            }
            let data = data.as_ref().map(Payload::of).transpose()?;
            OperationEnd::Done { result: Payload::of(&result)?, data }
        }
        Answer::Rejected { failure } => OperationEnd::Rejected(failure),
    })
}

/// What the end of the run that carries out an operation means to it.
pub(super) fn end_of_run(result: RunResult) -> OperationEnd {
    match result {
        RunResult::Completed(output) => OperationEnd::Done { result: output, data: None },
        RunResult::Failed(failure) => OperationEnd::Failed(failure),
        RunResult::Cancelled(failure) => OperationEnd::Rejected(failure),
    }
}

/// The write that finishes an operation, with the after-effects that its step asks for, if there still is one.
pub(super) fn finishing(
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
        posts,
        notes: Vec::new(),
    }
}

fn after_effect(operation: &Operation, view: &StepView, end: &OperationEnd, now: Timestamp) -> Option<Post> {
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
        OperationEnd::Reverted | OperationEnd::InDoubt => return None,
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
    // An input and a result that are each as large as may be are too much for one: they can be read from the operation.
    let payload = Payload::of(&payload).or_else(|_| {
        payload["input"] = Value::Null;
        payload[came.0] = Value::Null;
        Payload::of(&payload)
    });
    Some(Post {
        workspace: operation.workspace.clone(),
        id: EffectKey::of_operation(operation.id, &format!("{}~{what}", operation.step)),
        run: RunId::NONE,
        target: target.clone(),
        payload: payload.ok()?,
        created_at: now,
        attempts: 0,
        failure: None,
        state: PostState::Due { at: now },
    })
}
