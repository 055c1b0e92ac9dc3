//! The workflow that executes programs. The provider observes when its effects begin and end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hapax_engine::ctx::Attempt;
use hapax_engine::model::{ClosePolicy, ProbeAnswer, RetryPolicy, RunId};
use hapax_engine::runtime::Delivery;
use hapax_engine::{Ctx, Engine, Failure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::node::Node;
use super::program::{Answer, EffectBehaviour, GenerationEnd, Op, Program, shared_key};
use super::provider::{RequestHandling, ask, enter, no_answer};
use super::world::World;

pub const WORKFLOW: &str = "program";
const TARGET: &str = "post";
/// Longer than the provider takes for any request.
const LONGEST_WORK: Duration = Duration::from_secs(4);

/// Each step the code saw, with its outcome.
type SeenSteps = Vec<(String, Value)>;

/// Output of an effect.
#[derive(Serialize, Deserialize)]
struct EffectOutput {
    /// Place in the program that requested the effect.
    path: String,
    step: String,
    by: String,
}

/// Execution context of a workflow.
#[derive(Clone)]
struct ProgramContext {
    world: Arc<World>,
    node: Arc<Node>,
    ctx: Ctx,
}

/// Registers the program workflow with `engine`.
pub fn register(engine: &Engine, world: &Arc<World>, node: &Arc<Node>) {
    let (world, node, outer) = (world.clone(), node.clone(), world.clone());
    let perform = move |ctx: Ctx, program: Program| {
        let stage = ProgramContext { world: world.clone(), node: node.clone(), ctx };
        async move { stage.perform(program).await }
    };
    engine.register(WORKFLOW, perform).expect("a fresh engine knows no workflow");
    let receive = move |delivery: Delivery, path: String| {
        let _ = path;
        outer.provider.receive(delivery.id());
        std::future::ready(Ok::<_, Failure>(()))
    };
    engine.register_target(TARGET, receive).expect("a fresh engine knows no target");
}

impl ProgramContext {
    async fn perform(self, program: Program) -> Result<(u32, SeenSteps), Failure> {
        let seen = self.all(String::new(), &program.ops).await?;
        match program.then {
            GenerationEnd::Complete => Ok((program.generation, seen)),
            GenerationEnd::Fail => Err(Failure::permanent("so it is written").with_code("planned")),
            GenerationEnd::Again(next) => self.ctx.continue_as_new(&*next),
        }
    }

    /// Executes operations one after another.
    fn all<'a>(&'a self, path: String, ops: &'a [Op]) -> BoxFuture<'a, Result<SeenSteps, Failure>> {
        async move {
            let mut seen = SeenSteps::new();
            for (place, op) in ops.iter().enumerate() {
                let path = if path.is_empty() { place.to_string() } else { format!("{path}.{place}") };
                seen.extend(self.one(path, op).await?);
            }
            Ok(seen)
        }
        .boxed()
    }

    async fn one(&self, path: String, op: &Op) -> Result<SeenSteps, Failure> {
        let ctx = &self.ctx;
        match op {
            Op::Step(effort) => {
                let done = self.step(&path, *effort).await?;
                Ok(vec![self.own(path, done)])
            }
            Op::Book(effort) => {
                let done = self.book(&path, *effort).await?;
                Ok(vec![self.own(path, done)])
            }
            Op::Wire { effort, has_probe } => {
                let done = self.wire(&path, *effort, *has_probe).await?;
                Ok(vec![self.own(path, done)])
            }
            Op::OutboxMessage => {
                ctx.after_effect(TARGET, &path).await?;
                Ok(vec![])
            }
            Op::Sleep { ms } => {
                let began = ctx.now().await?;
                ctx.sleep(Duration::from_millis(*ms)).await?;
                let span = ctx.now().await?.since(began);
                if span < Duration::from_millis(*ms) {
                    self.world.break_off(format!(
                        "{} slept for {span:?} of {ms} ms at {path}: it was given what another branch has on record",
                        self.world.name(ctx.run_id())
                    ));
                }
                Ok(vec![])
            }
            Op::Promise { timeout_ms, key } => {
                let name = format!("promise-{path}");
                let mut promise = ctx.create_promise::<Value>(&name);
                if let Some(ms) = timeout_ms {
                    promise = promise.timeout(Duration::from_millis(*ms));
                }
                promise = match key {
                    None => promise,
                    Some(0) => promise.with_idempotency_key(format!("{}:{name}", ctx.run_id())),
                    Some(n) => promise.with_idempotency_key(shared_key(*n)),
                };
                let given = promise.await;
                if given.as_ref().is_err_and(|failure| failure.existing_promise().is_some()) {
                    self.world.count(|tally| tally.keys_taken += 1);
                }
                Ok(outcome(given)?.map(|value| (name, value)).into_iter().collect())
            }
            Op::Signal { timeout_ms } => {
                let mut signal = ctx.signal::<Value>("signal");
                if let Some(ms) = timeout_ms {
                    signal = signal.timeout(Duration::from_millis(*ms));
                }
                outcome(signal.await)?;
                Ok(vec![])
            }
            Op::Child { program, outlives } => {
                let child = ctx.child::<_, Value>(WORKFLOW, program);
                let on_close = if *outlives { ClosePolicy::Abandon } else { ClosePolicy::Cancel };
                let outcome = child.on_close(on_close).await;
                match outcome.as_ref().err().and_then(Failure::code) {
                    Some("too_many_descendants" | "child_too_deep") => {
                        self.world.count(|tally| tally.children_over_limits += 1);
                    }
                    Some("family_cancelled") => self.world.count(|tally| tally.children_of_cancelled += 1),
                    _ => {}
                }
                // A child that fails as planned does not fail its parent.
                match outcome {
                    Err(failure) if !EXPECTED.contains(&failure.code().unwrap_or_default()) => Err(failure),
                    _ => Ok(vec![]),
                }
            }
            Op::Remember => {
                ctx.now().await?;
                ctx.random().await?;
                Ok(vec![])
            }
            Op::Both(branches) => {
                let branches = branches.iter().enumerate();
                let branches = branches.map(|(place, ops)| self.all(format!("{path}.{place}"), ops));
                let mut seen = SeenSteps::new();
                for outcome in ctx.join_all(branches).await {
                    seen.extend(outcome?);
                }
                Ok(seen)
            }
            Op::First(branches) => {
                let branches = branches.iter().enumerate();
                let branches = branches.map(|(place, ops)| self.all(format!("{path}.{place}"), ops));
                let (_, outcome) = ctx.select(branches.collect::<Vec<_>>()).await?;
                outcome
            }
            Op::Shield(ops) => ctx.shield(self.all(path, ops)).await,
            Op::Scope { ops, fails } => self.scope(path, ops, *fails).await,
        }
    }

    /// Pairs a step's output with the step's id. Steps share their names, so only order separates the branches of a
    /// run: an output from another place went to the wrong branch.
    fn own(&self, path: String, done: EffectOutput) -> (String, Value) {
        if done.path != path {
            let run = self.world.name(self.ctx.run_id());
            let other = &done.path;
            self.world.break_off(format!("{run} was given at {path} what was done at {other}"));
        }
        (done.step.clone(), json!(done))
    }

    async fn scope(&self, path: String, ops: &[Op], fails: bool) -> Result<SeenSteps, Failure> {
        let outcome = self.ctx.scope(|ctx| {
            let stage = ProgramContext { ctx, ..self.clone() };
            async move {
                let seen = stage.all(path, ops).await?;
                match fails {
                    true => Err(Failure::permanent("so it is written").with_code("planned")),
                    false => Ok(seen),
                }
            }
        });
        match outcome.await {
            Err(failure) if failure.code() == Some("planned") => Ok(vec![]),
            other => other,
        }
    }

    async fn step(&self, path: &str, effort: EffectBehaviour) -> Result<EffectOutput, Failure> {
        let (stage, run, path) = (self.clone(), self.ctx.run_id(), path.to_string());
        let code = move |attempt| stage.effect(run, path.clone(), attempt, effort);
        let mut step = self.ctx.step("step", code).retry(policy(effort));
        if let Some(ms) = effort.timeout_ms {
            step = step.timeout(Duration::from_millis(ms));
        }
        step.await
    }

    async fn wire(
        &self,
        path: &str,
        effort: EffectBehaviour,
        has_probe: bool,
    ) -> Result<EffectOutput, Failure> {
        let (stage, run, path) = (self.clone(), self.ctx.run_id(), path.to_string());
        let code = move |attempt: Attempt| {
            self.world.provider.check_claim(&self.world, attempt.idempotency_key());
            // A ruling that it did not happen allows another attempt.
            let effort = EffectBehaviour { attempts: 1_000, ..effort };
            stage.effect(run, path.clone(), attempt, effort)
        };
        let mut step = self.ctx.step("wire", code).retry(policy(effort)).claimed();
        if let Some(ms) = effort.timeout_ms {
            step = step.timeout(Duration::from_millis(ms));
        }
        if has_probe {
            let (world, node) = (self.world.clone(), self.node.clone());
            step = step.probe_settle(LONGEST_WORK).probe(move |key| {
                let (world, node) = (world.clone(), node.clone());
                async move {
                    world.may_pause(&node).await;
                    ask(&world, &node, run, &key);
                    let found = world.provider.look_up(&key);
                    world.may_pause(&node).await;
                    Ok::<_, Failure>(match found {
                        Some(output) => ProbeAnswer::Happened(serde_json::from_value(output)?),
                        None if world.chance(6) => ProbeAnswer::Unknown,
                        None => {
                            world.provider.deny(&key);
                            ProbeAnswer::DidNotHappen
                        }
                    })
                }
            });
        }
        step.await
    }

    async fn book(&self, path: &str, effort: EffectBehaviour) -> Result<EffectOutput, Failure> {
        let (stage, run, path) = (self.clone(), self.ctx.run_id(), path.to_string());
        let undo = self.clone();
        let step = self
            .ctx
            .step("book", move |attempt: Attempt| {
                stage.world.provider.can_be_undone(attempt.idempotency_key());
                // Repeat an effect that may have happened until the outcome is known, or until a person rules that it
                // did not happen.
                let effort = EffectBehaviour { attempts: 1_000, ..effort };
                stage.effect(run, path.clone(), attempt, effort)
            })
            .retry(policy(effort))
            .compensate(move |attempt, booked: EffectOutput| {
                let effort = EffectBehaviour { attempts: 1_000, ..EffectBehaviour::quick() };
                let undone = undo.effect(run, booked.path, attempt, effort);
                async move { undone.await.map(|_| ()) }
            });
        step.await
    }

    /// Runs the code of a step. It checks right before it sends that its node still holds the run, then waits
    /// for the provider's answer, unless its node is stopped.
    fn effect(
        &self,
        run: RunId,
        path: String,
        attempt: Attempt,
        effort: EffectBehaviour,
    ) -> impl Future<Output = Result<EffectOutput, Failure>> + Send + use<> {
        let (world, node) = (self.world.clone(), self.node.clone());
        let inside = enter(&world, &node, run, &attempt, effort.attempts);
        async move {
            world.may_pause(&node).await;
            let key = attempt.idempotency_key();
            let step = key.rsplit(':').next().unwrap_or_default().to_string();
            let done = EffectOutput { path, step, by: format!("{} as {}", node.name, inside.entry) };
            let answer = effort.answer(inside.entry);
            let treatment = RequestHandling {
                happens: answer == Answer::Done || (answer == Answer::Unknown && effort.charges_anyway),
                works_for: Duration::from_millis(effort.ms),
                answers_after: Duration::from_millis(effort.late_ms),
            };
            if let Err(stale) = attempt.ensure_still_held() {
                inside.deny();
                return Err(stale);
            }
            let answered = inside.send(treatment, json!(done));
            answered.await.map_err(|_| no_answer())?;
            world.may_pause(&node).await;
            match answer {
                Answer::Done => Ok(done),
                Answer::Unknown => Err(no_answer()),
                Answer::NotNow => {
                    inside.deny();
                    Err(Failure::retryable("not now").with_code("planned"))
                }
                Answer::Never => {
                    inside.deny();
                    Err(Failure::permanent("no").with_code("planned"))
                }
            }
        }
    }
}

fn policy(effort: EffectBehaviour) -> RetryPolicy {
    RetryPolicy::default()
        .max_attempts(effort.attempts)
        .first_wait(Duration::from_millis(100))
        .max_wait(Duration::from_secs(1))
}

/// Codes of the failures that a step, child or run may have here: the program planned one, the attempts ran out in the
/// storm, or people cancelled it.
pub const EXPECTED: [&str; 13] = [
    "planned",
    "key_conflict",
    "crashed",
    "timed_out",
    "cancelled",
    "deadline_exceeded",
    "undo_failed",
    "abandoned",
    "in_doubt",
    "did_not_happen",
    "family_cancelled",
    "too_many_descendants",
    "child_too_deep",
];

/// A wait that timed out or was rejected is an outcome like any other.
fn outcome(waited: Result<Value, Failure>) -> Result<Option<Value>, Failure> {
    match waited {
        Ok(value) => Ok(Some(value)),
        Err(failure) if ["timed_out", "planned"].contains(&failure.code().unwrap_or_default()) => Ok(None),
        Err(failure) => Err(failure),
    }
}
