//! In-memory engine with a clock that tests control.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, ManualClock};
use crate::memory::MemoryStore;
use crate::model::{RunId, RunStatus, Timestamp, WorkspaceId};
use crate::store::Store;
use crate::{Engine, EngineOptions, Error};

/// Number of turns after which the engine counts as idle.
const TURNS: usize = 64;
/// Number of clock moves without progress after which a run counts as stuck. They cover far more than a year.
const MOVES: usize = 500;
/// Number of clock moves after which a progressing run counts as endless.
const MOST_MOVES: usize = 10_000;

/// Test environment for workflows: an in-memory engine whose clock you move, like Temporal's
/// `TestWorkflowEnvironment`.
///
/// Use it in a `#[tokio::test]`, which runs on one thread.
#[derive(Debug)]
pub struct TestEnvironment {
    engine: Engine,
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl Default for TestEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl TestEnvironment {
    /// Creates an empty environment.
    pub fn new() -> Self {
        Self::with(EngineOptions::default())
    }

    /// Creates an empty environment with engine options.
    ///
    /// # Panics
    ///
    /// If an option is invalid.
    pub fn with(options: EngineOptions) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let engine = launch(store.clone(), &clock, options);
        TestEnvironment { engine, clock, store }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Store of the engine.
    pub fn store(&self) -> Arc<MemoryStore> {
        self.store.clone()
    }

    /// Current time of the environment's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock forward without waiting, and lets the engine process what is due.
    pub async fn advance(&self, span: Duration) {
        self.idle().await;
        self.clock.advance(span);
        self.idle().await;
    }

    /// Lets the engine work until it is idle.
    pub async fn idle(&self) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }

    /// Kills the engine like a crash and launches another on the same store. Register the workflows again.
    pub fn crash(&mut self) {
        self.crash_into(EngineOptions::default());
    }

    pub(super) fn crash_into(&mut self, options: EngineOptions) {
        self.engine.kill();
        // Leases of the killed engine expire first.
        self.clock.advance(options.lease_for + Duration::from_secs(1));
        self.engine = launch(self.store.clone(), &self.clock, options);
    }

    /// Launches another engine that reaches the same data through `store`.
    pub(super) fn launch_over(&self, store: Arc<dyn Store>, options: EngineOptions) -> Engine {
        launch(store, &self.clock, options)
    }

    pub(super) fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    /// Waits until the run has ended, or waits for a person or an outside event. The clock moves to each
    /// timer by itself. Returns the status of the run.
    pub async fn settle(&self, run: RunId) -> Result<RunStatus, Error> {
        let mut span = Duration::from_millis(10);
        let mut last = None;
        let mut in_vain = 0;
        for _ in 0..MOST_MOVES {
            self.idle().await;
            let view = self.store.find_run(&WorkspaceId::default(), run).await?;
            let head = view.ok_or(Error::NoSuchRun(run))?.head;
            if head.status().is_closed() || head.state.wake_at().is_none() {
                return Ok(head.status());
            }
            // Moves slowly while the run progresses, and then ever faster to the next timer.
            (span, in_vain) = match last.replace(head.version) == Some(head.version) {
                true => ((span * 2).min(Duration::from_secs(24 * 3600)), in_vain + 1),
                false => (Duration::from_millis(10), 0),
            };
            if in_vain > MOVES {
                return Ok(head.status());
            }
            let has_doubt = !self.engine.list_doubts(None, 1).await?.doubts.is_empty();
            if has_doubt && span > Duration::from_secs(1) {
                return Ok(head.status());
            }
            self.clock.advance(span);
        }
        let view = self.store.find_run(&WorkspaceId::default(), run).await?;
        Ok(view.ok_or(Error::NoSuchRun(run))?.head.status())
    }
}

fn launch(store: Arc<dyn Store>, clock: &Arc<ManualClock>, options: EngineOptions) -> Engine {
    Engine::launch(store, clock.clone(), options).expect("the options are sound")
}
