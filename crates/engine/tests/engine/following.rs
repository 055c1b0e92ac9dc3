//! An effect begins before earlier outcomes are committed only if those are derivable from durable data.

use std::sync::Arc;
use std::time::Duration;

use crate::support::cut_off::CutOff;
use crate::support::{Bench, Log};
use hapax_engine::ctx::{Attempt, StepFuture};
use hapax_engine::model::{EffectClass, RunId, RunStatus, StepStatus};
use hapax_engine::runtime::NewPromise;
use hapax_engine::store::Store;
use hapax_engine::testing::{CrashEverywhere, Expect};
use hapax_engine::{Ctx, Engine, EngineOptions, Failure, effects};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs of one workflow on a node whose commits can be held back.
struct Node {
    bench: Bench,
    line: Arc<CutOff>,
    engine: Engine,
    log: Log,
}

impl Node {
    fn new() -> Self {
        let bench = Bench::new();
        let line = CutOff::new(bench.store.clone());
        let engine = Engine::launch(line.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
        Node { bench, line, engine, log: Log::default() }
    }

    /// Starts a run of `workflow`, lets it reach its wait, and then holds its commits back.
    async fn hold_waiting<F, Fut>(&self, workflow: F) -> RunId
    where
        F: Fn(Ctx, Log) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        let log = self.log.clone();
        self.engine.register("follow", move |ctx: Ctx, ()| workflow(ctx, log.clone())).unwrap();
        let run = self.engine.start("follow", &()).await.unwrap();
        self.bench.until(run.id(), RunStatus::Waiting).await;
        self.bench.eventually("it is parked", async || (self.engine.active_runs() == 0).then_some(())).await;
        self.line.hold(true);
        run.id()
    }

    async fn resolve(&self, run: RunId, promise: &str, value: &str) {
        self.engine.resolve_promise(&format!("{run}:{promise}"), value).await.unwrap();
    }

    async fn until_did(&self, what: &str) {
        let did = async || self.log.read().iter().any(|did| did == what).then_some(());
        self.bench.eventually(what, did).await;
    }

    /// Lets everything progress as far as it can without a commit.
    async fn settle_down(&self) {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }

    /// Lets commits continue and returns the output of the run.
    async fn let_go(&self, run: RunId) -> String {
        self.line.hold(false);
        let ended = self.engine.run(run).await.unwrap().result::<String>().await.unwrap();
        self.bench.check().await;
        ended
    }
}

/// Step that logs its attempt number and its key.
async fn ship(ctx: &Ctx, log: &Log, what: &str) -> Result<String, Failure> {
    let (log, what) = (log.clone(), what.to_string());
    ctx.step("ship", move |attempt: Attempt| -> StepFuture<'static, String> {
        log.add(format!("ship {what} {} {}", attempt.number(), attempt.idempotency_key()));
        let what = what.clone();
        Box::pin(async move { Ok(what) })
    })
    .await
}

async fn answer_then_ship(ctx: Ctx, log: Log) -> Result<String, Failure> {
    let answer: String = ctx.create_promise("answer").timeout(HOUR).await?;
    ship(&ctx, &log, &answer).await
}

fn shipped(log: &Log) -> Vec<String> {
    log.read().into_iter().filter(|did| did.starts_with("ship")).collect()
}

/// The settlement is durable, and the code can receive nothing else. The step begins at once, and both are
/// one commit.
#[tokio::test]
async fn a_step_after_a_settlement_waits_for_no_further_write() {
    let node = Node::new();
    let run = node.hold_waiting(answer_then_ship).await;
    node.resolve(run, "answer", "yes").await;
    node.until_did(&format!("ship yes 1 {run}:ship")).await;
    let log = node.bench.engine.get_log(run).await.unwrap();
    assert_eq!(log.steps.len(), 1, "nothing was written since: {:?}", log.steps);
    assert_eq!(log.steps[0].state.status(), StepStatus::Waiting);
    assert_eq!(node.let_go(run).await, "yes");
    let steps = node.bench.engine.get_log(run).await.unwrap().steps;
    let told: Vec<_> = steps.iter().map(|step| (step.id.as_str(), step.changed_version)).collect();
    assert!(told[0].0 == "answer" && told[0].1 < told[1].1, "told before it was shipped: {told:?}");
}

