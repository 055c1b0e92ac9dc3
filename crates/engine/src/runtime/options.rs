//! What can be set on an engine.

use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::point::PointWatcher;
use crate::lease::Lease;
use crate::limits::{CHILDREN_PER_SECOND, MAX_CHILD_DEPTH, MAX_DESCENDANTS, MAX_SPAN, MIN_LEASE};

/// Settings of an engine; the defaults suit a program that embeds it.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// How long a lease lasts without renewal.
    pub lease_for: Duration,
    /// How often to look for due runs when nothing tells of one.
    pub poll_every: Duration,
    /// How many runs to drive at once; others wait.
    pub max_active: usize,
    /// How many parked runs to keep in memory, ready to go on without a replay.
    pub max_resident: usize,
    /// After this long a step in progress is marked, so that people can see it.
    pub mark_after: Duration,
    /// Delete closed runs this long after their end, and operations that a newer one of their step took the place of; `None` keeps them.
    pub keep_runs_for: Option<Duration>,
    /// How often to delete what has expired.
    pub purge_every: Duration,
    /// Most runs above a child. A deeper one is refused with the failure `child_too_deep`.
    pub max_child_depth: u32,
    /// Most descendants of one root since it began or last continued as new. Further ones are refused with the failure
    /// `too_many_descendants`.
    pub max_descendants: u64,
    /// Most children that runs of one workspace start here each second. Those beyond it begin later; one that would have to wait for more
    /// than a minute is refused with the failure `child_rate_exceeded`.
    pub children_per_second: u32,
    /// Note each attempt that fails in the journal, for the ledger of effects. Claims, doubts and decisions are always noted.
    pub ledger: bool,
    /// Drive a run only while this lease is held as well, for as long as `lease_for`; see [`crate::lease`] for what it adds. While it
    /// cannot be had, the run waits; while it cannot be asked for, all runs do.
    pub lease: Option<Arc<dyn Lease>>,
    /// Called at the points where a crash would be most telling; for tests.
    pub watcher: Option<PointWatcher>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            lease_for: Duration::from_secs(30),
            poll_every: Duration::from_secs(1),
            max_active: 10_000,
            max_resident: 1_000,
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
    /// Refuses what could not work, with the reason.
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

    /// S3.10: a lease is for 30 seconds unless told otherwise, and what could not work is refused.
    #[test]
    fn a_lease_is_for_half_a_minute_and_never_too_short_to_renew() {
        let usual = EngineOptions::default();
        assert_eq!(usual.lease_for, Duration::from_secs(30));
        assert!(usual.check().is_ok());
        let short = EngineOptions { lease_for: MIN_LEASE - Duration::from_millis(1), ..usual };
        assert!(short.check().is_err());
    }
}
