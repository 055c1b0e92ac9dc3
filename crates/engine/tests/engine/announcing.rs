//! Announcements: subscribers receive the end of a run, or a doubt, exactly once, in the commit that causes
//! it.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Bench, Log};
use hapax_engine::model::{
    AnnouncementKind, CommitBuilder, Grant, Name, OutboxMessage, OutboxStatus, OwnerId, Payload, RunId,
    RunResult, RunStatus, ServedWorkflows, StepStatus, Subscriber, Subscribers, WorkflowRef, WorkspaceId,
};
use hapax_engine::runtime::{Announcer, Delivery};
use hapax_engine::store::{ClaimRuns, CommitOutcome, Store};
use hapax_engine::testing::CrashEverywhere;
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};

/// `all` subscribes to every event, `ends` only to the end of runs, `doubts` only to doubts.
struct ThreeSubscribers;

impl Announcer for ThreeSubscribers {
    fn subscribers(&self, workspace: &WorkspaceId) -> Subscribers {
        match workspace == &WorkspaceId::default() {
            true => three(),
            false => Subscribers::default(),
        }
    }
}

fn three() -> Subscribers {
    let subscriber = |target: &str, wants: &[AnnouncementKind]| Subscriber {
        target: Name::new("target", target).unwrap(),
        wants: wants.iter().copied().collect(),
    };
    Subscribers::new(vec![
        subscriber("all", &AnnouncementKind::ALL),
        subscriber("ends", &AnnouncementKind::ALL[..3]),
        subscriber("doubts", &[AnnouncementKind::EffectInDoubt]),
    ])
}

fn announcing(options: EngineOptions) -> Bench {
    let bench = Bench::with(options);
    assert!(bench.engine.set_announcer(Arc::new(ThreeSubscribers)));
    bench
}

/// Announcements of a run, as `target event`, in order.
async fn told(engine: &Engine, run: RunId) -> Vec<String> {
    let posts = engine.list_after_effects(None, None, 1_000).await.unwrap();
    let mut told: Vec<String> = posts.iter().filter(|post| post.run == run).map(said).collect();
    told.sort();
    told
}

fn said(post: &OutboxMessage) -> String {
    let payload: serde_json::Value = post.payload.to().unwrap();
    assert_eq!(payload["data"]["runId"], post.run.to_string());
    format!("{} {}", post.target, payload["type"].as_str().unwrap())
}

fn both(event: &str) -> [String; 2] {
    ["all", "ends"].map(|target| format!("{target} {event}"))
}

/// Invariant 50: one announcement per subscriber, none for other targets.
#[tokio::test]
async fn the_end_of_a_run_is_announced_to_its_subscribers() {
    let bench = announcing(EngineOptions::default());
    bench
        .engine
        .register("order", |ctx: Ctx, fails: bool| async move {
            ctx.step("book", |_| async { Ok::<_, Failure>(()) }).await?;
            if fails { Err(Failure::permanent("sold out")) } else { Ok(()) }
        })
        .unwrap();
    for (fails, event) in [(false, "run.completed"), (true, "run.failed")] {
        let start = bench.engine.start("order", &fails).idempotency_key(format!("order-{fails}"));
        let run = start.subject("book").await.unwrap();
        let _ = run.result::<()>().await;
        assert_eq!(told(&bench.engine, run.id()).await, both(event));
        let posts =
            bench.engine.list_after_effects_to("ends", Some(OutboxStatus::Due), None, 9).await.unwrap();
        let post = posts.iter().find(|post| post.run == run.id()).unwrap();
        let payload: serde_json::Value = post.payload.to().unwrap();
        assert_eq!(payload["data"]["workflow"], "order");
        assert_eq!(payload["data"]["idempotencyKey"], format!("order-{fails}"));
        assert_eq!(payload["data"]["subject"], "book");
        assert_eq!(payload["timestamp"], post.created_at.to_string());
    }
    let elsewhere = bench.engine.workspace(WorkspaceId::new("other").unwrap());
    let run = elsewhere.start("order", &false).await.unwrap();
    run.result::<()>().await.unwrap();
    assert!(told(&elsewhere, run.id()).await.is_empty(), "others are not told");
    bench.check().await;
}

