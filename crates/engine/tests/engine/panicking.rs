//! A driver that panics outside workflow code releases its run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::Bench;
use crate::support::cut_off::CutOff;
use hapax_engine::limits::MAX_STALLS;
use hapax_engine::model::{EventKind, RunId, RunState, RunStatus, RunningState, Subscribers, WorkspaceId};
use hapax_engine::runtime::Announcer;
use hapax_engine::store::Store;
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};

/// Panics on the first few calls.
struct Panics {
    left: AtomicU32,
}

impl Panics {
    fn times(times: u32) -> Arc<Self> {
        Arc::new(Panics { left: AtomicU32::new(times) })
    }

    fn maybe(&self) {
        let had = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(had.is_err(), "a fault that was asked for");
    }
}

impl Announcer for Panics {
    fn subscribers(&self, _: &WorkspaceId) -> Subscribers {
        self.maybe();
        Subscribers::default()
    }
}

async fn released(bench: &Bench, run: RunId, panics: u64) {
    bench
        .eventually("the lease is given back", async || {
            let head = bench.store.find_run(&WorkspaceId::default(), run).await.unwrap().unwrap().head;
            let is_free = head.state.lease().is_none();
            (is_free && bench.engine.active_runs() == 0 && bench.engine.stats().driver_panics == panics)
                .then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_run_whose_announcer_panics_is_released_and_goes_on_later() {
    let bench = Bench::new();
    let panics = Panics::times(1);
    bench
        .engine
        .register("steps", |ctx: Ctx, _: ()| async move {
            ctx.step("one", |_| async { Ok::<_, Failure>(()) }).await?;
            ctx.step("two", |_| async { Ok::<_, Failure>(()) }).await
        })
        .unwrap();
    // The start calls it too, without a driver.
    let run = bench.engine.start("steps", &()).await.unwrap();
    bench.engine.set_announcer(panics);
    released(&bench, run.id(), 1).await;
    let head = run.view().await.unwrap().head;
    assert_eq!(head.stalls, 1);
    assert!(
        matches!(head.state, RunState::Running(RunningState::Ready { due_at }) if due_at > bench.store.now())
    );
    bench.clock.advance(Duration::from_secs(2));
    bench.until(run.id(), RunStatus::Completed).await;
    bench.check().await;
}

/// A destructor in workflow code is user code, and it runs where the driver drops the code.
#[tokio::test]
async fn a_panic_in_a_destructor_of_the_code_harms_nobody() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("a fault that was asked for");
        }
    }
    let bench = Bench::new();
    bench
        .engine
        .register("bomb", |ctx: Ctx, _: ()| async move {
            let bomb = PanicsOnDrop;
            ctx.sleep(Duration::from_secs(3600)).await?;
            std::mem::forget(bomb);
            Ok::<_, Failure>(())
        })
        .unwrap();
    let run = bench.engine.start("bomb", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    run.cancel("enough").await.unwrap();
    bench.until(run.id(), RunStatus::Cancelled).await;
    assert_eq!(bench.engine.active_runs(), 0);
    bench.check().await;
}

#[tokio::test]
async fn a_run_that_panics_every_driver_is_quarantined() {
    let bench = Bench::new();
    bench
        .engine
        .register("steps", |ctx: Ctx, _: ()| async move {
            ctx.step("one", |_| async { Ok::<_, Failure>(()) }).await
        })
        .unwrap();
    let run = bench.engine.start("steps", &()).await.unwrap();
    bench.engine.set_announcer(Panics::times(u32::MAX));
    bench
        .eventually("quarantined", async || {
            bench.clock.advance(Duration::from_secs(1));
            let head = bench.store.find_run(&WorkspaceId::default(), run.id()).await.unwrap().unwrap().head;
            (head.status() == RunStatus::Paused).then_some(())
        })
        .await;
    assert_eq!(bench.engine.stats().driver_panics, u64::from(MAX_STALLS) + 1);
    let events =
        bench.store.list_events(&WorkspaceId::default(), run.id(), Default::default()).await.unwrap();
    assert_eq!(events.last().unwrap().kind, EventKind::Quarantined);
    bench.check().await;
}

/// A panic in the scheduler must not stop the node from finding due runs, nor one in the renewal cost it its
/// leases.
#[tokio::test]
async fn background_loops_that_panic_start_again_and_the_node_goes_on() {
    let bench = Bench::new();
    let store = CutOff::new(bench.store.clone());
    let node = Engine::launch(store.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
    node.register("wait", |ctx: Ctx, _: ()| async move {
        ctx.sleep(Duration::from_secs(3_600)).await?;
        Ok::<_, Failure>(())
    })
    .unwrap();
    let run = node.start("wait", &()).await.unwrap().id();
    bench.until(run, RunStatus::Waiting).await;
    store.panic(6);
    let panics = |node: &Engine| node.background_loops().list().iter().map(|each| each.panics).sum::<u64>();
    bench.eventually("six panics", async || (panics(&node) == 6).then_some(())).await;
    let loops = node.background_loops().list();
    assert!(loops.iter().any(|each| each.name == "scheduler" && each.panics > 0), "{loops:?}");
    bench.clock.advance(Duration::from_secs(3_600));
    bench.until(run, RunStatus::Completed).await;
    bench
        .eventually("every loop has passed", async || {
            let loops = node.background_loops().list();
            loops.iter().all(|each| !each.is_down && each.last_pass_at.is_some()).then_some(())
        })
        .await;
}
