//! What an engine has seen since it started.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64),* }

        /// Counts since the engine started.
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
    /// Starts that found their run already there.
    duplicates,
    /// Starts and settlements refused because a key or promise held something else.
    conflicts,
    /// Leases granted on due runs.
    claims,
    /// Of those, leases taken over from a holder that vanished.
    takeovers,
    /// Runs rebuilt from their records.
    replays,
    /// Parked runs that went on in memory.
    resumed_in_memory,
    /// Effects begun.
    effects,
    /// Attempts that will be made again.
    retries,
    /// Effects that came to be in doubt.
    doubts,
    /// Settlements that waited for a promise that never came.
    early_expired,
    /// After-effects delivered.
    delivered,
    /// Attempts to deliver one that failed.
    undelivered,
    /// After-effects given up: the last of their attempts failed, or would never have gone well.
    given_up,
    /// Jumps of a clock: of the store's against this machine's, and of this machine's wall clock.
    clock_jumps,
    /// Writes refused because the lease was lost.
    fenced_writes,
    /// Writes sent again because the run had changed.
    stale_writes,
    /// Writes whose acknowledgement was lost and that were settled by sending them again.
    unknown_resolved,
    /// Runs given up because their lease could not be kept.
    self_fenced,
    /// Stretches of driving that ended in a panic outside a workflow's code.
    driver_panics,
    /// Runs that ended here.
    closed,
    /// Operations on entities begun here.
    operations,
    /// Requests to begin one that found another in progress.
    claims_lost,
    /// Claims that a janitor here gave back.
    janitor_releases,
    /// Rows deleted here because their retention had ended.
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
