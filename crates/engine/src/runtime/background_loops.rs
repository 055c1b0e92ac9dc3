//! When each background loop of this engine last succeeded, so that people see one that stands still.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::Engine;
use super::inner::Inner;
use crate::limits::{CLAIM_STALE_AFTER, HEARTBEAT_EVERY, SWEEP_EVERY};
use crate::model::{Name, Timestamp};

/// A background loop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackgroundLoop {
    /// Finds due runs.
    Scheduler,
    /// Keeps the leases of runs that this engine drives.
    LeaseRenewal,
    /// Delivers after-effects and webhooks.
    Outbox,
    /// Tells others that the holders of operations live.
    Heartbeats,
    /// Cancels the descendants of cancelled families.
    FamilySweep,
    /// Deletes what has expired.
    Retention,
    /// Gives back claims of vanished holders, for one module.
    Janitor(Name),
}

/// A background loop, and when it last succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopState {
    /// The loop.
    pub of: BackgroundLoop,
    /// Longest time between two passes.
    pub every: Duration,
    /// End of its last pass without an error, by the store's clock. `None` if there was none yet.
    pub last_run_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct LoopTimes(Mutex<BTreeMap<BackgroundLoop, Timestamp>>);

impl LoopTimes {
    fn find(&self, of: &BackgroundLoop) -> Option<Timestamp> {
        self.0.lock().expect("no holder panics").get(of).copied()
    }
}

impl Inner {
    /// Notes that a pass of a loop ended well.
    pub(crate) fn loop_ran(&self, of: BackgroundLoop) {
        let now = self.store.now();
        self.loops.0.lock().expect("no holder panics").insert(of, now);
    }
}

impl Engine {
    /// How the janitor of a module works here: its interval, and the silence after which it treats a holder as gone.
    pub fn find_janitor(&self, module: &Name) -> Option<(Duration, Duration)> {
        let janitor = self.inner.entities.find_janitor(module)?;
        Some((janitor.every, janitor.stale_after))
    }

    /// The background loops of this engine.
    pub fn list_background_loops(&self) -> Vec<LoopState> {
        let inner = &self.inner;
        let options = &inner.options;
        let patience = inner.entities.shortest_patience().unwrap_or(CLAIM_STALE_AFTER);
        let mut loops = vec![
            (BackgroundLoop::Scheduler, options.poll_every),
            (BackgroundLoop::LeaseRenewal, options.lease_for / 3),
            (BackgroundLoop::Outbox, options.poll_every),
            (BackgroundLoop::Heartbeats, (patience / 5).min(HEARTBEAT_EVERY)),
            (BackgroundLoop::FamilySweep, SWEEP_EVERY),
            (BackgroundLoop::Retention, options.purge_every),
        ];
        for module in inner.entities.modules() {
            if let Some(janitor) = inner.entities.find_janitor(&module) {
                loops.push((BackgroundLoop::Janitor(module), janitor.every));
            }
        }
        let state = |(of, every)| LoopState { last_run_at: inner.loops.find(&of), of, every };
        loops.into_iter().map(state).collect()
    }
}
