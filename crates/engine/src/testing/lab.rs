//! An engine in memory, with a clock that stands still until a test moves it.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, ManualClock};
use crate::memory::MemoryStore;
use crate::model::{RunId, RunStatus, Timestamp, WorkspaceId};
use crate::store::Store;
use crate::{Engine, EngineOptions, Error};

/// How often the engine is given a turn before it counts as idle.
const TURNS: usize = 64;
/// How often time is moved on for a run that does nothing, before it counts as stuck: far beyond a year.
const MOVES: usize = 500;
/// How often time is moved on for a run that gets on, before it counts as one that never ends.
const MOST_MOVES: usize = 10_000;

/// A place to try workflows in. Use it in a `#[tokio::test]`, which runs on one thread.
#[derive(Debug)]
pub struct Lab {
    engine: Engine,
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Lab {
    /// An empty one.
    pub fn new() -> Self {
        Self::with(EngineOptions::default())
    }

    /// An empty one whose engine has these options.
    ///
    /// # Panics
    /// If the options cannot work.
    pub fn with(options: EngineOptions) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let engine = launch(store.clone(), &clock, options);
        Lab { engine, clock, store }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What the engine keeps its data in.
    pub fn store(&self) -> Arc<MemoryStore> {
        self.store.clone()
    }

    /// The time in here.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves time forward, as fast as it takes to say so, and lets the engine do what is due.
    pub async fn advance(&self, span: Duration) {
        self.idle().await;
        self.clock.advance(span);
        self.idle().await;
    }

    /// Lets the engine work until it has nothing to do.
    pub async fn idle(&self) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }

    /// Kills the engine as a crash would and launches another on the same data; register the workflows again.
    pub fn crash(&mut self) {
        self.crash_into(EngineOptions::default());
    }

    pub(super) fn crash_into(&mut self, options: EngineOptions) {
        self.engine.kill();
        // Leases of the dead run out first.
        self.clock.advance(options.lease_for + Duration::from_secs(1));
        self.engine = launch(self.store.clone(), &self.clock, options);
    }

    /// Another engine on the same data, reached over `store`.
    pub(super) fn launch_over(&self, store: Arc<dyn Store>, options: EngineOptions) -> Engine {
        launch(store, &self.clock, options)
    }

    pub(super) fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    /// Waits until the run has ended, waits for a person, or waits for something from outside; time moves on by itself to
    /// whatever it waits for. Answers where it stands.
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
            // Slowly while it gets on, and then ever faster to what it waits for.
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
