//! Runs a document on the engine. The document is the workflow code, so a replay takes the same path.

mod approval;
mod effect;
pub(crate) mod excerpt;
pub(crate) mod http;
mod options;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hapax_engine::model::{EffectClass, IdempotencyKey, RetryPolicy, Timestamp};
use hapax_engine::{Ctx, Engine, Error, Failure};
use serde_json::{Value, json};

use crate::check::Checked;
use crate::evaluation_slots::evaluate_guarded;
use crate::host_services::{HostServices, WorkspaceServices};
use crate::limits::MAX_ITEMS;
use crate::model::{Child, Condition, ForEach, Parallel, Promise, Step, StepKind, Wait};
use crate::scope::Scope;
use crate::template::Template;

pub use approval::{APPROVAL_SIGNAL, Answer, AnswerRefused, Decider, approval_signal, check_answer};
pub use options::options;

/// Future of a list of steps.
type Steps<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// Runs the document with `input` and returns its output.
pub async fn run(
    ctx: Ctx,
    document: Arc<Checked>,
    input: Value,
    services: Arc<HostServices>,
) -> Result<Value, Failure> {
    if !input.is_object() {
        let text = "the input of a document is an object";
        return Err(Failure::permanent(text).with_code("input_mismatch"));
    }
    let document = document.document();
    let about = json!({
        "id": ctx.run_id().to_string(),
        "workflow": document.name,
        "version": document.version,
    });
    let mut scope = Scope::new(input, about);
    let runner = Runner { ctx: &ctx, services: &services };
    runner.steps(&document.steps, &mut scope).await?;
    match &document.output {
        Some(output) => Ok(runner.evaluate(|| output.render(&scope)).await?),
        None => Ok(scope.state()),
    }
}

/// Registers the document with an engine under its own name and version.
pub fn register(engine: &Engine, document: Arc<Checked>, services: Arc<HostServices>) -> Result<(), Error> {
    let (name, options) = (document.document().name.clone(), options(&document));
    engine.register_with(&name, options, move |ctx, input: Value| {
        run(ctx, document.clone(), input, services.clone())
    })
}

/// Context of a running document.
#[derive(Clone, Copy)]
struct Runner<'a> {
    ctx: &'a Ctx,
    services: &'a Arc<HostServices>,
}