/// A crash between the effect and its commit: the next holder finds the settlement, gives it to the code
/// first, and repeats the effect under the same key, knowing that it may have happened.
#[tokio::test]
async fn after_a_crash_the_same_answer_leads_to_the_same_work() {
    let node = Node::new();
    let run = node.hold_waiting(answer_then_ship).await;
    node.resolve(run, "answer", "yes").await;
    node.until_did(&format!("ship yes 1 {run}:ship")).await;
    node.engine.kill();
    // Any wait with a timeout would have timed out by now.
    node.bench.clock.advance(2 * HOUR);
    let log = node.log.clone();
    node.bench.engine.register("follow", move |ctx: Ctx, ()| answer_then_ship(ctx, log.clone())).unwrap();
    let ended = node.bench.engine.run(run).await.unwrap().result::<String>().await.unwrap();
    assert_eq!(ended, "yes");
    assert_eq!(shipped(&node.log), [format!("ship yes 1 {run}:ship"), format!("ship yes 2 {run}:ship")]);
    let repeats = node.bench.engine.count_repeats().await.unwrap()[&EffectClass::Idempotent];
    assert_eq!((repeats.happened_twice, repeats.may_have_happened_twice), (0, 1));
    node.bench.check().await;
}

/// The first signal of its name stays the first, whatever arrives later.
#[tokio::test]
async fn a_step_after_a_signal_waits_for_no_further_write() {
    let workflow = |ctx: Ctx, log: Log| async move {
        let go: String = ctx.signal("go").await?;
        ship(&ctx, &log, &go).await
    };
    let node = Node::new();
    let run = node.hold_waiting(workflow).await;
    node.engine.signal(run, "go", "one", None).await.unwrap();
    node.engine.signal(run, "go", "two", None).await.unwrap();
    node.until_did(&format!("ship one 1 {run}:ship")).await;
    node.engine.kill();
    node.bench.clock.advance(HOUR);
    let log = node.log.clone();
    node.bench.engine.register("follow", move |ctx: Ctx, ()| workflow(ctx, log.clone())).unwrap();
    let ended = node.bench.engine.run(run).await.unwrap().result::<String>().await.unwrap();
    assert_eq!(ended, "one");
    assert_eq!(shipped(&node.log).len(), 2);
    node.bench.check().await;
}

/// A promise is not deleted while a run waits for it.
#[tokio::test]
async fn a_step_after_a_promise_that_stands_alone_waits_for_no_further_write() {
    let workflow = |ctx: Ctx, log: Log| async move {
        let answer: String = ctx.await_promise("alone").await?;
        ship(&ctx, &log, &answer).await
    };
    let node = Node::new();
    let run = node.hold_waiting(workflow).await;
    drop(node.engine.resolve_promise("alone", "yes").await.unwrap());
    node.until_did(&format!("ship yes 1 {run}:ship")).await;
    assert_eq!(node.let_go(run).await, "yes");
}

/// In each of these cases a replay might receive the outcome differently or later, so it must be recorded
/// before the next effect begins.
mod what_does_not_follow {
    use super::*;

