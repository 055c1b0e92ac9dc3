//! Scopes: what was done in them is undone if they fail. Shields: a cancellation waits until they end.

use std::future::Future;
use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;

use super::step::Effect;
use super::{Attempt, Ctx, StepFuture, decoded};
use crate::model::{Failure, Payload, RetryPolicy, StepId, StepKind};
use crate::runtime::Activation;

type UndoCode = Arc<dyn Fn(Attempt, Payload) -> StepFuture<'static, ()> + Send + Sync>;

/// How to undo one effect.
#[derive(Clone)]
pub(super) struct Undo(UndoCode);

impl Undo {
    pub(super) fn new<T, U, Fut, E>(undo: U) -> Self
    where
        U: Fn(Attempt, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure> + 'static,
        T: DeserializeOwned + Send + 'static,
    {
        Undo(Arc::new(move |attempt, output: Payload| match decoded::<T>("the effect to undo", &output) {
            Ok(output) => {
                let undoing = undo(attempt, output);
                Box::pin(async move { undoing.await.map_err(Into::into) })
            }
            Err(failure) => Box::pin(async move { Err(failure) }),
        }))
    }
}

impl Undo {
    pub(super) fn code(&self, attempt: Attempt, output: Payload) -> StepFuture<'static, ()> {
        (self.0)(attempt, output)
    }
}

/// The effects that know how to be undone, in the order they were done.
#[derive(Default)]
pub(crate) struct Scope {
    effects: Mutex<Vec<Done>>,
}

/// One of them.
#[derive(Clone)]
struct Done {
    step: StepId,
    output: Payload,
    undo: Undo,
}

impl Scope {
    pub(super) fn push(&self, step: StepId, output: Payload, undo: Undo) {
        self.effects.lock().expect("no holder panics").push(Done { step, output, undo });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.effects.lock().expect("no holder panics").is_empty()
    }

    fn last(&self) -> Option<Done> {
        self.effects.lock().expect("no holder panics").last().cloned()
    }

    fn pop(&self) {
        self.effects.lock().expect("no holder panics").pop();
    }

    fn take(&self) -> Vec<Done> {
        std::mem::take(&mut self.effects.lock().expect("no holder panics"))
    }
}

/// Undoes the effects of a scope, last first. One that cannot be undone does not keep the others from it. Each stays in
/// the scope until it is undone, so that a cancellation in the middle finds those that are left.
pub(crate) async fn undo_all(activation: Arc<Activation>, scope: Arc<Scope>) -> Result<(), Failure> {
    let mut failed = Vec::new();
    while let Some(done) = scope.last() {
        let effect = Effect {
            id: done.step.undo(),
            kind: StepKind::Undo,
            policy: RetryPolicy::default().max_attempts(10),
            timeout: None,
            heeds_stops: true,
        };
        let code = |attempt| done.undo.code(attempt, done.output.clone());
        if let Err(failure) = effect.run(&activation, code).await {
            failed.push(format!("{}: {failure}", done.step));
        }
        scope.pop();
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::permanent(failed.join("; "))),
    }
}

impl Ctx {
    /// Runs `body` with a context of its own. If it fails, the effects done in it are undone, last first, and then
    /// the failure is given on; the workflow may handle it and go on. If it succeeds, its effects belong to the
    /// scope around it.
    pub async fn scope<T, B, Fut>(&self, body: B) -> Result<T, Failure>
    where
        B: FnOnce(Ctx) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let inner = Arc::new(Scope::default());
        // Registered at once, so that a cancellation in the middle of the body finds what was done so far.
        let nested = Nested { outer: self.scope.clone(), inner: inner.clone() };
        let outcome = body(Ctx { activation: self.activation.clone(), scope: inner.clone() }).await;
        match outcome {
            Ok(value) => Ok(value),
            Err(failure) => match undo_all(self.activation.clone(), inner.clone()).await {
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

    /// Runs `body` to its end even if the run is asked to cancel, pause or stop meanwhile.
    pub async fn shield<F: Future>(&self, body: F) -> F::Output {
        let _shield = Shield::new(&self.activation);
        body.await
    }
}

/// Hands the effects of a scope to the one around it, however the scope ends.
struct Nested {
    outer: Arc<Scope>,
    inner: Arc<Scope>,
}

impl Drop for Nested {
    fn drop(&mut self) {
        self.outer.effects.lock().expect("no holder panics").extend(self.inner.take());
    }
}

struct Shield<'a>(&'a Activation);

impl<'a> Shield<'a> {
    fn new(activation: &'a Activation) -> Self {
        activation.desk().shields += 1;
        Shield(activation)
    }
}

impl Drop for Shield<'_> {
    fn drop(&mut self) {
        self.0.desk().shields -= 1;
    }
}
