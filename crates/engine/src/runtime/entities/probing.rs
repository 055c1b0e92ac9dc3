//! Probes providers about operations in doubt, if the host of the workflow supports it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use super::execution::{finish, finish_request};
use super::step_call::StepCall;
use crate::hold::Hold;
use crate::limits::{MAX_PROBE_PAUSE, MAX_STALE_CLAIMS, PROBE_AGAIN_AFTER, PROBE_EVERY};
use crate::model::{
    EntityJournalEntry, FinishBy, FinishOperation, FinishOperationOutcome, JournalEvent, Name, Operation,
    OperationEnd, OperationId, Payload, ProbeAnswer, Timestamp,
};
use crate::runtime::{Engine, Error};

/// Next probe of each operation in doubt, and the pause after it.
#[derive(Default)]
pub(crate) struct ProbeSchedule(Mutex<HashMap<(OperationId, u32), (Timestamp, Duration)>>);

impl ProbeSchedule {
    /// Returns whether a probe is due, and if so schedules the next one.
    fn is_due(&self, operation: &Operation, now: Timestamp) -> bool {
        let mut probe_schedule = self.0.lock().expect("no holder panics");
        // An operation without a probe for this long is no longer in doubt.
        probe_schedule.retain(|_, (due, _)| now < due.plus(MAX_PROBE_PAUSE * 2));
        let (due, pause) =
            probe_schedule.get(&(operation.id, operation.attempt)).copied().unwrap_or((now, PROBE_EVERY));
        if now < due {
            return false;
        }
        let next = (now.plus(pause), (pause * 2).min(MAX_PROBE_PAUSE));
        probe_schedule.insert((operation.id, operation.attempt), next);
        true
    }
}

/// Probes an operation that just came into doubt here, as soon as a "did not happen" counts.
pub(super) fn schedule_probe(engine: &Engine, operation: &Operation) {
    let Some(settle) = find_settle_time(engine, operation) else { return };
    let at = operation.state.at().plus(settle);
    let (engine, clock, operation) = (engine.detached(), engine.inner.clock.clone(), operation.clone());
    tokio::spawn(async move {
        while clock.now() < at {
            clock.sleep_until(at).await;
        }
        let Some(engine) = engine() else { return };
        // The janitor may have been faster.
        if !engine.inner.entities.probe_schedule.is_due(&operation, engine.inner.store.now()) {
            return;
        }
        let scoped = engine.workspace(operation.workspace.clone());
        if let Err(error) = probe_operation(&scoped, &operation).await {
            let key = operation.effect_key();
            tracing::warn!(%key, operation = %operation.id, %error, "an operation in doubt could not be asked about; the janitor tries again");
        }
    });
}

/// Probes all operations of a module that are in doubt and due. Returns the number that was resolved.
pub(super) async fn probe_all(engine: &Engine, module: &Name) -> Result<usize, Error> {
    let inner = &engine.inner;
    let store = engine.entity_store()?;
    let (mut after, mut settled, mut all) = (None, 0, Vec::new());
    loop {
        let page = inner.call_store(store.list_doubted_operations(module, after, MAX_STALE_CLAIMS)).await?;
        after = page.last().map(|last| (last.state.at(), last.id));
        let is_last = page.len() < MAX_STALE_CLAIMS;
        all.extend(page);
        if is_last {
            break;
        }
    }
    for operation in &all {
        let scoped = engine.workspace(operation.workspace.clone());
        let Some(settle) = find_settle_time(&scoped, operation) else { continue };
        let now = inner.store.now();
        if now < operation.state.at().plus(settle) || !inner.entities.probe_schedule.is_due(operation, now) {
            continue;
        }
        settled += usize::from(probe_operation(&scoped, operation).await?);
    }
    Ok(settled)
}

fn find_settle_time(engine: &Engine, operation: &Operation) -> Option<Duration> {
    let registered = engine.inner.entities.find(&operation.workspace, &operation.entity.kind)?;
    registered.host.probe_settle(&operation.step, operation.requester.as_ref())
}

/// Probes one operation and records the answer. The doubt must be old enough for a "did not happen" to count,
/// and that answer must come twice.
async fn probe_operation(engine: &Engine, operation: &Operation) -> Result<bool, Error> {
    let inner = &engine.inner;
    let store = engine.entity_store()?;
    let Some(registered) = inner.entities.find(&operation.workspace, &operation.entity.kind) else {
        return Ok(false);
    };
    let found =
        inner.call_store(store.find_entity(&operation.workspace, &operation.entity, &operation.home)).await?;
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
        inner.call_store(store.append_entity_journal(vec![note])).await?;
        return Ok(false);
    };
    let view = registered.view_of(operation);
    let request = finish_request(operation, view.as_ref(), FinishBy::Probe, end, inner.store.now());
    match finish(engine, FinishOperation { notes: vec![note], ..request }).await? {
        FinishOperationOutcome::Finished { .. } => {
            inner.outbox_ready.notify_one();
            inner.operation_finished.notify_waiters();
            Ok(true)
        }
        // A person was faster, or the entity has changed since.
        FinishOperationOutcome::Again(_)
        | FinishOperationOutcome::Lost(_)
        | FinishOperationOutcome::Stale(_) => Ok(false),
    }
}

fn happened(result: Value) -> Result<Option<OperationEnd>, Error> {
    Ok(Some(OperationEnd::Done { result: Payload::of(&result)?, data: None }))
}