impl<'a> Runner<'a> {
    /// Host services of the run's workspace.
    fn own_services(self) -> WorkspaceServices<'a> {
        self.services.of(self.ctx.workspace())
    }

    /// Evaluates expressions of the workflow: in place if that is cheap, else in its workspace's turn.
    async fn evaluate<T>(self, evaluate: impl Fn() -> T) -> T {
        evaluate_guarded(self.ctx.workspace(), || self.ctx.begin_computation(), evaluate).await
    }

    /// Runs steps one after another.
    fn steps<'s>(self, steps: &'s [Step], scope: &'s mut Scope) -> Steps<'s>
    where
        'a: 's,
    {
        Box::pin(async move {
            for step in steps {
                self.step(step, scope).await?;
            }
            Ok(())
        })
    }

    async fn step(self, step: &Step, scope: &mut Scope) -> Result<(), Failure> {
        if let Some(when) = &step.when {
            let holds = self.evaluate(|| when.holds(scope)).await;
            match holds {
                Ok(true) => {}
                Ok(false) => return self.skip(step, scope),
                Err(failed) => return Err(self.fail(step, scope, failed.into()).await),
            }
        }
        // Outputs of effects are mapped before they are recorded, so the record contains the step's output.
        let result = match &step.kind {
            StepKind::Task(task) => {
                let output = self.task(step, task, scope).await?;
                return scope.complete(&step.name, output);
            }
            StepKind::Http(http) => {
                let output = self.http(step, http, scope).await?;
                return scope.complete(&step.name, output);
            }
            StepKind::Wait(wait) => self.wait(step, wait, scope).await?,
            StepKind::Condition(condition) => self.condition(step, condition, scope).await?,
            StepKind::Promise(promise) => self.promise(step, promise, scope).await?,
            StepKind::Signal(signal) => {
                let name = scope.name(&step.name);
                let wait =
                    self.ctx.signal::<Value>(signal.signal.as_deref().unwrap_or(&name)).recorded_as(&name);
                match signal.timeout {
                    Some(timeout) => wait.timeout(timeout.get()).await?,
                    None => wait.await?,
                }
            }
            StepKind::Approval(approval) => self.approval(step, approval, scope).await?,
            StepKind::Child(child) => self.child(step, child, scope).await?,
            StepKind::Parallel(parallel) => self.parallel(parallel, scope).await?,
            StepKind::ForEach(for_each) => self.for_each(step, for_each, scope).await?,
        };
        let output = match &step.output {
            Some(output) => {
                let scope = scope.with("result", result);
                self.evaluate(|| output.render(&scope)).await?
            }
            None => result,
        };
        scope.complete(&step.name, output)
    }

    /// S0.36, S0.41: a skipped step is recorded as SKIPPED, with all steps inside it.
    fn skip(self, step: &Step, scope: &mut Scope) -> Result<(), Failure> {
        self.ctx.skip(&scope.name(&step.name))?;
        scope.skip(&step.name);
        let inside: Vec<&Step> = match &step.kind {
            StepKind::Condition(condition) => condition.then.iter().chain(&condition.otherwise).collect(),
            StepKind::Parallel(parallel) => parallel.branches.iter().flatten().collect(),
            // Its steps belong to items, and there are none.
            StepKind::ForEach(_) => Vec::new(),
            _ => Vec::new(),
        };
        inside.into_iter().try_for_each(|step| self.skip(step, scope))
    }

    /// Records a failure of the step, and returns it.
    async fn fail(self, step: &Step, scope: &Scope, failure: Failure) -> Failure {
        let name = scope.name(&step.name);
        let failed = failure.clone();
        let code = move |_| {
            let failed = failed.clone();
            async move { Err::<Value, Failure>(failed) }
        };
        let taken = self.ctx.step(&name, code).retry(RetryPolicy::never());
        let class = match &step.kind {
            StepKind::Task(task) => task.effect.class,
            StepKind::Http(http) => http.effect.class,
            _ => EffectClass::Idempotent,
        };
        let taken = if class == EffectClass::Claimed { taken.claimed() } else { taken };
        taken.await.err().unwrap_or(failure)
    }

    /// Renders a template of a step. If that fails, the step fails.
    async fn render(self, step: &Step, template: &Template, scope: &Scope) -> Result<Value, Failure> {
        match self.evaluate(|| template.render(scope)).await {
            Ok(value) => Ok(value),
            Err(failed) => Err(self.fail(step, scope, failed.into()).await),
        }
    }

    /// A key that is not a string, or that belongs to another promise, fails the step.
    async fn promise(self, step: &Step, promise: &Promise, scope: &Scope) -> Result<Value, Failure> {
        let key = match &promise.key {
            Some(key) => match key_of(&self.render(step, key, scope).await?) {
                Ok(key) => Some(key),
                Err(failure) => return Err(self.fail(step, scope, failure).await),
            },
            None => None,
        };
        let mut made = self.ctx.create_promise::<Value>(&scope.name(&step.name));
        if let Some(timeout) = promise.timeout {
            made = made.timeout(timeout.get());
        }
        if let Some(key) = key {
            made = made.with_idempotency_key(key);
        }
        if let Some(keep_for) = promise.key_ttl {
            made = made.key_ttl(keep_for.get());
        }
        made.await
    }

    async fn wait(self, step: &Step, wait: &Wait, scope: &Scope) -> Result<Value, Failure> {
        let name = scope.name(&step.name);
        match wait {
            Wait::For(span) => self.ctx.sleep_as(&name, span.get()).await?,
            Wait::Until(until) => {
                let until = self.render(step, until, scope).await?;
                match time_of(&until) {
                    Ok(at) => self.ctx.sleep_until_as(&name, at).await?,
                    Err(why) => {
                        let failure = Failure::permanent(why).with_code("bad_time");
                        return Err(self.fail(step, scope, failure).await);
                    }
                }
            }
        }
        Ok(Value::Null)
    }

    async fn condition(self, step: &Step, of: &Condition, scope: &mut Scope) -> Result<Value, Failure> {
        let holds = self.evaluate(|| of.condition.holds(scope)).await;
        let holds = match holds {
            Ok(holds) => holds,
            Err(failed) => return Err(self.fail(step, scope, failed.into()).await),
        };
        // The choice is recorded, so that a replay makes the same choice.
        let chosen = || (if holds { "then" } else { "else" }).to_string();
        let taken: String = self.ctx.remember(&scope.name(&step.name), chosen)?;
        let (taken_steps, passed_over) = match taken.as_str() {
            "then" => (&of.then, &of.otherwise),
            _ => (&of.otherwise, &of.then),
        };
        passed_over.iter().try_for_each(|step| self.skip(step, scope))?;
        self.steps(taken_steps, scope).await?;
        Ok(Value::String(taken))
    }

    async fn child(self, step: &Step, child: &Child, scope: &Scope) -> Result<Value, Failure> {
        let input = match &child.input {
            Some(input) => self.render(step, input, scope).await?,
            None => json!({}),
        };
        let name = scope.name(&step.name);
        self.ctx.child::<_, Value>(&child.workflow, &input).on_close(child.on_close).recorded_as(&name).await
    }

    /// Runs all branches to their end, even if one fails: no effect is interrupted. Their outputs are merged in
    /// document order, whichever branch ended first.
    async fn parallel(self, parallel: &Parallel, scope: &mut Scope) -> Result<Value, Failure> {
        let around = &*scope;
        let branches = parallel.branches.iter().map(|steps| async move {
            let mut branch = around.branch();
            self.steps(steps, &mut branch).await.map(|()| branch)
        });
        let outcomes = self.ctx.join_all(branches).await;
        let branches: Vec<Scope> = outcomes.into_iter().collect::<Result<_, _>>()?;
        let before = scope.held();
        branches.into_iter().try_for_each(|branch| scope.merge(branch, before))?;
        Ok(Value::Null)
    }

    /// Runs up to `concurrency` lanes, each taking the next item. After a failure no further item starts.
    async fn for_each(self, step: &Step, of: &ForEach, scope: &Scope) -> Result<Value, Failure> {
        let items = match self.render(step, &of.items, scope).await? {
            Value::Array(items) => items,
            _ => {
                let failure = Failure::permanent("items must give a list").with_code("expression_failed");
                return Err(self.fail(step, scope, failure).await);
            }
        };
        let most = of.max_items.unwrap_or(MAX_ITEMS);
        if items.len() > most {
            let text = format!("there are {} items, and {most} are allowed", items.len());
            return Err(self.fail(step, scope, Failure::permanent(text).with_code("too_many_items")).await);
        }
        let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (items, next, has_failed) = (&items, &next, &has_failed);
        let lanes = (0..of.concurrency.unwrap_or(1).min(items.len())).map(|_| async move {
            let mut done = Vec::new();
            while !has_failed.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { break };
                let outcome = self.item(of, scope.item(index, item.clone())).await;
                has_failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                done.push((index, outcome));
            }
            done
        });
        let mut done: Vec<_> = self.ctx.join_all(lanes).await.into_iter().flatten().collect();
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, outcome)| outcome).collect::<Result<_, _>>().map(Value::Array)
    }

    async fn item(self, of: &ForEach, mut scope: Scope) -> Result<Value, Failure> {
        self.steps(&of.steps, &mut scope).await?;
        match &of.result {
            Some(result) => Ok(self.evaluate(|| result.render(&scope)).await?),
            None => Ok(scope.written()),
        }
    }
}

/// An instant in a document: RFC 3339, or milliseconds since 1970.
pub(crate) fn time_of(value: &Value) -> Result<Timestamp, String> {
    let wrong =
        || "an instant is a text such as \"2030-01-31T12:00:00Z\", or milliseconds since 1970".to_string();
    match value {
        Value::String(text) => {
            let at: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
            Ok(Timestamp::from_millis(at.as_millisecond()))
        }
        Value::Number(number) => number.as_i64().map(Timestamp::from_millis).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// The key that a template returned: a valid string or number.
fn key_of(value: &Value) -> Result<String, Failure> {
    let bad = |why: String| Failure::permanent(why).with_code("bad_key");
    let key = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(bad("the key of a promise is a text; the template gave something else".into())),
    };
    match IdempotencyKey::new(&key) {
        Ok(_) => Ok(key),
        Err(invalid) => Err(bad(format!("the key of the promise cannot be used: {invalid}"))),
    }
}
