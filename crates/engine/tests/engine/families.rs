//! Runs that start themselves again and again: their limits, and how operators end them.

use std::time::Duration;

use crate::support::Bench;
use hapax_engine::model::{ClosePolicy, RunHead, RunStatus, WorkspaceId};
use hapax_engine::store::{ListRuns, Store};
use hapax_engine::{Ctx, Engine, EngineOptions, Error, Failure};

/// Starts itself `width` times at once, with children that survive their parent.
fn register_bomb(engine: &Engine, width: usize) {
    engine
        .register("bomb", move |ctx: Ctx, _: ()| async move {
            let names: Vec<String> = (0..width).map(|n| format!("child-{n}")).collect();
            let children = names.iter().map(|name| {
                let child = ctx.child::<_, ()>("bomb", &()).recorded_as(name);
                child.on_close(ClosePolicy::Abandon).into_future()
            });
            let ended = futures_util::future::join_all(children).await;
            // A refused child does not stop this code: it ignores every error.
            let codes = ended.into_iter().filter_map(|it| it.err()?.code().map(str::to_owned));
            Ok::<_, Failure>(codes.collect::<Vec<_>>())
        })
        .unwrap();
}

async fn all_runs(bench: &Bench) -> Vec<RunHead> {
    let mut all = Vec::new();
    let mut before = None;
    loop {
        let list = ListRuns {
            workspace: None,
            statuses: vec![],
            workflow: None,
            filter: Default::default(),
            before,
            limit: 1_000,
        };
        let page = bench.store.list_runs(list).await.unwrap();
        all.extend(page.runs.into_iter().map(|run| run.head));
        before = page.next;
        if before.is_none() {
            return all;
        }
    }
}

async fn open_runs(bench: &Bench) -> usize {
    all_runs(bench).await.iter().filter(|run| !run.status().is_closed()).count()
}

/// The first limit that an endless recursion meets is the depth of the family.
#[tokio::test]
async fn a_run_that_starts_itself_ends_at_the_depth_that_is_allowed() {
    let bench = Bench::with(EngineOptions { max_child_depth: 5, ..EngineOptions::default() });
    bench
        .engine
        .register("deep", |ctx: Ctx, _: ()| async move { ctx.child::<_, ()>("deep", &()).await })
        .unwrap();
    let root = bench.engine.start("deep", &()).await.unwrap();
    bench.until(root.id(), RunStatus::Failed).await;
    let runs = all_runs(&bench).await;
    assert_eq!(runs.len(), 6, "the root, and five below it");
    assert_eq!(runs.iter().map(|run| run.facts.depth()).max(), Some(5));
    let failure = root.result::<()>().await.unwrap_err();
    let Error::Failed { failure, .. } = failure else { panic!("{failure:?}") };
    assert_eq!(failure.code(), Some("child_too_deep"), "the cause comes up to the root");
    bench.check().await;
}

/// A family grows only to its limit, even if every member keeps trying. Refused starts fail, and the tree
/// ends by itself.
#[tokio::test]
async fn a_fork_bomb_stays_within_the_limit_of_its_family() {
    let options = EngineOptions { max_descendants: 200, ..EngineOptions::default() };
    let bench = Bench::with(options);
    register_bomb(&bench.engine, 3);
    let root = bench.engine.start("bomb", &()).await.unwrap();
    bench.until(root.id(), RunStatus::Completed).await;
    bench.eventually("all ended", async || (open_runs(&bench).await == 0).then_some(())).await;
    let runs = all_runs(&bench).await.len();
    // Three children share one commit, so the last of the 200 places may stay unused.
    assert!((199..=201).contains(&runs), "{runs}");
    bench.check().await;
}

/// The refusal is recorded: a replay under a higher limit gives the code the same failure.
#[tokio::test]
async fn a_refused_child_stays_refused_in_a_replay() {
    let bench = Bench::with(EngineOptions { max_descendants: 1, ..EngineOptions::default() });
    let register = |engine: &Engine| {
        engine.register("leaf", |_: Ctx, (): ()| async { Ok::<_, Failure>(()) }).unwrap();
        engine
            .register("two", |ctx: Ctx, _: ()| async move {
                ctx.child::<_, ()>("leaf", &()).recorded_as("first").await?;
                let refused = ctx.child::<_, ()>("leaf", &()).recorded_as("second").await.unwrap_err();
                ctx.sleep(Duration::from_secs(3_600)).await?;
                Ok::<_, Failure>(refused.code().unwrap_or_default().to_owned())
            })
            .unwrap();
    };
    register(&bench.engine);
    let run = bench.engine.start("two", &()).await.unwrap();
    bench.until_step(run.id(), "second", hapax_engine::model::StepStatus::Failed).await;
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let next = bench.restart();
    register(&next);
    bench.clock.advance(Duration::from_secs(3_601));
    let run = next.run(run.id()).await.unwrap();
    assert_eq!(bench.advancing(run.result::<String>()).await.unwrap(), "too_many_descendants");
    assert_eq!(bench.count_runs().await, 2);
}

