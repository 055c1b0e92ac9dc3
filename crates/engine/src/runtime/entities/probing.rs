//! Asks providers what became of operations in doubt, where the host of their workflow can.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use super::acting::{finish, finishing};
use super::step_call::StepCall;
use crate::hold::Hold;
use crate::limits::{MAX_PROBE_PAUSE, MAX_STALE_CLAIMS, PROBE_AGAIN_AFTER, PROBE_EVERY};
use crate::model::{
    EntityJournalEntry, FinishBy, FinishOperation, FinishOperationOutcome, JournalEvent, Name, Operation,
    OperationEnd, OperationId, Payload, ProbeAnswer, Timestamp,
};
use crate::runtime::{Engine, Error};

/// When each operation in doubt is to be asked about again, and how long after that.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<(OperationId, u32), (Timestamp, Duration)>>);

impl Questions {
    /// Is it time to ask about an operation? Then the next time is put off.
    fn is_due(&self, operation: &Operation, now: Timestamp) -> bool {
        let mut questions = self.0.lock().expect("no holder panics");
        // What nobody has asked about for so long is no longer in doubt.
        questions.retain(|_, (due, _)| now < due.plus(MAX_PROBE_PAUSE * 2));
        let (due, pause) =
            questions.get(&(operation.id, operation.attempt)).copied().unwrap_or((now, PROBE_EVERY));
        if now < due {
            return false;
        }
        let next = (now.plus(pause), (pause * 2).min(MAX_PROBE_PAUSE));
        questions.insert((operation.id, operation.attempt), next);
        true
    }
}

/// Asks about an operation that has just come into doubt here, as soon as a "did not happen" counts.
pub(super) fn ask_in_time(engine: &Engine, operation: &Operation) {
    let Some(settle) = settle_of(engine, operation) else { return };
    let at = operation.state.at().plus(settle);
    let (engine, clock, operation) = (engine.detached(), engine.inner.clock.clone(), operation.clone());
    tokio::spawn(async move {
        while clock.now() < at {
            clock.sleep_until(at).await;
        }
        let Some(engine) = engine() else { return };
        // The janitor may have been faster.
        if !engine.inner.entities.questions.is_due(&operation, engine.inner.store.now()) {
            return;
        }
        let speaking = engine.workspace(operation.workspace.clone());
        if let Err(error) = ask(&speaking, &operation).await {
            let key = operation.effect_key();
            tracing::warn!(%key, operation = %operation.id, %error, "an operation in doubt could not be asked about; the janitor tries again");
        }
    });
}

/// Asks about all operations of a module that are in doubt and due to be asked about; answers how many were settled.
pub(super) async fn ask_about_all(engine: &Engine, module: &Name) -> Result<usize, Error> {
    let inner = &engine.inner;
    let book = engine.entity_store()?;
    let (mut after, mut settled, mut all) = (None, 0, Vec::new());
    loop {
        let page = inner.answer(book.list_doubted_operations(module, after, MAX_STALE_CLAIMS)).await?;
        after = page.last().map(|last| (last.state.at(), last.id));
        let is_last = page.len() < MAX_STALE_CLAIMS;
        all.extend(page);
        if is_last {
            break;
        }
    }
    for operation in &all {
        let speaking = engine.workspace(operation.workspace.clone());
        let Some(settle) = settle_of(&speaking, operation) else { continue };
        let now = inner.store.now();
        if now < operation.state.at().plus(settle) || !inner.entities.questions.is_due(operation, now) {
            continue;
        }
        settled += usize::from(ask(&speaking, operation).await?);
    }
    Ok(settled)
}

fn settle_of(engine: &Engine, operation: &Operation) -> Option<Duration> {
    let registered = engine.inner.entities.find(&operation.workspace, &operation.entity.kind)?;
    registered.host.probe_settle(&operation.step, operation.requester.as_ref())
}

/// Asks about one operation whose doubt is old enough for "did not happen" to count, and writes what came of it. That it did not happen is asked twice.
async fn ask(engine: &Engine, operation: &Operation) -> Result<bool, Error> {
    let inner = &engine.inner;
    let book = engine.entity_store()?;
    let Some(registered) = inner.entities.find(&operation.workspace, &operation.entity.kind) else {
        return Ok(false);
    };
    let found =
        inner.answer(book.find_entity(&operation.workspace, &operation.entity, &operation.home)).await?;
    let Some(entity) = found else { return Ok(false) };
    let call =
        || StepCall::of(operation, &entity, operation.tries_before + operation.tries, Hold::unlimited());
    let mut answer = registered.host.probe(call()).await;
    if answer == ProbeAnswer::DidNotHappen {
        inner.clock.sleep_until(inner.clock.now().plus(PROBE_AGAIN_AFTER)).await;
        answer = registered.host.probe(call()).await;
    }
    let key = operation.effect_key();
    let (word, end) = match answer {
        ProbeAnswer::Happened(result) => ("happened", happened(result)?),
        ProbeAnswer::DidNotHappen => ("did_not_happen", Some(OperationEnd::DidNotHappen)),
        ProbeAnswer::Unknown => ("unknown", None),
    };
    tracing::info!(%key, operation = %operation.id, answer = word, "the provider was asked about an effect in doubt");
    let note = EntityJournalEntry {
        workspace: operation.workspace.clone(),
        entity: operation.entity.clone(),
        operation: Some(operation.id),
        at: inner.store.now(),
        by: None,
        what: JournalEvent::Probed { answer: word.into() },
        evidence: None,
    };
    let Some(end) = end else {
        inner.answer(book.append_entity_journal(vec![note])).await?;
        return Ok(false);
    };
    let view = registered.view_of(operation);
    let request = finishing(operation, view.as_ref(), FinishBy::Probe, end, inner.store.now());
    match finish(engine, FinishOperation { notes: vec![note], ..request }).await? {
        FinishOperationOutcome::Finished { .. } => {
            inner.posted.notify_one();
            inner.operated.notify_waiters();
            Ok(true)
        }
        // People were faster, or the entity is no longer as the operation left it.
        FinishOperationOutcome::Again(_)
        | FinishOperationOutcome::Lost(_)
        | FinishOperationOutcome::Stale(_) => Ok(false),
    }
}

fn happened(result: Value) -> Result<Option<OperationEnd>, Error> {
    Ok(Some(OperationEnd::Done { result: Payload::of(&result)?, data: None }))
}
