//! Operations that a worker asks for, as calls on the context of its run.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hapax_api::RawJson;
use hapax_engine::ctx::Attempt;
use hapax_engine::model::ProbeAnswer;
use hapax_engine::{Ctx, Failure};
use tokio::sync::oneshot;

use crate::items::{AttemptOutcome, RequestedOperation, SleepEnd, StepOptions, null};
use crate::link::{AttemptCall, AttemptKind, RunLink};
use crate::open_operations::{OpFuture, Outcome};

/// An operation that was begun.
pub(crate) enum BegunOperation {
    /// Its outcome is known at once.
    Known,
    Scope(OpenedScope),
    Open {
        future: OpFuture,
        is_step: bool,
    },
}

/// Begins an operation. The error says why it cannot be.
pub(crate) fn begin(
    ctx: &Ctx,
    link: &Arc<RunLink>,
    op: u32,
    what: RequestedOperation,
) -> Result<BegunOperation, String> {
    let ctx = ctx.clone();
    let wait = |future: OpFuture| Ok(BegunOperation::Open { future, is_step: false });
    match what {
        RequestedOperation::Step(options) => {
            let future = Box::pin(take_step(ctx, link.clone(), op, options));
            Ok(BegunOperation::Open { future, is_step: true })
        }
        RequestedOperation::Promise { name, key, key_ttl, timeout } => wait(Box::pin(async move {
            let mut promise = ctx.create_promise::<RawJson>(&name);
            if let Some(key) = key {
                promise = promise.with_idempotency_key(key);
            }
            if let Some(ttl) = key_ttl {
                promise = promise.key_ttl(ttl);
            }
            if let Some(timeout) = timeout {
                promise = promise.timeout(timeout);
            }
            promise.await
        })),
        RequestedOperation::AwaitPromise { id, timeout } => wait(Box::pin(async move {
            let mut promise = ctx.await_promise::<RawJson>(&id);
            if let Some(timeout) = timeout {
                promise = promise.timeout(timeout);
            }
            promise.await
        })),
        RequestedOperation::Signal { name, recorded_as, timeout } => wait(Box::pin(async move {
            let mut signal = ctx.signal::<RawJson>(&name);
            if let Some(step) = recorded_as {
                signal = signal.recorded_as(&step);
            }
            if let Some(timeout) = timeout {
                signal = signal.timeout(timeout);
            }
            signal.await
        })),
        RequestedOperation::Sleep { name, until } => wait(Box::pin(async move {
            let name = name.as_deref().unwrap_or("sleep");
            match until {
                SleepEnd::After(span) => ctx.sleep_as(name, span).await?,
                SleepEnd::At(at) => ctx.sleep_until_as(name, at).await?,
            }
            Ok(null())
        })),
        RequestedOperation::Child { workflow, input, recorded_as, on_close } => wait(Box::pin(async move {
            let mut child = ctx.child::<RawJson, RawJson>(&workflow, &input).on_close(on_close);
            if let Some(step) = recorded_as {
                child = child.recorded_as(&step);
            }
            child.await
        })),
        RequestedOperation::AfterEffect { target, body } => wait(Box::pin(async move {
            let id = ctx.after_effect(&target, &body).await?;
            RawJson::from_value(&id).map_err(|error| Failure::permanent(error.to_string()))
        })),
        RequestedOperation::Value { name, value } => {
            let recorded = ctx.remember(&name, || value.clone()).map_err(|failure| failure.to_string())?;
            match recorded == value {
                true => Ok(BegunOperation::Known),
                false => Err(format!(
                    "DeterminismViolation: the history has another value {name:?} than the code."
                )),
            }
        }
        RequestedOperation::Scope => Ok(BegunOperation::Scope(OpenedScope::scope(ctx))),
        RequestedOperation::Shield => Ok(BegunOperation::Scope(OpenedScope::shield(ctx))),
    }
}

