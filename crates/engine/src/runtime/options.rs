//! Options of an engine.

use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::crash_point::CrashPointWatcher;
use crate::lease::Lease;
use crate::limits::{CHILDREN_PER_SECOND, MAX_CHILD_DEPTH, MAX_DESCENDANTS, MAX_SPAN, MIN_LEASE};

/// Options of an engine. The defaults suit a program that embeds it.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Duration of a lease without renewal.
    pub lease_for: Duration,
    /// Poll interval for due runs when no notification arrives.
    pub poll_every: Duration,
    /// Maximum number of runs executed at once. Other runs wait.
    pub max_active: usize,
    /// Maximum number of parked runs kept in memory. They continue without a replay.
    pub max_resident: usize,
    /// Do irreversible rulings always take two people, managers included?
    pub four_eyes: bool,
    /// Time after which a step in progress is recorded as running, so that operators can see it.
    pub mark_after: Duration,
    /// Retention of closed runs and of superseded entity operations; `None` keeps them indefinitely.
    pub keep_runs_for: Option<Duration>,
    /// Interval between maintenance passes.
    pub purge_every: Duration,
    /// Maximum depth of a child run. A deeper child fails with `child_too_deep`.
    pub max_child_depth: u32,
    /// Maximum number of descendants of one root since it started or last continued as new. Further children
    /// fail with `too_many_descendants`.
    pub max_descendants: u64,
    /// Maximum number of children that one workspace starts on this engine per second. Further children start
    /// later. A child that would wait longer than a minute fails with `child_rate_exceeded`.
    pub children_per_second: u32,
    /// True if each failed attempt is recorded in the journal, for the ledger of effects. Claims, doubts and
    /// decisions are always recorded.
    pub ledger: bool,
    /// External lease that must be held as well while a run is executed; see [`crate::lease`]. A run waits
    /// while its lease is taken. All runs wait while the lease service is unreachable.
    pub lease: Option<Arc<dyn Lease>>,
    /// Function called at each crash point, for tests.
    pub watcher: Option<CrashPointWatcher>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            lease_for: Duration::from_secs(30),
            poll_every: Duration::from_secs(1),
            max_active: 10_000,
            max_resident: 1_000,
            four_eyes: false,
            mark_after: Duration::from_millis(100),
            keep_runs_for: None,
            purge_every: Duration::from_secs(60),
            max_child_depth: MAX_CHILD_DEPTH,
            max_descendants: MAX_DESCENDANTS,
            children_per_second: CHILDREN_PER_SECOND,
            ledger: true,
            lease: None,
            watcher: None,
        }
    }
}

impl EngineOptions {
    /// Checks the options and returns an error for an invalid one.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::Options(why));
        if self.lease_for < MIN_LEASE || self.lease_for > MAX_SPAN {
            return refuse(format!("lease_for is {:?}; use {MIN_LEASE:?} or more", self.lease_for));
        }
        if self.max_active == 0 {
            return refuse("max_active is 0, so no run would ever be driven".into());
        }
        if self.children_per_second == 0 {
            return refuse("children_per_second is 0, so no child would ever begin".into());
        }
        if self.poll_every.is_zero() || self.purge_every.is_zero() {
            return refuse("poll_every and purge_every must be longer than zero".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3.10: a lease lasts 30 seconds by default, and a lease too short to renew is refused.
    #[test]
    fn a_lease_is_for_half_a_minute_and_never_too_short_to_renew() {
        let usual = EngineOptions::default();
        assert_eq!(usual.lease_for, Duration::from_secs(30));
        assert!(usual.check().is_ok());
        let short = EngineOptions { lease_for: MIN_LEASE - Duration::from_millis(1), ..usual };
        assert!(short.check().is_err());
    }
}