/// A reopened run ends again, and its new end is announced too.
#[tokio::test]
async fn each_end_of_a_retried_run_is_announced() {
    let bench = announcing(EngineOptions::default());
    let fail = |_: Ctx, (): ()| async { Err::<(), _>(Failure::permanent("sold out")) };
    bench.engine.register("order", fail).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    assert!(run.result::<()>().await.is_err());
    bench.clock.advance(Duration::from_secs(1));
    run.retry(None).await.unwrap();
    bench.until(run.id(), RunStatus::Failed).await;
    let twice = ["all", "all", "ends", "ends"].map(|target| format!("{target} run.failed"));
    assert_eq!(told(&bench.engine, run.id()).await, twice);
    bench.check().await;
}

#[tokio::test]
async fn a_cancelled_run_is_announced_whoever_cancels_it() {
    let bench = announcing(EngineOptions::default());
    bench.engine.register("waits", |ctx: Ctx, (): ()| async move { ctx.signal::<()>("go").await }).unwrap();
    // This run undoes its effects, so its own code ends it.
    let parked = bench.engine.start("waits", &()).await.unwrap();
    bench.until(parked.id(), RunStatus::Waiting).await;
    parked.cancel("enough").await.unwrap();
    bench.until(parked.id(), RunStatus::Cancelled).await;
    assert_eq!(told(&bench.engine, parked.id()).await, both("run.cancelled"));
    // This run never started, so the operator's command ends it.
    let delayed = bench.engine.start("waits", &()).delay(Duration::from_secs(3600)).await.unwrap();
    delayed.cancel("enough").await.unwrap();
    assert_eq!(told(&bench.engine, delayed.id()).await, both("run.cancelled"));
    delayed.cancel("enough").await.unwrap();
    assert_eq!(told(&bench.engine, delayed.id()).await, both("run.cancelled"), "asked again, told once");
    bench.check().await;
}

#[tokio::test]
async fn a_child_that_ends_with_its_parent_is_announced_in_the_same_commit() {
    let bench = announcing(EngineOptions { max_active: 1, ..EngineOptions::default() });
    let log = Log::default();
    let (open, gate) = tokio::sync::watch::channel(false);
    let entered = log.clone();
    bench.engine.register("child", |ctx: Ctx, (): ()| async move { ctx.signal::<()>("go").await }).unwrap();
    bench
        .engine
        .register("parent", move |ctx: Ctx, (): ()| {
            let (log, gate) = (entered.clone(), gate.clone());
            async move {
                let hold = ctx.step("hold", |_| {
                    log.add("holds".into());
                    let mut gate = gate.clone();
                    async move { gate.wait_for(|open| *open).await.map(|_| ()).map_err(Failure::retryable) }
                });
                let child = ctx.child::<_, ()>("child", &());
                let (child, hold) = tokio::join!(child.into_future(), hold.into_future());
                child.and(hold)
            }
        })
        .unwrap();
    let run = bench.engine.start("parent", &()).await.unwrap();
    bench.eventually("it holds", async || (!log.read().is_empty()).then_some(())).await;
    let child = bench.child_of(run.id()).await;
    run.cancel("enough").await.unwrap();
    open.send(true).unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    // In the same commit: there was no room to execute the child.
    bench.until(child, RunStatus::Cancelled).await;
    for run in [run.id(), child] {
        assert_eq!(told(&bench.engine, run).await, both("run.cancelled"));
    }
    bench.check().await;
}

#[tokio::test]
async fn a_doubt_is_announced_once_however_often_it_is_read() {
    let bench = announcing(EngineOptions::default());
    let log = Log::default();
    let wire = |log: Log| {
        move |ctx: Ctx, (): ()| {
            let log = log.clone();
            async move {
                let step = ctx.step("wire", |_| {
                    log.add("wire".into());
                    std::future::pending::<Result<(), Failure>>()
                });
                step.claimed().await
            }
        }
    };
    bench.engine.register("pay", wire(log.clone())).unwrap();
    let run = bench.engine.start("pay", &()).await.unwrap().id();
    bench.eventually("it is in its step", async || (!log.read().is_empty()).then_some(())).await;
    bench.engine.kill();
    for _ in 0..2 {
        let next = bench.restart();
        next.set_announcer(Arc::new(ThreeSubscribers));
        next.register("pay", wire(log.clone())).unwrap();
        bench.until_step(run, "wire", StepStatus::InDoubt).await;
        bench.until(run, RunStatus::Waiting).await;
        let in_doubt = ["all", "doubts"].map(|target| format!("{target} effect.in_doubt"));
        assert_eq!(told(&next, run).await, in_doubt);
        let posts = next.list_after_effects_to("doubts", None, None, 9).await.unwrap();
        let payload: serde_json::Value = posts[0].payload.to().unwrap();
        assert_eq!((&payload["data"]["step"], &payload["data"]["attempt"]), (&"wire".into(), &1.into()));
        next.kill();
    }
    bench.check().await;
}

