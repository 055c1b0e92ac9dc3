//! Steps whose records are on a server: their attempts run here, when the server asks for them.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::claimed::{Claim, ProbeFuture};
use super::invalid_failure;
use super::scope::Undo;
use super::step::{Attempt, panic_failure};
use crate::hold::Hold;
use crate::model::{Failure, Name, Payload, ProbeAnswer};
use crate::remote::{
    AttemptKind, AttemptOrder, AttemptOutcome, OperationBody, OperationRequest, RecordKind, StepRequest,
    WorkerCtx,
};

/// An attempt under way.
enum AttemptInProgress<'p, T, Fut> {
    /// Its code is called once the right to the effect is checked.
    NotEntered(Attempt),
    Effect(Pin<Box<Fut>>),
    Probe(ProbeFuture<'p, T>),
}

/// Asks for a step and makes its attempts, until the server sends its outcome.
pub(super) async fn step_remotely<T, C, Fut, E>(
    worker: &WorkerCtx,
    name: Name,
    request: StepRequest,
    mut code: C,
    claim: Option<&Claim<'_, T>>,
    undo: Option<Undo>,
) -> Result<T, Failure>
where
    C: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>> + Send,
    E: Into<Failure>,
    T: Serialize + DeserializeOwned,
{
    let must_be_known = claim.is_some() || undo.is_some();
    let goes_on = claim.is_none();
    let what = OperationBody::Step(request);
    let mut operation = worker.ask(OperationRequest { kind: RecordKind::Step, name, what, goes_on, undo });
    let machine = &worker.machine;
    let mut running: Option<(AttemptOrder, AttemptInProgress<'_, T, Fut>)> = None;
    let (outcome, is_recorded) = poll_fn(|cx| {
        loop {
            if let Poll::Ready(outcome) = operation.poll_outcome(cx) {
                return Poll::Ready(outcome);
            }
            let (stops, order) = operation.take_order();
            if stops {
                running = None;
            }
            if let Some(order) = order {
                let attempt = attempt_of(&order, machine.hold.clone());
                running = Some((order, AttemptInProgress::NotEntered(attempt)));
            }
            let Some((order, making)) = &mut running else { return Poll::Pending };
            if !machine.may_go_on(cx) {
                return Poll::Pending;
            }
            let outcome = match order.kind {
                AttemptKind::Probe => poll_probe(order, making, claim, cx),
                AttemptKind::Effect | AttemptKind::Undo => poll_effect(making, &mut code, must_be_known, cx),
            };
            let Poll::Ready(outcome) = outcome else { return Poll::Pending };
            if let Some((order, making)) = running.take() {
                drop(making);
                operation.end_attempt(&order, outcome);
            }
        }
    })
    .await;
    drop(running);
    operation.decode(outcome?, is_recorded).await
}

fn poll_effect<T, C, Fut, E>(
    making: &mut AttemptInProgress<'_, T, Fut>,
    code: &mut C,
    must_be_known: bool,
    cx: &mut Context<'_>,
) -> Poll<AttemptOutcome>
where
    C: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: Into<Failure>,
    T: Serialize,
{
    let polled = catch_unwind(AssertUnwindSafe(|| {
        if let AttemptInProgress::NotEntered(attempt) = making {
            *making = AttemptInProgress::Effect(Box::pin(code(attempt.clone())));
        }
        match making {
            AttemptInProgress::Effect(effect) => effect.as_mut().poll(cx),
            AttemptInProgress::NotEntered(_) | AttemptInProgress::Probe(_) => Poll::Pending,
        }
    }));
    let outcome = match polled {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(Ok(value))) => match Payload::of(&value) {
            Ok(output) => AttemptOutcome::Output(output),
            // The effect happened, but its output cannot be stored.
            Err(invalid) if must_be_known => {
                AttemptOutcome::Failed(Failure::unknown(invalid).with_code("invalid"))
            }
            Err(invalid) => AttemptOutcome::Failed(invalid_failure(invalid)),
        },
        Ok(Poll::Ready(Err(failure))) => AttemptOutcome::Failed(failure.into()),
        Err(panic) => AttemptOutcome::Failed(panic_failure(&*panic)),
    };
    Poll::Ready(outcome)
}

fn poll_probe<'p, T: Serialize, Fut>(
    order: &AttemptOrder,
    making: &mut AttemptInProgress<'p, T, Fut>,
    claim: Option<&Claim<'p, T>>,
    cx: &mut Context<'_>,
) -> Poll<AttemptOutcome> {
    let polled = catch_unwind(AssertUnwindSafe(|| {
        if let AttemptInProgress::NotEntered(_) = making {
            let Some(probe) = claim.and_then(|claim| claim.probe.as_ref()) else {
                return Poll::Ready(Ok(ProbeAnswer::Unknown));
            };
            *making = AttemptInProgress::Probe(probe(order.key.to_string()));
        }
        match making {
            AttemptInProgress::Probe(probe) => probe.as_mut().poll(cx),
            AttemptInProgress::NotEntered(_) | AttemptInProgress::Effect(_) => Poll::Pending,
        }
    }));
    let answer = match polled {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(answer)) => answer,
        Err(panic) => Err(panic_failure(&*panic)),
    };
    let outcome = match answer {
        Ok(ProbeAnswer::Happened(output)) => match Payload::of(&output) {
            Ok(output) => AttemptOutcome::Answered(ProbeAnswer::Happened(output)),
            Err(invalid) => AttemptOutcome::Failed(invalid_failure(invalid)),
        },
        Ok(ProbeAnswer::DidNotHappen) => AttemptOutcome::Answered(ProbeAnswer::DidNotHappen),
        Ok(ProbeAnswer::Unknown) => AttemptOutcome::Answered(ProbeAnswer::Unknown),
        Err(failure) => AttemptOutcome::Failed(failure),
    };
    Poll::Ready(outcome)
}

/// The attempt of an order, as its code sees it.
pub(crate) fn attempt_of(order: &AttemptOrder, hold: Hold) -> Attempt {
    Attempt::in_worker(order.key.clone(), order.number, order.fence, hold)
}

/// Runs code whose panic is a failure like any other.
pub(crate) async fn caught<T>(code: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    AssertUnwindSafe(code).catch_unwind().await.unwrap_or_else(|panic| Err(panic_failure(&*panic)))
}
