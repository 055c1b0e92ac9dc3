//! Engine on the memory store, with a clock that tests move.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod cut_off;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::ctx::{Attempt, Step, StepFuture};
use hapax_engine::fsck::fsck;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{PromiseId, RunId, RunStatus, StepStatus, WorkspaceId};
use hapax_engine::store::{ListRuns, Store};
use hapax_engine::{Ctx, Engine, EngineOptions};

pub struct Bench {
    pub engine: Engine,
    pub clock: Arc<ManualClock>,
    pub store: Arc<MemoryStore>,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(EngineOptions::default())
    }

    pub fn with(options: EngineOptions) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let engine = Engine::launch(store.clone(), clock.clone(), options).unwrap();
        Bench { engine, clock, store }
    }

    /// Launches another engine on the same store, as after a crash. Leases of dead engines expire first.
    pub fn restart(&self) -> Engine {
        self.clock.advance(Duration::from_secs(31));
        Engine::launch(self.store.clone(), self.clock.clone(), EngineOptions::default()).unwrap()
    }

    /// Waits until `check` holds and lets the engine work. Fails if it never does.
    pub async fn eventually<T>(&self, what: &str, check: impl AsyncFn() -> Option<T>) -> T {
        let begun = std::time::Instant::now();
        for turn in 0.. {
            if let Some(found) = check().await {
                return found;
            }
            tokio::task::yield_now().await;
            // Recorded starts and backoffs need time to pass.
            if turn < 100_000 && turn % 1_000 == 999 {
                self.clock.advance(Duration::from_millis(100));
            }
            // The last look at an outcome after its timeout uses the machine's clock.
            if turn >= 100_000 && begun.elapsed() > Duration::from_secs(10) {
                break;
            }
        }
        panic!("never happened: {what}");
    }

    pub async fn until(&self, run: RunId, status: RunStatus) {
        self.eventually(&format!("{run} {status:?}"), async || {
            let view = self.store.find_run(&WorkspaceId::default(), run).await.unwrap().unwrap();
            (view.head.status() == status).then_some(())
        })
        .await
    }

    pub async fn until_step(&self, run: RunId, step: &str, status: StepStatus) {
        self.eventually(&format!("{step} {status:?}"), async || {
            let log = self.store.find_log(&WorkspaceId::default(), run).await.unwrap().unwrap();
            let found = log.steps.iter().any(|s| s.id.as_str() == step && s.state.status() == status);
            found.then_some(())
        })
        .await
    }

    pub async fn until_promise(&self, id: &str) {
        let id = PromiseId::from_stored(id);
        self.eventually("a promise", async || {
            self.store.find_promise(&WorkspaceId::default(), &id).await.unwrap().map(|_| ())
        })
        .await
    }

    pub async fn child_of(&self, run: RunId) -> RunId {
        self.eventually("a child", async || {
            let log = self.store.find_log(&WorkspaceId::default(), run).await.unwrap().unwrap();
            log.steps.iter().find_map(|step| step.child)
        })
        .await
    }

    /// Awaits a future that needs time to pass.
    pub async fn advancing<T>(&self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        for _ in 0..100_000 {
            tokio::select! {
                biased;
                done = &mut waiting => return done,
                () = tokio::task::yield_now() => self.clock.advance(Duration::from_millis(50)),
            }
        }
        panic!("it never ended");
    }

    pub async fn count_runs(&self) -> usize {
        let all = ListRuns {
            workspace: None,
            statuses: vec![],
            workflow: None,
            filter: Default::default(),
            before: None,
            limit: usize::MAX,
        };
        self.store.list_runs(all).await.unwrap().runs.len()
    }

    /// Checks that the store is sound, and that the check looked at something.
    pub async fn check(&self) {
        let report = fsck(&*self.store).await.unwrap();
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        assert!(report.runs > 0 || self.count_runs().await == 0);
    }
}

/// Log of events, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    pub fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Step that logs "do NAME" and returns NAME.
    pub fn step<'a>(
        &self,
        ctx: &'a Ctx,
        name: &str,
    ) -> Step<'a, String, impl FnMut(Attempt) -> StepFuture<'static, String> + Send + use<>> {
        let (log, did) = (self.clone(), name.to_string());
        ctx.step(name, move |_| -> StepFuture<'static, String> {
            log.add(format!("do {did}"));
            let did = did.clone();
            Box::pin(async move { Ok(did) })
        })
    }
}
