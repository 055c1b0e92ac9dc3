//! External leases: a run is executed only with one, and stops when it loses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::Bench;
use async_trait::async_trait;
use hapax_engine::clock::ManualClock;
use hapax_engine::lease::{Lease, LeaseError, LeaseToken, MemoryLease};
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{RunId, RunStatus, WorkspaceId};
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
use tokio::sync::watch;

const TTL: Duration = Duration::from_secs(30);

fn bench(lease: impl FnOnce(Arc<ManualClock>) -> Arc<dyn Lease>) -> Bench {
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let options = EngineOptions { lease: Some(lease(clock.clone())), ..EngineOptions::default() };
    let engine = Engine::launch(store.clone(), clock.clone(), options).unwrap();
    Bench { engine, clock, store }
}

fn name_of(run: RunId) -> String {
    format!("{}/{run}", WorkspaceId::default().as_str())
}

/// Lease that refuses or fails the first few requests.
#[derive(Debug)]
struct FailingLease {
    inner: MemoryLease,
    asked: AtomicUsize,
    refusals: usize,
    failures: usize,
}

#[async_trait]
impl Lease for FailingLease {
    async fn acquire(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError> {
        match self.asked.fetch_add(1, Ordering::SeqCst) {
            nth if nth < self.refusals => Ok(false),
            nth if nth < self.refusals + self.failures => Err(LeaseError("away".into())),
            _ => self.inner.acquire(name, token, ttl).await,
        }
    }

    async fn renew(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError> {
        self.inner.renew(name, token, ttl).await
    }

    async fn release(&self, name: &str, token: &LeaseToken) -> Result<(), LeaseError> {
        self.inner.release(name, token).await
    }
}

/// S3.7: with an external lease.
#[tokio::test]
async fn a_run_waits_for_its_lease_outside_without_asking_all_the_time() {
    let mut kept = None;
    let bench = bench(|clock| {
        let inner = MemoryLease::new(clock);
        let reluctant =
            Arc::new(FailingLease { inner, asked: AtomicUsize::new(0), refusals: 40, failures: 2 });
        kept = Some(reluctant.clone());
        reluctant
    });
    let lease = kept.unwrap();
    let entered = Arc::new(AtomicUsize::new(0));
    let counted = entered.clone();
    let code = move |_: Ctx, (): ()| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Failure>(7) }
    };
    bench.engine.register("order", code).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    // The clock stands still: the engine has asked once and does not ask again, however long the others work.
    bench
        .eventually("the first question", async || (lease.asked.load(Ordering::SeqCst) > 0).then_some(()))
        .await;
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
    assert_eq!((lease.asked.load(Ordering::SeqCst), entered.load(Ordering::SeqCst)), (1, 0));
    // Forty seconds are longer than any lease, and no lease in the store has expired.
    for second in 1..43 {
        assert_eq!(entered.load(Ordering::SeqCst), 0, "nothing is driven without the lease");
        bench.clock.advance(Duration::from_secs(1));
        let is_asked = async || (lease.asked.load(Ordering::SeqCst) > second).then_some(());
        for _ in 0..10_000 {
            if is_asked().await.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(lease.asked.load(Ordering::SeqCst), second + 1, "once for each look");
    }
    bench.until(run.id(), RunStatus::Completed).await;
    assert_eq!((bench.engine.stats().takeovers, entered.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test]
async fn a_lease_is_given_back_when_the_run_ends() {
    let mut kept = None;
    let bench = bench(|clock| {
        let lease = Arc::new(MemoryLease::new(clock));
        kept = Some(lease.clone());
        lease
    });
    let lease = kept.unwrap();
    let (go, going) = watch::channel(false);
    let code = move |ctx: Ctx, (): ()| {
        let going = going.clone();
        async move {
            ctx.step("wait", |_| {
                let mut going = going.clone();
                async move {
                    going.wait_for(|go| *go).await.unwrap();
                    Ok::<_, Failure>(())
                }
            })
            .await
        }
    };
    bench.engine.register("order", code).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    let (name, other) = (name_of(run.id()), LeaseToken::fresh());
    bench.until_step(run.id(), "wait", hapax_engine::model::StepStatus::Running).await;
    // Longer than one lease, so it must be renewed.
    for _ in 0..10 {
        bench.clock.advance(TTL / 6);
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert!(!lease.acquire(&name, &other, TTL).await.unwrap(), "it is held while the run is driven");
    }
    go.send_replace(true);
    bench.until(run.id(), RunStatus::Completed).await;
    bench
        .eventually("the lease given back", async || {
            lease.acquire(&name, &other, TTL).await.unwrap().then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_run_that_loses_its_lease_outside_begins_nothing_more() {
    let mut kept = None;
    let bench = bench(|clock| {
        let lease = Arc::new(MemoryLease::new(clock));
        kept = Some(lease.clone());
        lease
    });
    let lease = kept.unwrap();
    let (go, going) = watch::channel(false);
    let shipped = Arc::new(AtomicUsize::new(0));
    let counted = shipped.clone();
    let code = move |ctx: Ctx, (): ()| {
        let (going, counted) = (going.clone(), counted.clone());
        async move {
            ctx.step("charge", |_| {
                let mut going = going.clone();
                async move {
                    going.wait_for(|go| *go).await.unwrap();
                    Ok::<_, Failure>(())
                }
            })
            .await?;
            ctx.step("ship", |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                async { Ok::<_, Failure>(()) }
            })
            .await
        }
    };
    bench.engine.register("order", code).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    let (name, thief) = (name_of(run.id()), LeaseToken::fresh());
    bench.until_step(run.id(), "charge", hapax_engine::model::StepStatus::Running).await;
    lease.forget_all();
    assert!(lease.acquire(&name, &thief, 100 * TTL).await.unwrap());
    bench.clock.advance(TTL / 3);
    bench.eventually("the driver stops", async || (bench.engine.active_runs() == 0).then_some(())).await;
    go.send_replace(true);
    // The store grants the run again, but another holder has the external lease: `ship` does not begin.
    for _ in 0..12 {
        bench.clock.advance(TTL / 3);
        for _ in 0..300 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(shipped.load(Ordering::SeqCst), 0);
    lease.release(&name, &thief).await.unwrap();
    bench.until(run.id(), RunStatus::Completed).await;
    assert_eq!(shipped.load(Ordering::SeqCst), 1);
}