    /// `act` makes the run continue. Nothing is shipped before commits continue.
    async fn waits_for_the_write<F, Fut>(workflow: F, act: impl AsyncFn(&Node, RunId))
    where
        F: Fn(Ctx, Log) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        waits_for_the_write_on(Node::new(), workflow, act).await;
    }

    async fn waits_for_the_write_on<F, Fut>(node: Node, workflow: F, act: impl AsyncFn(&Node, RunId))
    where
        F: Fn(Ctx, Log) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        let run = node.hold_waiting(workflow).await;
        act(&node, run).await;
        node.until_did("told").await;
        node.settle_down().await;
        assert_eq!(shipped(&node.log), Vec::<String>::new());
        node.let_go(run).await;
        assert_eq!(shipped(&node.log).len(), 1);
    }

    async fn yes(node: &Node, run: RunId) {
        node.resolve(run, "answer", "yes").await;
    }

    /// A later replay may find that the timer is due and receive that first.
    #[tokio::test]
    async fn a_settlement_beside_a_timer() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let shipping = async {
                let answer: String = ctx.create_promise("answer").await?;
                log.add("told".into());
                ship(&ctx, &log, &answer).await
            };
            let (shipped, slept) = tokio::join!(shipping, ctx.sleep(Duration::from_secs(60)));
            slept?;
            shipped
        };
        let node = Node::new();
        let run = node.hold_waiting(workflow).await;
        yes(&node, run).await;
        node.until_did("told").await;
        node.settle_down().await;
        assert_eq!(shipped(&node.log), Vec::<String>::new());
        node.line.hold(false);
        node.bench.eventually("it is shipped", async || shipped(&node.log).pop()).await;
        node.bench.clock.advance(HOUR);
        assert_eq!(node.let_go(run).await, "yes");
    }

    /// The other promise may be settled before the replay and then come first.
    #[tokio::test]
    async fn a_settlement_beside_another_promise() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let shipping = async {
                let answer: String = ctx.create_promise("answer").await?;
                log.add("told".into());
                ship(&ctx, &log, &answer).await
            };
            let (shipped, other) = tokio::join!(shipping, ctx.create_promise::<String>("other"));
            other?;
            shipped
        };
        let node = Node::new();
        let run = node.hold_waiting(workflow).await;
        yes(&node, run).await;
        node.until_did("told").await;
        node.settle_down().await;
        assert_eq!(shipped(&node.log), Vec::<String>::new());
        node.resolve(run, "other", "too").await;
        assert_eq!(node.let_go(run).await, "yes");
    }

    /// Two outcomes in one turn are replayed in the order of their records. Only its record shows the second.
    #[tokio::test]
    async fn two_settlements_in_one_turn() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let both =
                tokio::join!(ctx.create_promise::<String>("other"), ctx.create_promise::<String>("answer"));
            log.add("told".into());
            ship(&ctx, &log, &both.1?).await
        };
        waits_for_the_write(workflow, async |node, run| {
            node.engine.run(run).await.unwrap().pause().await.unwrap();
            node.resolve(run, "other", "too").await;
            yes(node, run).await;
            node.engine.run(run).await.unwrap().resume().await.unwrap();
        })
        .await;
    }

    /// The clock would show another time.
    #[tokio::test]
    async fn a_value_read_after_the_settlement() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let answer: String = ctx.create_promise("answer").await?;
            ctx.now().await?;
            log.add("told".into());
            ship(&ctx, &log, &answer).await
        };
        waits_for_the_write(workflow, yes).await;
    }

    /// A signal may arrive before the timeout is recorded.
    #[tokio::test]
    async fn a_promise_that_timed_out() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let answer = ctx.create_promise::<String>("answer").timeout(HOUR).await;
            log.add("told".into());
            ship(&ctx, &log, if answer.is_ok() { "yes" } else { "no" }).await
        };
        waits_for_the_write(workflow, async |node, _| node.bench.clock.advance(HOUR)).await;
    }

    #[tokio::test]
    async fn a_signal_that_did_not_come() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let go = ctx.signal::<String>("go").timeout(HOUR).await;
            log.add("told".into());
            ship(&ctx, &log, if go.is_ok() { "yes" } else { "no" }).await
        };
        waits_for_the_write(workflow, async |node, _| node.bench.clock.advance(HOUR)).await;
    }

    /// The wait has timed out, but the promise may still be settled.
    #[tokio::test]
    async fn a_promise_that_stands_alone_and_did_not_come() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let answer = ctx.await_promise::<String>("alone").timeout(HOUR).await;
            log.add("told".into());
            ship(&ctx, &log, if answer.is_ok() { "yes" } else { "no" }).await
        };
        waits_for_the_write(workflow, async |node, _| node.bench.clock.advance(HOUR)).await;
    }

    /// By another node's clock it may not have timed out yet.
    #[tokio::test]
    async fn a_promise_that_stands_alone_and_timed_out() {
        let node = Node::new();
        let deadline_at = Some(node.bench.store.now().plus(HOUR));
        let alone = NewPromise { id: Some("alone".into()), deadline_at, ..NewPromise::default() };
        drop(node.bench.engine.create_promise(alone).await.unwrap());
        let workflow = |ctx: Ctx, log: Log| async move {
            let answer = ctx.await_promise::<String>("alone").await;
            log.add("told".into());
            ship(&ctx, &log, if answer.is_ok() { "yes" } else { "no" }).await
        };
        waits_for_the_write_on(node, workflow, async |node, _| node.bench.clock.advance(HOUR)).await;
    }

    /// In a replay the other step may be in progress again, or not yet, when the settlement comes.
    #[tokio::test]
    async fn a_settlement_beside_a_step_under_way() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let answer = ctx.create_promise::<String>("answer").open()?;
            let shipping = async {
                let answer = answer.await?;
                log.add("told".into());
                ship(&ctx, &log, &answer).await
            };
            let packing = async {
                ctx.signal::<String>("pack").await?;
                let pack = ctx.step("pack", |_| {
                    log.add("packing".into());
                    let log = log.clone();
                    async move {
                        while !log.read().contains(&"packed".to_string()) {
                            tokio::task::yield_now().await;
                        }
                        Ok::<_, Failure>(())
                    }
                });
                pack.await
            };
            let (shipped, packed) = tokio::join!(shipping, packing);
            packed?;
            shipped
        };
        let node = Node::new();
        let run = node.hold_waiting(workflow).await;
        node.line.hold(false);
        node.engine.signal(run, "pack", "now", None).await.unwrap();
        node.until_did("packing").await;
        node.line.hold(true);
        yes(&node, run).await;
        node.until_did("told").await;
        node.settle_down().await;
        assert_eq!(shipped(&node.log), Vec::<String>::new());
        node.log.add("packed".into());
        assert_eq!(node.let_go(run).await, "yes");
    }

    /// A claim is durable before its effect, and so is everything before it.
    #[tokio::test]
    async fn a_claimed_effect() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let answer: String = ctx.create_promise("answer").await?;
            log.add("told".into());
            let shipping = ctx.step("ship", |_| {
                log.add("ship".into());
                async { Ok::<_, Failure>(()) }
            });
            shipping.claimed().await.map(|()| answer)
        };
        waits_for_the_write(workflow, yes).await;
    }

    /// A cancelled run receives nothing more in a replay, so its undo must not depend on it.
    #[tokio::test]
    async fn the_undoing_of_what_was_done_before() {
        let workflow = |ctx: Ctx, log: Log| async move {
            let undo = log.clone();
            log.step(&ctx, "reserve")
                .compensate(move |_, _| {
                    undo.add("ship back".into());
                    async { Ok::<_, Failure>(()) }
                })
                .await?;
            let answer: String = ctx.create_promise("answer").await?;
            log.add("told".into());
            Err(Failure::permanent(answer))
        };
        let node = Node::new();
        let run = node.hold_waiting(workflow).await;
        yes(&node, run).await;
        node.until_did("told").await;
        node.settle_down().await;
        assert_eq!(shipped(&node.log), Vec::<String>::new());
        node.line.hold(false);
        node.bench.until(run, RunStatus::Failed).await;
        assert_eq!(shipped(&node.log), ["ship back"]);
        node.bench.check().await;
    }
}

