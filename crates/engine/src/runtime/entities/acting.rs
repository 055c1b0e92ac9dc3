//! Runs the action of an operation while its claim is kept, and writes what became of it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::held::Held;
use super::probing;
use super::registry::{ActionCode, Registered};
use super::step_call::{Answer, StepCall};
use super::transition::Outcome;
use crate::model::{
    Action, AfterFailure, EffectKey, Entity, EntityNote, Failure, FinishBy, FinishOperation, Finished,
    JournalEvent, Name, Occurrence, Operation, OperationEnd, OperationState, OutboxMessage, OutboxState,
    PANICKED, Payload, RunId, RunResult, StepView, Timestamp, decide_after_failure,
};
use crate::runtime::drive::panic_text;
use crate::runtime::inner::Phase;
use crate::runtime::stats::Counters;
use crate::runtime::{Engine, Error};
use crate::store::{EntityStore, StoreError, TransactOperation, TransactedOperation};

/// The code of the failure of an operation whose entity was changed by somebody else while its action ran.
pub const CHANGED_MEANWHILE: &str = "CONCURRENCY_ERROR";

/// How often it is tried to note an outcome that came too late.
const LATE_NOTE_TRIES: u32 = 10;
/// Pause before the second time; each time twice as long.
const LATE_NOTE_WAIT: Duration = Duration::from_millis(50);

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
    let patience = inner.entities.patience_of(&operation.module);
    let held = inner.held.hold(&inner.clock, &operation, patience, since);
    let (id, attempt) = (operation.id, operation.attempt);
    let mut errand = Errand { engine: engine.clone(), registered, view, operation, entity };
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
    /// It goes on without this process: whoever follows it writes its end.
    Left(Error),
}

struct Errand {
    engine: Engine,
    registered: Arc<Registered>,
    view: StepView,
    operation: Operation,
    entity: Entity,
}

impl Errand {
    async fn run(&mut self, held: &Held) -> Result<Outcome, Error> {
        if self.is_in_transaction() {
            held.ends();
        }
        let mut tries = self.operation.tries;
        loop {
            let end = match self.enter(held, tries).await {
                Entered::Acted(Acted::End(end)) => end,
                Entered::Acted(Acted::Written(finished)) => return self.finished(finished, tries).await,
                Entered::Acted(Acted::Left(error)) => return Err(error),
                Entered::Lost(late) => return self.given_up(late, tries).await,
            };
            let (end, notes) = match end {
                OperationEnd::Failed(failure) if !self.is_in_transaction() => {
                    match decide_after_failure(&self.view, &self.operation, &failure, tries) {
                        AfterFailure::Release => (OperationEnd::Failed(failure), Vec::new()),
                        AfterFailure::Doubt => {
                            let attempt = self.try_number(tries);
                            (
                                OperationEnd::InDoubt,
                                vec![self.note(JournalEvent::Doubted { attempt, failure })],
                            )
                        }
                        AfterFailure::TryAgain { after } => {
                            if !self.try_again(held, failure, after, &mut tries).await? {
                                return self.given_up(None, tries).await;
                            }
                            continue;
                        }
                    }
                }
                end => (end, Vec::new()),
            };
            held.ends();
            let finished = tokio::select! {
                biased;
                finished = self.finish(end.clone(), tries, notes) => finished?,
                () = held.lost() => return self.given_up(Some(end), tries).await,
            };
            return match finished {
                Finished::Lost(_) => self.given_up(Some(end), tries).await,
                finished => self.finished(finished, tries).await,
            };
        }
    }

    /// Enters the action once. What it has answered counts, whatever else has happened meanwhile.
    async fn enter(&self, held: &Held, tries: u32) -> Entered {
        let key = self.operation.effect_key();
        let (operation, step, entity) = (self.operation.id, &self.operation.step, &self.operation.entity);
        let number = self.try_number(tries);
        if tries > 0 {
            Counters::add(&self.engine.inner.counters.effects);
            tracing::info!(%key, %operation, %step, %entity, attempt = number, "effect begun");
        }
        let acting = self.act(held, number);
        tokio::pin!(acting);
        let acted = tokio::select! {
            biased;
            acted = &mut acting => acted,
            () = held.lost() => match self.wait_for_answer(acting).await {
                Some(Acted::End(end)) => return Entered::Lost(Some(end)),
                _ => return Entered::Lost(None),
            },
        };
        if tries > 0
            && let Acted::End(end) = &acted
        {
            let outcome = word_of(end);
            tracing::info!(%key, %operation, %step, %entity, attempt = number, outcome, "effect ended");
        }
        Entered::Acted(acted)
    }

