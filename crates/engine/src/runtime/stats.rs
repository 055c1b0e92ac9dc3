//! Counters of an engine.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64),* }

        /// Counters since the engine was launched.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Stats { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            pub(crate) fn read(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

stats! {
    /// Runs created, by a start or as children.
    created,
    /// Starts that found an existing run.
    duplicates,
    /// Starts and settlements refused because of a conflicting key or promise.
    conflicts,
    /// Leases granted on due runs.
    claims,
    /// Leases taken over from a vanished holder.
    takeovers,
    /// Runs rebuilt from their records.
    replays,
    /// Parked runs that continued in memory.
    resumed_in_memory,
    /// Effects begun.
    effects,
    /// Attempts that will be repeated.
    retries,
    /// Effects that came into doubt.
    doubts,
    /// Early settlements that expired before their promise was created.
    early_expired,
    /// After-effects delivered.
    delivered,
    /// Failed delivery attempts.
    undelivered,
    /// After-effects given up after their last attempt or a permanent failure.
    given_up,
    /// Clock jumps: of the store's clock against this machine, and of this machine's wall clock.
    clock_jumps,
    /// Writes refused because the lease was lost.
    fenced_writes,
    /// Writes repeated because the run had changed.
    stale_writes,
    /// Writes with a lost acknowledgement that were clarified by repeating them.
    unknown_resolved,
    /// Runs given up because their lease could not be kept.
    self_fenced,
    /// Activations that ended in a panic outside workflow code.
    driver_panics,
    /// Runs that ended on this engine.
    closed,
    /// Entity operations begun on this engine.
    operations,
    /// Requests for an operation that found another one in progress.
    claims_lost,
    /// Claims that a janitor on this engine released.
    janitor_releases,
    /// Rows deleted on this engine because their retention had ended.
    purged,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        Counters::add_many(counter, 1);
    }

    pub(crate) fn add_many(counter: &AtomicU64, many: u64) {
        counter.fetch_add(many, Ordering::Relaxed);
    }
}
