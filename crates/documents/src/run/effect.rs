//! Tasks, and the shared handling of effects: retries, claims, probes and compensations.

use std::sync::Arc;

use hapax_engine::Failure;
use hapax_engine::ctx::{Attempt, Step as EngineStep};
use hapax_engine::model::{EffectClass, WorkspaceId};
use serde_json::{Value, json};

use super::Runner;
use super::http::span_of;
use crate::evaluation_slots::evaluate_fairly;
use crate::host_services::{HostServices, TaskCall};
use crate::limits::HTTP_GRACE;
use crate::model::{Effect, Step, Task, Undo};
use crate::scope::Scope;

impl<'a> Runner<'a> {
    pub(super) async fn task(self, step: &Step, task: &Task, scope: &Scope) -> Result<Value, Failure> {
        let name = scope.name(&step.name);
        let services = self.services;
        let is_kept = is_kept(&task.effect);
        let code = |attempt: Attempt| async move {
            let input = match &task.input {
                Some(input) => evaluate_fairly(self.ctx.workspace(), || input.render(scope)).await?,
                None => json!({}),
            };
            let is_claimed = task.effect.class == EffectClass::Claimed;
            let call = TaskCall::of(&task.task, input, &attempt, is_claimed);
            let result = services.call_task(self.ctx.workspace(), call).await?;
            let results = [("result", result)];
            evaluate_fairly(self.ctx.workspace(), || mapped(step, scope, &results, is_kept)).await
        };
        let mut taken = self.ctx.step(&name, code);
        if let Some(timeout) = task.effect.timeout {
            taken = taken.timeout(timeout.get());
        }
        self.arranged(taken, step, &task.effect, scope).await
    }

    /// The step with all options of its effect.
    pub(super) fn arranged<'s, C>(
        self,
        mut taken: EngineStep<'s, Value, C>,
        step: &Step,
        effect: &'s Effect,
        scope: &'s Scope,
    ) -> EngineStep<'s, Value, C>
    where
        'a: 's,
    {
        taken = taken.retry(effect.policy());
        if effect.class == EffectClass::Claimed {
            taken = taken.claimed().on_doubt(effect.on_doubt);
            if effect.rejects_stale_fences {
                taken = taken.provider_rejects_stale_fences();
            }
        }
        if let Some(probe) = effect.probe.as_deref() {
            taken =
                taken.probe(move |key| async move { Ok::<_, Failure>(self.probe(probe, key, scope).await) });
            taken = taken.probe_timeout(span_of(probe.timeout) + HTTP_GRACE);
            if let Some(settle) = probe.settle {
                taken = taken.probe_settle(settle.get());
            }
        }
        if effect.non_idempotent {
            taken = taken.non_idempotent();
        }
        match &effect.compensate {
            Some(undo) => {
                let undoing = UndoRecord {
                    undo: Arc::new((**undo).clone()),
                    services: self.services.clone(),
                    workspace: self.ctx.workspace().clone(),
                    scope: Arc::new(scope.clone()),
                    step: step.name.as_str().into(),
                };
                let taken = match undo.policy() {
                    Some(policy) => taken.compensate_retry(policy),
                    None => taken,
                };
                taken.compensate(move |attempt: Attempt, output: Value| undoing.clone().run(attempt, output))
            }
            None => taken,
        }
    }
}

/// Returns true if an effect that happened goes to people when its output cannot be used: a claimed effect, or one with
/// a compensation.
pub(super) fn is_kept(effect: &Effect) -> bool {
    effect.class == EffectClass::Claimed || effect.compensate.is_some()
}

/// Maps the response to the output of the step. If that fails, a claimed effect goes in doubt: it has happened, and
/// people can supply its output.
pub(super) fn mapped<const N: usize>(
    step: &Step,
    scope: &Scope,
    results: &[(&'static str, Value); N],
    is_kept: bool,
) -> Result<Value, Failure> {
    let Some(output) = &step.output else {
        let [(_, first), ..] = results.as_slice() else { return Ok(Value::Null) };
        return Ok(first.clone());
    };
    let scope = results.iter().fold(scope.clone(), |scope, (name, value)| scope.with(name, value.clone()));
    output.render(&scope).map_err(|failed| match is_kept {
        true => Failure::unknown(format!("it happened, and its answer could not be used: {}", failed.0))
            .with_code("expression_failed")
            .finally(),
        false => failed.into(),
    })
}

/// Everything needed to undo an effect later, without the code that made it.
#[derive(Clone)]
struct UndoRecord {
    undo: Arc<Undo>,
    services: Arc<HostServices>,
    workspace: WorkspaceId,
    scope: Arc<Scope>,
    step: Arc<str>,
}

impl UndoRecord {
    async fn run(self, attempt: Attempt, output: Value) -> Result<(), Failure> {
        let mut scope = (*self.scope).clone();
        scope.complete(&self.step, output.clone())?;
        let scope = scope.with("output", output.clone());
        match &*self.undo {
            Undo::Task { task, input, .. } => {
                let input = match input {
                    Some(input) => evaluate_fairly(&self.workspace, || input.render(&scope)).await?,
                    None => output,
                };
                let call = TaskCall::of(task, input, &attempt, false);
                self.services.call_task(&self.workspace, call).await.map(drop)
            }
            Undo::Http { request, timeout, .. } => {
                let services = self.services.of(&self.workspace);
                super::http::ask(services, request, &scope, &attempt, *timeout, false).await.map(drop)
            }
        }
    }
}
