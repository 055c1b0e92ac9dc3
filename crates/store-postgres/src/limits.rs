//! All limits of this store.

use std::time::Duration;

/// Most operations in one statement. With more, callers would wait longer and the disk would not do
/// less.
pub(crate) const MAX_BATCH: usize = 512;
/// Most bytes of payload in one statement, except for a single larger operation.
pub(crate) const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Most bytes of payload in one operation; PostgreSQL itself rejects messages of a gigabyte.
pub(crate) const MAX_OPERATION_BYTES: usize = 256 * 1024 * 1024;
/// Most operations in one transaction of the read-modify-write lane; each costs a few statements.
pub(crate) const MAX_CONSIDERED: usize = 64;
/// Most operations in the queue of a committer; the next caller waits for room.
pub(crate) const MAX_QUEUED: usize = 8_192;
/// How often a batch is retried after a deadlock or a rival.
pub(crate) const MAX_TRIES: u32 = 8;
/// Longest pause before the first retry; it doubles with each.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Connections for claims and purges.
pub(crate) const MAINTENANCE_CONNECTIONS: usize = 2;
/// Connections for claims of after-effects and for their results.
pub(crate) const DELIVERY_CONNECTIONS: usize = 2;
/// Connections that listen for hints of other nodes.
pub(crate) const LISTENING_CONNECTIONS: usize = 1;
/// Most runs deleted by one transaction, which holds their locks until it ends.
pub(crate) const PURGE_AT_ONCE: usize = 50;
/// Connections for renewals.
pub(crate) const RENEWAL_CONNECTIONS: usize = 2;
/// Longest wait for a connection to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long after a failed connection callers fail at once, instead of each waiting for one of its
/// own.
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// How often a connection forgets its plans.
pub(crate) const FORGET_PLANS_EVERY: Duration = Duration::from_secs(10);
/// Due runs beyond which a claim rotates among workspaces; a shorter backlog is served strictly in
/// order.
pub(crate) const LONG_BACKLOG: usize = 1_024;
/// Most workspaces per claim, workflow and priority; the next claim continues behind them.
pub(crate) const MAX_WORKSPACES_PER_CLAIM: usize = 64;
/// When a claim that found only runs locked by others looks again.
pub(crate) const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Least time between two hints.
pub(crate) const HINT_EVERY: Duration = Duration::from_millis(50);
/// How often the server's clock is read again.
pub(crate) const READ_CLOCK_EVERY: Duration = Duration::from_secs(10);
/// Oldest supported server.
pub(crate) const MIN_SERVER: i32 = 140_000;
/// How often two sessions are compared to detect a pooler that does not keep them. With a busy
/// pooler, one round can pass by chance.
pub(crate) const SESSION_PROBES: usize = 24;

/// Runs whose steps one query of a filtered list looks at.
pub(crate) const RUNS_SCANNED_AT_ONCE: usize = 500;
/// Longest time to its end of a lease that is ended because its owner is dead. A longer one ends by itself.
pub(crate) const LONGEST_ENDED_LEASE: Duration = Duration::from_secs(3600);
/// Most workflow versions and priorities that are searched for leases of a dead owner.
pub(crate) const MAX_ENDED_QUEUES: i64 = 10_000;
