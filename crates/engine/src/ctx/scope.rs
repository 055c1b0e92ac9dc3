//! Scopes: what was done in them is undone if they fail. Shields: a cancellation waits until they end.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::de::DeserializeOwned;

use super::claimed::settle_for_undo;
use super::step::Effect;
use super::tracked::DoubtedStep;
use super::{Attempt, Ctx, StepFuture, decoded};
use crate::model::{Failure, Payload, RetryPolicy, StepId, StepKind};
use crate::runtime::Activation;

type UndoCode = Arc<dyn Fn(Attempt, Payload) -> StepFuture<'static, ()> + Send + Sync>;

/// How to undo one effect.
#[derive(Clone)]
pub(super) struct Undo {
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

    /// The same, tried by this policy if there is one.
    pub(super) fn tried_by(self, policy: Option<RetryPolicy>) -> Self {
        Undo { policy: policy.unwrap_or(self.policy), ..self }
    }

    /// Undoes the effect of `step`, as a step of its own. If it cannot be undone, people decide.
    pub(super) fn run<'a>(
        &'a self,
        activation: &'a Activation,
        step: &StepId,
        output: &'a Payload,
        heeds_stops: bool,
    ) -> StepFuture<'a, ()> {
        let effect = Effect {
            id: step.undo(),
            kind: StepKind::Undo,
            policy: self.policy.clone(),
            timeout: None,
            heeds_stops,
        };
        Box::pin(async move {
            let code = |attempt| (self.code)(attempt, output.clone());
            effect.run(activation, None, code).await.map(|((), _)| ())
        })
    }
}

/// The effects that know how to be undone, in the order they were done.
#[derive(Default)]
pub(crate) struct Scope {
    effects: Mutex<Vec<Entry>>,
}

/// One of them.
#[derive(Clone)]
struct Entry {
    step: StepId,
    undo: Undo,
    what: Known,
}

/// What is known of it.
#[derive(Clone)]
enum Known {
    /// It happened, with this output.
    Done(Payload),
    /// Its code was dropped before its outcome was known, and its step is in doubt.
    InDoubt(DoubtedStep),
}

impl Scope {
    pub(super) fn push_done(&self, step: StepId, output: Payload, undo: Undo) {
        self.entries().push(Entry { step, undo, what: Known::Done(output) });
    }

    pub(super) fn push_in_doubt(&self, step: StepId, doubted: DoubtedStep, undo: Undo) {
        self.entries().push(Entry { step, undo, what: Known::InDoubt(doubted) });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    fn last(&self) -> Option<Entry> {
        self.entries().last().cloned()
    }

    fn pop(&self) {
        self.entries().pop();
    }

    fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.entries())
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.effects.lock().expect("no holder panics")
    }
}

/// Undoes the effects of a scope, last first. Whether one that is in doubt happened is settled before it is undone. One that cannot be
/// undone does not keep the others from it. Each stays in the scope until it is undone, so that a cancellation in the middle finds
/// those that are left.
pub(crate) async fn undo_all(activation: Arc<Activation>, scope: Arc<Scope>) -> Result<(), Failure> {
    let mut failed = Vec::new();
    while let Some(Entry { step, undo, what }) = scope.last() {
        let output = match what {
            Known::Done(output) => Ok(Some(output)),
            Known::InDoubt(doubted) => settle_for_undo(&activation, &step, doubted, &undo).await,
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

/// HostServices the effects of a scope to the one around it, however the scope ends.
struct Nested {
    outer: Arc<Scope>,
    inner: Arc<Scope>,
}

impl Drop for Nested {
    fn drop(&mut self) {
        let effects = self.inner.take();
        self.outer.entries().extend(effects);
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
