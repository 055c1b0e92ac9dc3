//! Scopes, whose effects are undone if they fail, and shields, which delay a cancellation until they end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::de::DeserializeOwned;

use super::claimed::settle_for_undo;
use super::effect_tracker::DoubtedStep;
use super::step::Effect;
use super::{Attempt, Ctx, EngineCtx, Home, StepFuture, decoded};
use crate::model::{Failure, Payload, RetryPolicy, StepId, StepKind};
use crate::remote::{ScopeKind, WorkerCtx};
use crate::runtime::Activation;

type UndoCode = Arc<dyn Fn(Attempt, Payload) -> StepFuture<'static, ()> + Send + Sync>;

/// Undo code of one effect.
#[derive(Clone)]
pub(crate) struct Undo {
    code: UndoCode,
    policy: RetryPolicy,
}

impl Undo {
    pub(super) fn new<T, U, Fut, E>(undo: U) -> Self
    where
        U: Fn(Attempt, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure> + 'static,
        T: DeserializeOwned + Send + 'static,
    {
        let code: UndoCode =
            Arc::new(move |attempt, output: Payload| match decoded::<T>("the effect to undo", &output) {
                Ok(output) => {
                    let undoing = undo(attempt, output);
                    Box::pin(async move { undoing.await.map_err(Into::into) })
                }
                Err(failure) => Box::pin(async move { Err(failure) }),
            });
        Undo { code, policy: RetryPolicy::default() }
    }

    /// Sets the retry policy, if given.
    pub(super) fn with_policy(self, policy: Option<RetryPolicy>) -> Self {
        Undo { policy: policy.unwrap_or(self.policy), ..self }
    }

    /// The retry policy, if it is not the usual one.
    pub(super) fn policy(&self) -> Option<RetryPolicy> {
        (self.policy != RetryPolicy::default()).then(|| self.policy.clone())
    }

    /// Runs the code once, with the output of the effect.
    pub(crate) fn call(&self, attempt: Attempt, output: Payload) -> StepFuture<'static, ()> {
        (self.code)(attempt, output)
    }

    /// Undoes the effect of `step`, as a step of its own. If the undo fails, it needs a ruling.
    pub(super) fn run<'a>(
        &'a self,
        activation: &'a Activation,
        step: &StepId,
        output: &'a Payload,
        obeys_stop: bool,
    ) -> StepFuture<'a, ()> {
        let effect = Effect {
            id: step.undo(),
            kind: StepKind::Undo,
            policy: self.policy.clone(),
            timeout: None,
            obeys_stop,
        };
        Box::pin(async move {
            let code = |attempt| (self.code)(attempt, output.clone());
            effect.run(activation, None, code).await.map(|((), _)| ())
        })
    }
}

/// Compensable effects of a scope, oldest first.
#[derive(Default)]
pub(crate) struct Scope {
    effects: Mutex<Vec<UndoEntry>>,
}

/// One compensable effect.
#[derive(Clone)]
struct UndoEntry {
    step: StepId,
    undo: Undo,
    what: EffectStatus,
}

/// State of a compensable effect.
#[derive(Clone)]
enum EffectStatus {
    /// It happened, with this output.
    Done(Payload),
    /// Its code was dropped before the outcome was known, and its step is in doubt.
    InDoubt(DoubtedStep),
}

impl Scope {
    pub(super) fn push_done(&self, step: StepId, output: Payload, undo: Undo) {
        self.entries().push(UndoEntry { step, undo, what: EffectStatus::Done(output) });
    }

    pub(super) fn push_in_doubt(&self, step: StepId, doubted: DoubtedStep, undo: Undo) {
        self.entries().push(UndoEntry { step, undo, what: EffectStatus::InDoubt(doubted) });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    fn last(&self) -> Option<UndoEntry> {
        self.entries().last().cloned()
    }

    fn pop(&self) {
        self.entries().pop();
    }

    fn take(&self) -> Vec<UndoEntry> {
        std::mem::take(&mut self.entries())
    }

    fn entries(&self) -> MutexGuard<'_, Vec<UndoEntry>> {
        self.effects.lock().expect("no holder panics")
    }
}