    /// The claim is gone, so nothing is sent any more. A request that is under way may still be answered, which is evidence; code is stopped at once.
    async fn wait_for_answer(&self, acting: impl Future<Output = Acted>) -> Option<Acted> {
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

    /// Puts on record that the action is entered again, and waits for its time. False if the operation was lost meanwhile.
    async fn try_again(
        &mut self,
        held: &Held,
        failure: Failure,
        after: Duration,
        tries: &mut u32,
    ) -> Result<bool, Error> {
        let (inner, key) = (&self.engine.inner, self.operation.effect_key());
        tracing::warn!(%key, operation = %self.operation.id, attempt = *tries, %failure, ?after,
            "the outcome of an effect is unknown; it is tried again under the same key");
        Counters::add(&inner.counters.retries);
        let at = inner.clock.now().plus(after);
        while inner.clock.now() < at {
            tokio::select! {
                biased;
                () = held.lost() => return Ok(false),
                () = inner.clock.sleep_until(at) => {}
            }
        }
        let attempt = self.try_number(*tries);
        let notes = vec![self.note(JournalEvent::Failed { attempt, failure })];
        let writing = self.finish(OperationEnd::TryAgain, *tries + 1, notes);
        let finished = tokio::select! {
            biased;
            () = held.lost() => return Ok(false),
            finished = writing => finished?,
        };
        *tries += 1;
        match finished {
            Finished::Finished { operation, .. } | Finished::Again(operation) => {
                // Other operations may have used numbers under the same effect key meanwhile.
                self.operation.tries_before = operation.tries_before;
                Ok(true)
            }
            Finished::Lost(_) | Finished::Stale(_) => Ok(false),
        }
    }

    /// Number of a try among all under the effect key.
    fn try_number(&self, tries: u32) -> u32 {
        self.operation.tries_before + tries.max(1)
    }

    /// What a write came to that took effect, or found the entity changed.
    async fn finished(&self, finished: Finished, tries: u32) -> Result<Outcome, Error> {
        match finished {
            Finished::Finished { operation, entity, .. } => {
                self.engine.inner.posted.notify_one();
                if matches!(operation.state, OperationState::InDoubt { .. }) {
                    Counters::add(&self.engine.inner.counters.doubts);
                    tracing::warn!(key = %operation.effect_key(), operation = %operation.id, "effect in doubt");
                    probing::ask_in_time(&self.engine, &operation);
                }
                Ok(Outcome::of(*operation, entity, false))
            }
            Finished::Again(operation) => Ok(Outcome::of(*operation, None, false)),
            Finished::Lost(_) => self.given_up(None, tries).await,
            Finished::Stale(_) => {
                Counters::add(&self.engine.inner.counters.stale_writes);
                // Nothing was written: somebody changed the entity while the action ran.
                let why = format!("{} was modified concurrently", self.operation.entity);
                // Only what reached beyond the store may have happened.
                let failure = match tries > 0 || self.operation.run.is_some() {
                    true => Failure::unknown(why),
                    false => Failure::retryable(why),
                };
                let end = OperationEnd::Failed(failure.with_code(CHANGED_MEANWHILE));
                // The action did it, whatever becomes of the operation.
                let number = self.try_number(tries);
                let what = JournalEvent::Attempted { attempt: number, occurrence: Occurrence::Happened };
                let evidence = self.operation.evidence(number, Occurrence::Happened);
                let notes =
                    evidence.map(|evidence| EntityNote { evidence: Some(evidence), ..self.note(what) });
                match self.finish(end, tries, notes.into_iter().collect()).await? {
                    Finished::Finished { operation, entity, .. } => {
                        Ok(Outcome::of(*operation, entity, false))
                    }
                    Finished::Again(operation) => Ok(Outcome::of(*operation, None, false)),
                    Finished::Lost(_) | Finished::Stale(_) => self.given_up(None, tries).await,
                }
            }
        }
    }

    /// Does its action write what becomes of it?
    fn is_in_transaction(&self) -> bool {
        let Some(Action::Handler { name, .. }) = &self.view.action else { return false };
        matches!(self.engine.inner.entities.find_action(name), Some(ActionCode::InTransaction(_)))
    }

    /// This process no longer holds the operation. If nobody has decided about it meanwhile, what is known of it is written all the same. A result that comes
    /// later than that settles a doubt if it says that the action happened. Otherwise it is evidence, and nothing else.
    async fn given_up(&self, late: Option<OperationEnd>, tries: u32) -> Result<Outcome, Error> {
        let inner = &self.engine.inner;
        if inner.phase() == Phase::Killed {
            return Err(Error::ShuttingDown);
        }
        Counters::add(&inner.counters.fenced_writes);
        let Operation { id, attempt, .. } = self.operation;
        let key = self.operation.effect_key();
        let occurrence = late.as_ref().and_then(known_of);
        tracing::warn!(%key, operation = %id, ?occurrence, "the operation was taken from this process; nothing more is sent");
        let evidence = occurrence.and_then(|known| self.operation.evidence(self.try_number(tries), known));
        let note = EntityNote { evidence, ..self.note(JournalEvent::Refused { attempt, occurrence }) };
        if let (Some(occurrence), Some(end)) = (occurrence, late) {
            let written = match self.finish(end.clone(), tries, Vec::new()).await? {
                Finished::Lost(_) if occurrence == Occurrence::Happened => {
                    let now = inner.store.now();
                    let request =
                        finishing(&self.operation, Some(&self.view), FinishBy::LateResult, end, now);
                    let request = FinishOperation { notes: vec![note.clone()], ..request };
                    finish(&self.engine, request).await?
                }
                written => written,
            };
            match written {
                Finished::Finished { operation, entity, .. } => {
                    inner.posted.notify_one();
                    return Ok(Outcome::of(*operation, entity, false));
                }
                Finished::Again(operation) => return Ok(Outcome::of(*operation, None, false)),
                Finished::Lost(_) | Finished::Stale(_) => {}
            }
        }
        let book = self.engine.entity_store()?;
        self.note_late(book, vec![note]).await;
        let stands = inner.answer(book.find_operation(&self.operation.workspace, id)).await?;
        Ok(Outcome::of(stands.ok_or(Error::NoSuchOperation(id))?, None, false))
    }

    /// Keeps what came too late: it is evidence, so it is sent more than once if the store does not answer.
    async fn note_late(&self, book: &dyn EntityStore, notes: Vec<EntityNote>) {
        let inner = &self.engine.inner;
        let (key, operation) = (self.operation.effect_key(), self.operation.id);
        let mut wait = LATE_NOTE_WAIT;
        for _ in 0..LATE_NOTE_TRIES {
            let Err(error) = inner.answer(book.append_entity_notes(notes.clone())).await else { return };
            tracing::warn!(%key, %error, %operation, "a late outcome could not be noted yet");
            if !error.is_retryable() || inner.phase() == Phase::Killed {
                return;
            }
            inner.clock.sleep_until(inner.clock.now().plus(wait)).await;
            wait *= 2;
        }
    }

    fn note(&self, what: JournalEvent) -> EntityNote {
        EntityNote {
            workspace: self.operation.workspace.clone(),
            entity: self.operation.entity.clone(),
            operation: Some(self.operation.id),
            at: self.engine.inner.store.now(),
            by: None,
            what,
            evidence: None,
        }
    }

    async fn act(&self, held: &Held, number: u32) -> Acted {
        let Some(action) = &self.view.action else {
            return Acted::End(OperationEnd::Done { result: Payload::null(), data: None });
        };
        let acting = async {
            // The task may have waited for its turn: whoever lost the claim meanwhile enters nothing.
            if let Err(failure) = held.hold.ensure_still_held() {
                return Acted::End(OperationEnd::Failed(failure));
            }
            match action {
                Action::Hosted(_) => self.judge(self.registered.host.act(self.call(held, number)).await),
                Action::Workflow(workflow) => self.follow_run(workflow, held, number).await,
                Action::Handler { name, .. } => match self.engine.inner.entities.find_action(name) {
                    Some(ActionCode::Free(code)) => self.judge(code(self.call(held, number)).await),
                    Some(ActionCode::InTransaction(make)) => {
                        self.transact(make(self.call(held, number))).await
                    }
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

    fn call(&self, held: &Held, number: u32) -> StepCall {
        StepCall::of(&self.operation, &self.entity, number, held.hold.clone())
    }

    fn judge(&self, answer: Result<Answer, Failure>) -> Acted {
        let end = match answer.and_then(|answer| end_of(&self.operation, answer)) {
            Ok(end) => end,
            Err(failure) => OperationEnd::Failed(failure),
        };
        Acted::End(end)
    }

    /// The run has the operation's number, so however often it is started there is one.
    async fn follow_run(&self, workflow: &Name, held: &Held, number: u32) -> Acted {
        let input = match self.registered.host.run_input(&self.call(held, number)).await {
            Ok(input) => input,
            Err(failure) => return Acted::End(OperationEnd::Failed(failure)),
        };
        let start = self.engine.start_payload(workflow.as_str(), input).run_id(self.operation.id.as_run());
        let run = match start.await {
            Ok(run) => run,
            // It may have been started: whoever looks next finds out.
            Err(error @ (Error::Store(_) | Error::ShuttingDown)) => return Acted::Left(error),
            Err(error) => {
                let failure = Failure::permanent(error.to_string()).with_code("run_not_started");
                return Acted::End(OperationEnd::Failed(failure));
            }
        };
        match run.ending().await {
            Ok(result) => Acted::End(end_of_run(result)),
            Err(error) => Acted::Left(error),
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
        let book = match self.engine.entity_store() {
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
            // If it took effect after all, it is what stands: to say that it failed is then refused. If that is not refused, it did not happen.
            Err(error @ (StoreError::Unknown(_) | StoreError::Unavailable(_))) => {
                Acted::End(OperationEnd::Failed(Failure::retryable(error)))
            }
            Err(error) => {
                let failure = Failure::permanent(error).with_code("transaction_refused");
                Acted::End(OperationEnd::Failed(failure))
            }
        }
    }

    async fn finish(&self, end: OperationEnd, tries: u32, notes: Vec<EntityNote>) -> Result<Finished, Error> {
        let by = match self.operation.run {
            Some(_) => FinishBy::Run,
            None => FinishBy::Holder(self.engine.inner.owner),
        };
        let now = self.engine.inner.store.now();
        let request = finishing(&self.operation, Some(&self.view), by, end, now);
        finish(&self.engine, FinishOperation { tries: Some(tries), notes, ..request }).await
    }
}

/// How entering an action ended.
enum Entered {
    /// It came so far.
    Acted(Acted),
    /// The operation was lost meanwhile; the action may have answered all the same.
    Lost(Option<OperationEnd>),
}

/// What the end of an action tells of the try that ended so; `None` if nobody knows.
fn known_of(end: &OperationEnd) -> Option<Occurrence> {
    let known = match end {
        OperationEnd::Done { .. } => Occurrence::Happened,
        OperationEnd::Rejected(_) => Occurrence::DidNotHappen,
        OperationEnd::Failed(failure) => Occurrence::of_failure(failure),
        OperationEnd::Reverted
        | OperationEnd::DidNotHappen
        | OperationEnd::InDoubt
        | OperationEnd::TryAgain => Occurrence::MayHaveHappened,
    };
    (known != Occurrence::MayHaveHappened).then_some(known)
}

fn word_of(end: &OperationEnd) -> &'static str {
    match end {
        OperationEnd::Done { .. } => "completed",
        OperationEnd::Rejected(_) => "rejected",
        OperationEnd::Failed(failure) if failure.may_have_happened() => "unknown",
        OperationEnd::Failed(_) => "failed",
        OperationEnd::Reverted | OperationEnd::DidNotHappen => "did_not_happen",
        OperationEnd::InDoubt | OperationEnd::TryAgain => "unknown",
    }
}

/// Sends it until the store has answered: a claim that is not given back waits for the janitor.
pub(super) async fn finish(engine: &Engine, request: FinishOperation) -> Result<Finished, Error> {
    let (inner, book) = (&engine.inner, engine.entity_store()?);
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
    // An input and a result that are each as large as may be are too much for one: they can be read from the operation.
    let payload = Payload::of(&payload).or_else(|_| {
        payload["input"] = Value::Null;
        payload[came.0] = Value::Null;
        Payload::of(&payload)
    });
    Some(OutboxMessage {
        workspace: operation.workspace.clone(),
        id: EffectKey::of_operation(operation.id, &format!("{}~{what}", operation.step)),
        run: RunId::NONE,
        target: target.clone(),
        payload: payload.ok()?,
        created_at: now,
        attempts: 0,
        failure: None,
        state: OutboxState::Due { at: now },
    })
}