/// A writer whose acknowledgement was lost repeats the same write.
#[tokio::test]
async fn a_write_that_is_sent_again_tells_once() {
    let bench = announcing(EngineOptions::default());
    bench.engine.register("waits", |ctx: Ctx, (): ()| async move { ctx.signal::<()>("go").await }).unwrap();
    let run = bench.engine.start("waits", &()).await.unwrap().id();
    bench.until(run, RunStatus::Waiting).await;
    bench.engine.signal(run, "other", &(), None).await.unwrap();
    bench.engine.kill();
    bench.clock.advance(Duration::from_secs(31));
    let workflow = WorkflowRef { name: Name::new("workflow name", "waits").unwrap(), version: 1 };
    let grant = Grant {
        owner: OwnerId::fresh(),
        lease_for: Duration::from_secs(30),
        serves: Arc::new(ServedWorkflows::from_iter([workflow])),
    };
    let claimed = bench.store.claim_runs(ClaimRuns { grant, limit: 1 }).await.unwrap();
    let mut write = CommitBuilder::new(&claimed.runs[0], bench.store.now());
    write.announce(three());
    write.close(RunResult::Completed(Payload::null())).unwrap();
    let write = write.finish();
    for _ in 0..2 {
        let outcome = bench.store.commit_run(write.clone()).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
    }
    let reader = bench.restart();
    assert_eq!(told(&reader, run).await, both("run.completed"));
}

/// Wherever the process dies, the end of the run is announced once. A repeated write announces nothing more.
#[tokio::test]
async fn wherever_a_process_dies_the_end_is_announced_once() {
    let log = Log::default();
    let heard = log.clone();
    let order = |ctx: Ctx, (): ()| async move {
        ctx.step("book", |attempt| {
            let key = attempt.idempotency_key().to_string();
            async move { Ok::<_, Failure>(key) }
        })
        .await
    };
    let ended = Log::default();
    let seen = ended.clone();
    let lives = CrashEverywhere::new(order, &())
        .also(move |engine| {
            engine.set_announcer(Arc::new(ThreeSubscribers));
            let log = heard.clone();
            engine.register_target("all", move |delivery: Delivery, _: serde_json::Value| {
                log.add(delivery.id().to_string());
                std::future::ready(Ok::<_, Failure>(()))
            })
        })
        .outside(move |engine, run| {
            let seen = seen.clone();
            async move {
                let _ = engine.run(run).await.unwrap().result::<String>().await;
                seen.add(told(&engine, run).await.join(", "));
            }
        })
        .run()
        .await;
    lives.assert_safe();
    let all = ended.read();
    assert!(all.len() > 3, "{all:?}");
    assert!(all.iter().all(|said| *said == both("run.completed").join(", ")), "{all:?}");
}

/// A removed target receives nothing more. Due messages wait for it.
#[tokio::test]
async fn a_target_may_come_and_go() {
    let bench = announcing(EngineOptions::default());
    let log = Log::default();
    bench.engine.register("order", |_: Ctx, (): ()| async { Ok::<_, Failure>(()) }).unwrap();
    let receive = |log: &Log| {
        let log = log.clone();
        move |delivery: Delivery, _: serde_json::Value| {
            log.add(format!("{} {}", delivery.workspace(), delivery.attempt()));
            std::future::ready(Ok::<_, Failure>(()))
        }
    };
    let delivered = async |count: usize| {
        bench
            .eventually("delivered", async || {
                let posts =
                    bench.engine.list_after_effects_to("ends", Some(OutboxStatus::Delivered), None, 9);
                (posts.await.unwrap().len() == count).then_some(())
            })
            .await;
    };
    bench.engine.register_target("ends", receive(&log)).unwrap();
    bench.engine.start("order", &()).await.unwrap().result::<()>().await.unwrap();
    delivered(1).await;
    assert!(bench.engine.remove_target("ends"));
    assert!(!bench.engine.remove_target("ends"));
    bench.engine.start("order", &()).await.unwrap().result::<()>().await.unwrap();
    bench.advancing(async { tokio::task::yield_now().await }).await;
    let due = bench.engine.list_after_effects_to("ends", Some(OutboxStatus::Due), None, 9).await.unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!(bench.engine.get_after_effect(&due[0].id).await.unwrap(), due[0]);
    bench.engine.register_target("ends", receive(&log)).unwrap();
    delivered(2).await;
    assert_eq!(log.read(), ["default 1", "default 1"]);
    bench.check().await;
}
