//! Every limit of the layer, in one place: a body, a wait, a list or a number of tries without a name here is a bug.

use std::time::Duration;

pub use hapax_engine::limits::{MAX_KEY_CHARS, MAX_KEY_USAGE_BATCH, MAX_SPAN, MAX_STORED_ANSWER_BYTES};

/// Shortest time an answer is kept, unless the operator says so twice.
pub const A_DAY: Duration = Duration::from_secs(24 * 3600);
/// How long answers are kept where money moves.
pub const SEVEN_DAYS: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a request waits for the first of the same, unless it says otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(10);
/// Longest a request may ask to wait for the first of the same.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// For how long a request counts as worked on without a sign of life.
pub const DEFAULT_HOLD: Duration = Duration::from_secs(60);
/// Shortest such time; below it renewals could not keep up with a slow disk.
pub const MIN_HOLD: Duration = Duration::from_secs(1);
/// Longest such time; nobody waits longer for one that vanished.
pub const MAX_HOLD: Duration = Duration::from_secs(3600);
/// Largest body of a request with a key, unless the policy says otherwise.
pub const DEFAULT_BODY_BYTES: usize = 2 * 1024 * 1024;
/// Largest body of a request with a key that a policy may allow: it is held in memory.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Most requests of one process that wait for the first with the same key; further ones get 409 `request_in_progress` at once.
pub const MAX_WAITERS: usize = 10_000;
/// Most bytes that the bodies of those requests may have together.
pub const MAX_WAITING_BYTES: usize = 256 * 1024 * 1024;
/// How soon a store is asked again whether another process has answered.
pub const FIRST_POLL: Duration = Duration::from_millis(10);
/// How long at most until it is asked again; each time it takes twice as long.
pub const LONGEST_POLL: Duration = Duration::from_millis(500);
/// Longest wait for an answer of the store; after it the outcome counts as unknown.
pub const STORE_WAIT: Duration = Duration::from_secs(5);
/// How often a beginning is sent whose outcome is unknown.
pub const BEGIN_TRIES: u32 = 2;
/// How often an end is written before the answer goes out without it.
pub const FINISH_TRIES: u32 = 3;
/// Pause after the first try to write an end; twice as long each time.
pub const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest such pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// For how long an end is still tried to be written after its answer went out without it.
pub const UNSAVED_FOR: Duration = Duration::from_secs(300);
/// Most such ends at once; of more than that the hold runs out.
pub const MAX_UNSAVED: usize = 1_024;
/// Most headers kept with an answer.
pub const MAX_STORED_HEADERS: usize = 32;
/// Largest header kept with an answer, in bytes; larger ones are left out.
pub const MAX_STORED_HEADER_BYTES: usize = 8 * 1024;
/// Longest path that a conflict shows, in characters; longer ones are cut (they count in full for sameness).
pub const MAX_SHOWN_PATH_CHARS: usize = 2_048;
/// How often the uses of keys are written.
pub const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Most keys whose uses wait to be written; uses of further keys are not counted.
pub const MAX_COUNTED_KEYS: usize = 10_000;
/// When to try again what is in progress.
pub const RETRY_IN_PROGRESS_AFTER: Duration = Duration::from_secs(1);
/// When to try again what the store could not take in.
pub const RETRY_STORE_AFTER: Duration = Duration::from_secs(2);
