//! Loops that run as long as the engine. A loop that panics is restarted, counted and shown.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;

use super::drive::panic_text;
use crate::clock::Clock;
use crate::limits::{FIRST_LOOP_RESTART, LOOP_CALM_AFTER, MAX_LOOP_RESTART};
use crate::model::Timestamp;

/// Background loops of one engine, and of whatever serves it.
///
/// Nothing may run as a bare task for the lifetime of an engine: a panic would end it silently, and leases,
/// timers or retention would stop with it.
#[derive(Clone)]
pub struct BackgroundLoops {
    shared: Arc<LoopStates>,
}

struct LoopStates {
    clock: Arc<dyn Clock>,
    loops: Mutex<BTreeMap<String, LoopState>>,
}

#[derive(Default)]
struct LoopState {
    panics: u64,
    last_panic: Option<String>,
    is_down: bool,
    last_pass_at: Option<Timestamp>,
}

/// Status of one background loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundLoop {
    /// Name, such as `scheduler`.
    pub name: String,
    /// Panics since the engine was launched. Each was followed by a restart.
    pub panics: u64,
    /// Message of the last panic.
    pub last_panic: Option<String>,
    /// Returns true between a panic and the restart.
    pub is_down: bool,
    /// When it last finished a pass; `None` before its first.
    pub last_pass_at: Option<Timestamp>,
}

/// Lets a loop report its passes.
#[derive(Clone)]
pub struct LoopReporter {
    shared: Arc<LoopStates>,
    name: Arc<str>,
}

impl fmt::Debug for BackgroundLoops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackgroundLoops").field(&self.list()).finish()
    }
}

impl BackgroundLoops {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        BackgroundLoops { shared: Arc::new(LoopStates { clock, loops: Mutex::default() }) }
    }

    /// Starts a loop. `start` makes its future; it is called again after each panic, first after
    /// [`FIRST_LOOP_RESTART`], then after twice as long up to [`MAX_LOOP_RESTART`]. A loop that returns is over.
    pub fn spawn<F, Fut>(&self, name: impl Into<String>, mut start: F)
    where
        F: FnMut(LoopReporter) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let reporter = LoopReporter { shared: self.shared.clone(), name: name.into().into() };
        reporter.change(|_| {});
        tokio::spawn(async move {
            let clock = reporter.shared.clock.clone();
            let mut pause = FIRST_LOOP_RESTART;
            loop {
                let since = clock.monotonic();
                let running = AssertUnwindSafe(async { start(reporter.clone()).await });
                let Err(panic) = running.catch_unwind().await else { break };
                if clock.monotonic().saturating_sub(since) >= LOOP_CALM_AFTER {
                    pause = FIRST_LOOP_RESTART;
                }
                reporter.record_panic(panic_text(&*panic), pause);
                clock.sleep(pause).await;
                reporter.change(|state| state.is_down = false);
                pause = (pause * 2).min(MAX_LOOP_RESTART);
            }
            reporter.shared.loops().remove(&*reporter.name);
        });
    }

    /// All loops that are not over, by name.
    pub fn list(&self) -> Vec<BackgroundLoop> {
        let loops = self.shared.loops();
        let status = |(name, state): (&String, &LoopState)| BackgroundLoop {
            name: name.clone(),
            panics: state.panics,
            last_panic: state.last_panic.clone(),
            is_down: state.is_down,
            last_pass_at: state.last_pass_at,
        };
        loops.iter().map(status).collect()
    }
}

impl LoopStates {
    fn loops(&self) -> MutexGuard<'_, BTreeMap<String, LoopState>> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoopReporter {
    /// Records that the loop has finished a pass.
    pub fn pass(&self) {
        let now = self.shared.clock.now();
        self.change(|state| state.last_pass_at = Some(now));
    }

    fn record_panic(&self, panic: &str, pause: Duration) {
        tracing::error!(name = %self.name, panic, ?pause, "a background loop panicked; it is restarted after a pause");
        self.change(|state| {
            state.panics += 1;
            state.last_panic = Some(panic.to_owned());
            state.is_down = true;
        });
    }

    fn change(&self, change: impl FnOnce(&mut LoopState)) {
        change(self.shared.loops().entry(self.name.to_string()).or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;
    use crate::clock::ManualClock;

    #[tokio::test]
    async fn a_loop_that_panics_is_restarted_after_a_growing_pause_and_counted() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
        let loops = BackgroundLoops::new(clock.clone());
        let (starts, started) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let (count, signal) = (starts.clone(), started.clone());
        loops.spawn("sweeper", move |reporter| {
            let (count, signal) = (count.clone(), signal.clone());
            async move {
                let start = count.fetch_add(1, Ordering::SeqCst);
                signal.notify_one();
                assert!(start >= 2, "start {start} fails");
                reporter.pass();
                signal.notify_one();
                std::future::pending().await
            }
        });
        for (pause, panics) in [(FIRST_LOOP_RESTART, 1), (FIRST_LOOP_RESTART * 2, 2)] {
            started.notified().await;
            while !loops.list()[0].is_down {
                tokio::task::yield_now().await;
            }
            let [status] = &loops.list()[..] else { panic!("one loop is known") };
            assert_eq!((status.panics, status.last_pass_at), (panics, None));
            assert_eq!(status.last_panic.as_deref(), Some(&*format!("start {} fails", panics - 1)));
            clock.advance(pause - Duration::from_millis(1));
            tokio::task::yield_now().await;
            assert_eq!(u64::from(starts.load(Ordering::SeqCst)), panics, "it restarts no earlier");
            clock.advance(Duration::from_millis(1));
        }
        while loops.list()[0].last_pass_at.is_none() {
            started.notified().await;
        }
        let [status] = &loops.list()[..] else { panic!("one loop is known") };
        assert_eq!((status.panics, status.is_down, status.last_pass_at), (2, false, Some(clock.now())));
    }

    #[tokio::test]
    async fn a_loop_that_returns_is_not_listed() {
        let loops = BackgroundLoops::new(Arc::new(ManualClock::new(Timestamp::from_millis(0))));
        loops.spawn("short", |_| async {});
        while !loops.list().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}