/// A crash at any point on the way to the settlement, the effect or their commit.
#[tokio::test]
async fn a_crash_anywhere_around_a_settlement_does_no_harm() {
    let workflow = |ctx: Ctx, _: ()| async move {
        let mut shipped = Vec::new();
        for name in ["first", "second"] {
            let answer: String = ctx.create_promise(name).await?;
            let keyed = ctx.step(&format!("ship-{name}"), |attempt: Attempt| {
                let did = format!("{answer} {}", attempt.idempotency_key());
                async move { Ok::<_, Failure>(did) }
            });
            shipped.push(keyed.await?);
            let go: String = ctx.signal("go").await?;
            shipped.push(
                ctx.step(&format!("wire-{name}"), |_| {
                    let go = go.clone();
                    async move { Ok::<_, Failure>(go) }
                })
                .claimed()
                .await?,
            );
        }
        Ok::<_, Failure>(shipped)
    };
    let outside = |engine: Engine, run: RunId| async move {
        for name in ["first", "second"] {
            while engine.resolve_promise(&format!("{run}:{name}"), name).await.is_err()
                || engine.signal(run, "go", name, Some(name)).await.is_err()
            {
                tokio::task::yield_now().await;
            }
        }
    };
    let report = CrashEverywhere::new(workflow, &()).outside(outside).run().await;
    report.assert_safe();
    effects!(report, "ship-first" => Expect::AtLeastOnce, "ship-second" => Expect::AtLeastOnce);
    assert_eq!(report.usual_end, Some(RunStatus::Completed));
}
