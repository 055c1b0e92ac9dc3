//! Every limit of this store, in one place.

use std::time::Duration;

/// Most operations committed together. One commit of this many takes a few milliseconds; beyond it callers would wait
/// longer without the disk doing less.
pub(crate) const MAX_BATCH: usize = 1_024;
/// How long the writer looks for the next operation, and a caller that is alone for its answer, before they sleep.
pub(crate) const LINGER: Duration = Duration::from_micros(250);
/// A caller that is alone writes on its own thread while transactions take less than this: to wake the thread that writes, and to be
/// woken by it, would take about as long.
pub(crate) const QUICK_COMMIT: Duration = Duration::from_millis(1);
/// After how many such writes the thread is woken to look at the length of the log.
pub(crate) const LOOK_AT_LOG_EVERY: u32 = 64;
/// How often a lingering thread spins before it checks again.
pub(crate) const BREATH: u32 = 32;
/// Most operations that wait for the writer; the next caller waits to be let in.
pub(crate) const MAX_QUEUED: usize = 8_192;
/// Most reads at the same time, each on a connection of its own.
pub(crate) const MAX_READERS: usize = 4;
/// Key lookups run on the caller's own thread while reads take less than this.
pub(crate) const QUICK_READ: Duration = Duration::from_millis(1);
/// Most prepared statements kept per connection: all of ours, those over tables of the
/// user's, and some of the work that users do on it.
pub(crate) const MAX_STATEMENTS: usize = 384;
/// How long a writer waits for another process that writes (shared mode only), and a reader for recovery.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Frames in the write-ahead log before it is copied into the database.
pub(crate) const CHECKPOINT_FRAMES: i64 = 4_096;
/// Frames in the log that show that something keeps it from being emptied, such as a reader that never ends.
pub(crate) const STARVED_FRAMES: i64 = 16 * CHECKPOINT_FRAMES;
/// Oldest SQLite without the fault that loses commits when two connections write and checkpoint together.
pub(crate) const MIN_SQLITE: i32 = 3_051_003;
/// Pages that a backup copies between two progress reports.
pub(crate) const BACKUP_PAGES: i32 = 4_096;

/// Runs whose steps one query of a filtered list looks at.
pub(crate) const RUNS_SCANNED_AT_ONCE: usize = 500;