/// An operator cancels a root and all its descendants, abandoned or not. Children about to start are not
/// started.
#[tokio::test]
async fn cancelling_a_family_ends_every_member_of_it() {
    let bench = Bench::new();
    let width = 3;
    bench
        .engine
        .register("tree", move |ctx: Ctx, depth: u32| async move {
            let below = (0..width).filter(|_| depth < 4).map(|n| {
                let child = ctx.child::<_, ()>("tree", &(depth + 1)).recorded_as(&format!("child-{n}"));
                child.on_close(ClosePolicy::Abandon).into_future()
            });
            let _ = futures_util::future::join_all(below.collect::<Vec<_>>()).await;
            ctx.sleep(Duration::from_secs(3_600)).await
        })
        .unwrap();
    let root = bench.engine.start("tree", &0u32).await.unwrap();
    let bystander = bench.engine.start("tree", &4u32).await.unwrap();
    bench.eventually("it grows", async || (bench.count_runs().await > 60).then_some(())).await;
    let child = bench.child_of(root.id()).await;
    let refused = bench.engine.cancel_family(child, "a mistake").await.unwrap_err();
    assert!(matches!(refused, Error::NotRoot { root: of, .. } if of == root.id()), "{refused}");
    bench.engine.cancel_family(root.id(), "a mistake").await.unwrap();
    bench
        .eventually("only the bystander is open", async || (open_runs(&bench).await == 1).then_some(()))
        .await;
    assert_eq!(bystander.view().await.unwrap().head.status(), RunStatus::Waiting);
    let cancelled = all_runs(&bench).await;
    assert!(
        cancelled
            .iter()
            .filter(|run| run.id() != bystander.id())
            .all(|run| run.status() == RunStatus::Cancelled)
    );
    bench.check().await;
}

/// A crash right after the acknowledged cancellation changes nothing: the next engine completes it.
#[tokio::test]
async fn a_cancelled_family_is_swept_after_a_crash() {
    let bench = Bench::new();
    let register = |engine: &Engine| {
        engine
            .register("rests", |ctx: Ctx, _: ()| async move { ctx.sleep(Duration::from_secs(36_000)).await })
            .unwrap();
        engine
            .register("parent", |ctx: Ctx, _: ()| async move {
                let children = (0..300).map(|n| {
                    let child = ctx.child::<_, ()>("rests", &()).recorded_as(&format!("child-{n}"));
                    child.on_close(ClosePolicy::Abandon).into_future()
                });
                futures_util::future::join_all(children.collect::<Vec<_>>()).await;
                Ok::<_, Failure>(())
            })
            .unwrap();
    };
    register(&bench.engine);
    let root = bench.engine.start("parent", &()).await.unwrap();
    bench.eventually("all are born", async || (bench.count_runs().await >= 300).then_some(())).await;
    bench.engine.kill();
    // Marked by a node that dies before it cancels any member.
    let request = hapax_engine::store::CancelFamily {
        workspace: WorkspaceId::default(),
        root: root.id(),
        reason: "a mistake".into(),
        expected: None,
        note: None,
    };
    let marked = bench.store.family_store().unwrap().cancel_family(request).await.unwrap();
    assert!(matches!(marked, hapax_engine::store::CancelFamilyOutcome::Cancelled(_)));
    let next = bench.restart();
    register(&next);
    bench.eventually("all are cancelled", async || (open_runs(&bench).await == 0).then_some(())).await;
    bench.check().await;
}

/// Children beyond the rate limit of their workspace start later. Other workspaces are not affected.
#[tokio::test]
async fn children_begin_at_the_pace_of_their_workspace() {
    let bench = Bench::with(EngineOptions { children_per_second: 10, ..EngineOptions::default() });
    bench.engine.register("leaf", |_: Ctx, (): ()| async { Ok::<_, Failure>(()) }).unwrap();
    bench
        .engine
        .register("fan", |ctx: Ctx, _: ()| async move {
            let children = (0..40).map(|n| {
                let child = ctx.child::<_, ()>("leaf", &()).recorded_as(&format!("child-{n}"));
                child.on_close(ClosePolicy::Abandon).into_future()
            });
            futures_util::future::try_join_all(children.collect::<Vec<_>>()).await?;
            Ok::<_, Failure>(())
        })
        .unwrap();
    let begun = bench.store.now();
    let fan = bench.engine.start("fan", &()).await.unwrap();
    bench.advancing(fan.result::<()>()).await.unwrap();
    let leaves: Vec<RunHead> =
        all_runs(&bench).await.into_iter().filter(|run| run.facts.parent.is_some()).collect();
    assert_eq!(leaves.len(), 40);
    for second in 0..3 {
        let until = begun.plus(Duration::from_secs(second));
        let started = leaves.iter().filter(|run| run.started_at.is_some_and(|at| at <= until)).count();
        assert!(started as u64 <= 11 + 10 * second, "{started} had begun after {second} s");
    }
}