/// Undoes the effects of a scope, last first.
///
/// A doubt is resolved before its effect is undone. A failed undo does not stop the others. Each effect stays
/// in the scope until it is undone, so that a cancellation in the middle finds the rest.
pub(crate) async fn undo_all(activation: Arc<Activation>, scope: Arc<Scope>) -> Result<(), Failure> {
    let mut failed = Vec::new();
    while let Some(UndoEntry { step, undo, what }) = scope.last() {
        let output = match what {
            EffectStatus::Done(output) => Ok(Some(output)),
            EffectStatus::InDoubt(doubted) => settle_for_undo(&activation, &step, doubted, &undo).await,
        };
        let undone = match output {
            Ok(Some(output)) => undo.run(&activation, &step, &output, true).await,
            Ok(None) => Ok(()),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = undone {
            failed.push(format!("{step}: {failure}"));
        }
        scope.pop();
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::permanent(failed.join("; "))),
    }
}

impl Ctx {
    /// Runs `body` as a saga with its own context. If it fails, its effects are undone, last first, and the
    /// failure is returned. The workflow may handle it and continue. If it succeeds, its effects belong to
    /// the surrounding scope.
    pub async fn scope<T, B, Fut>(&self, body: B) -> Result<T, Failure>
    where
        B: FnOnce(Ctx) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let engine = match &self.home {
            Home::Engine(engine) => engine,
            Home::Server(worker) => return scope_remotely(worker, body).await,
        };
        let inner = Arc::new(Scope::default());
        // Registered at once, so that a cancellation in the middle of the body finds the effects so far.
        let nested = NestedScope { outer: engine.scope.clone(), inner: inner.clone() };
        let within = EngineCtx { activation: engine.activation.clone(), scope: inner.clone() };
        let outcome = body(Ctx { home: Home::Engine(within) }).await;
        match outcome {
            Ok(value) => Ok(value),
            Err(failure) => match undo_all(engine.activation.clone(), inner.clone()).await {
                Ok(()) => {
                    drop(nested);
                    Err(failure)
                }
                Err(undo_failure) => {
                    let text = format!("{failure}; and undoing failed, so effects may stand: {undo_failure}");
                    Err(Failure::permanent(text).with_code("undo_failed"))
                }
            },
        }
    }

    /// Runs `body` to its end even if the run must cancel, pause or stop in between.
    pub async fn shield<F: Future>(&self, body: F) -> F::Output {
        match &self.home {
            Home::Engine(engine) => {
                let _shield = ShieldGuard::new(&engine.activation);
                body.await
            }
            Home::Server(worker) => shield_remotely(worker, body).await,
        }
    }
}

async fn scope_remotely<T, B, Fut>(worker: &WorkerCtx, body: B) -> Result<T, Failure>
where
    B: FnOnce(Ctx) -> Fut,
    Fut: Future<Output = Result<T, Failure>>,
{
    // Dropped after the body, as its operations are in it.
    let mut scope = worker.open_scope(ScopeKind::Scope);
    let Some(op) = scope.number() else { return std::future::pending().await };
    match body(Ctx { home: Home::Server(worker.within(op)) }).await {
        Ok(value) => match worker.close_scope(&mut scope) {
            true => Ok(value),
            false => std::future::pending().await,
        },
        Err(failure) => {
            worker.close_failed_scope(&scope, failure.clone());
            match poll_fn(|cx| scope.poll_outcome(cx)).await {
                (Err(undo_failure), _) if undo_failure.code() == Some("undo_failed") => Err(undo_failure),
                _ => Err(failure),
            }
        }
    }
}

async fn shield_remotely<F: Future>(worker: &WorkerCtx, body: F) -> F::Output {
    let mut shield = worker.open_scope(ScopeKind::Shield);
    if shield.number().is_none() {
        return std::future::pending().await;
    }
    let output = {
        let mut body = pin!(body);
        poll_fn(|cx| {
            let _entered = worker.enter_shield(&shield);
            body.as_mut().poll(cx)
        })
        .await
    };
    match worker.close_scope(&mut shield) {
        true => output,
        false => std::future::pending().await,
    }
}

/// Moves the effects of a scope to the surrounding one, however the scope ends.
struct NestedScope {
    outer: Arc<Scope>,
    inner: Arc<Scope>,
}

impl Drop for NestedScope {
    fn drop(&mut self) {
        let effects = self.inner.take();
        self.outer.entries().extend(effects);
    }
}

struct ShieldGuard<'a>(&'a Activation);

impl<'a> ShieldGuard<'a> {
    fn new(activation: &'a Activation) -> Self {
        activation.replay().shields += 1;
        ShieldGuard(activation)
    }
}

impl Drop for ShieldGuard<'_> {
    fn drop(&mut self) {
        self.0.replay().shields -= 1;
    }
}