/// Takes a step whose attempts the worker makes.
async fn take_step(ctx: Ctx, link: Arc<RunLink>, op: u32, options: StepOptions) -> Outcome {
    let StepOptions { name, retry, timeout, is_claimed, has_probe, .. } = options;
    let is_claimed = is_claimed || has_probe;
    let of_attempt = link.clone();
    let mut step = ctx.step(&name, move |attempt: Attempt| {
        let link = of_attempt.clone();
        async move {
            let call = AttemptCall {
                op,
                kind: AttemptKind::Effect,
                number: attempt.number(),
                key: attempt.idempotency_key(),
                fence: attempt.fence(),
                hold: attempt.hold().clone(),
                timeout,
                is_claimed,
                dropped_because: None,
                undoes: None,
            };
            output_of(link.attempt(call).await?)
        }
    });
    if let Some(policy) = retry {
        step = step.retry(policy);
    }
    if let Some(timeout) = timeout {
        step = step.timeout(timeout);
    }
    if options.non_idempotent {
        step = step.non_idempotent();
    }
    if is_claimed {
        step = step.claimed();
        if let Some(settle) = options.probe_settle {
            step = step.probe_settle(settle);
        }
        if let Some(timeout) = options.probe_timeout {
            step = step.probe_timeout(timeout);
        }
        if let Some(on_doubt) = options.on_doubt {
            step = step.on_doubt(on_doubt);
        }
        if options.rejects_stale_fences {
            step = step.provider_rejects_stale_fences();
        }
    }
    if has_probe {
        let (ctx, link, timeout) = (ctx.clone(), link.clone(), options.probe_timeout.or(timeout));
        step = step.probe(move |key: String| {
            let (ctx, link) = (ctx.clone(), link.clone());
            async move {
                let call = AttemptCall {
                    op,
                    kind: AttemptKind::Probe,
                    number: 1,
                    key: &key,
                    fence: ctx.fence(),
                    hold: ctx.hold(),
                    timeout,
                    is_claimed: false,
                    dropped_because: None,
                    undoes: None,
                };
                answer_of(link.attempt(call).await?)
            }
        });
    }
    if options.compensates {
        let ctx = ctx.clone();
        step = step.compensate(move |attempt: Attempt, output: RawJson| {
            let (ctx, link) = (ctx.clone(), link.clone());
            async move {
                let call = AttemptCall {
                    op,
                    kind: AttemptKind::Undo,
                    number: attempt.number(),
                    key: attempt.idempotency_key(),
                    fence: attempt.fence(),
                    hold: attempt.hold().clone(),
                    timeout: None,
                    is_claimed: false,
                    dropped_because: ctx.dropped_because(),
                    undoes: Some(&output),
                };
                output_of(link.attempt(call).await?).map(drop)
            }
        });
        if let Some(policy) = options.compensate_retry {
            step = step.compensate_retry(policy);
        }
    }
    step.await
}

fn output_of(outcome: AttemptOutcome) -> Outcome {
    match outcome {
        AttemptOutcome::Output(output) => Ok(output),
        AttemptOutcome::Failed(failure) => Err(failure),
        AttemptOutcome::Happened(_) | AttemptOutcome::DidNotHappen | AttemptOutcome::Unknown => {
            Err(Failure::unknown("the worker answered a question that was not asked"))
        }
    }
}

fn answer_of(outcome: AttemptOutcome) -> Result<ProbeAnswer<RawJson>, Failure> {
    match outcome {
        AttemptOutcome::Happened(output) => Ok(ProbeAnswer::Happened(output)),
        AttemptOutcome::DidNotHappen => Ok(ProbeAnswer::DidNotHappen),
        AttemptOutcome::Unknown | AttemptOutcome::Output(_) => Ok(ProbeAnswer::Unknown),
        AttemptOutcome::Failed(failure) => Err(failure),
    }
}

/// A scope or shield whose body is in the worker.
pub(crate) struct OpenedScope {
    future: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    /// Context of the operations in a scope. A shield has none.
    inner: Arc<Mutex<Option<Ctx>>>,
    close: Option<oneshot::Sender<Option<Failure>>>,
    is_shield: bool,
}

impl OpenedScope {
    fn scope(ctx: Ctx) -> Self {
        let (close, closed) = oneshot::channel();
        let inner: Arc<Mutex<Option<Ctx>>> = Arc::default();
        let place = inner.clone();
        let future = Box::pin(async move {
            let body = |inner: Ctx| async move {
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(inner);
                end_of(closed).await
            };
            ctx.scope(body).await
        });
        OpenedScope { future, inner, close: Some(close), is_shield: false }
    }

    fn shield(ctx: Ctx) -> Self {
        let (close, closed) = oneshot::channel();
        let future = Box::pin(async move { ctx.shield(end_of(closed)).await });
        OpenedScope { future, inner: Arc::default(), close: Some(close), is_shield: true }
    }

    pub(crate) fn inner(&self) -> Option<Ctx> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.close.is_none()
    }

    /// Ends the body. Returns true if the outcome is there at once.
    pub(crate) fn close(&mut self, failure: Option<Failure>) -> bool {
        let is_known = self.is_shield || failure.is_none();
        if let Some(close) = self.close.take() {
            // The future waits for it.
            let _ = close.send(failure);
        }
        is_known
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.future.as_mut().poll(cx)
    }
}

/// End of a body. One that is never closed is dropped.
async fn end_of(closed: oneshot::Receiver<Option<Failure>>) -> Outcome {
    match closed.await {
        Ok(None) => Ok(null()),
        Ok(Some(failure)) => Err(failure),
        Err(_) => std::future::pending().await,
    }
}
