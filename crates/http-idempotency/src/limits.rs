//! Every limit of the layer, in one place: each body, wait, list and number of attempts has a name here.

use std::time::Duration;

pub use hapax_engine::limits::{MAX_KEY_CHARS, MAX_KEY_USAGE_BATCH, MAX_SPAN, MAX_STORED_ANSWER_BYTES};

/// Shortest retention of an answer, unless the operator allows less explicitly.
pub const A_DAY: Duration = Duration::from_secs(24 * 3600);
/// Retention of answers for services that move money.
pub const SEVEN_DAYS: Duration = Duration::from_secs(7 * 24 * 3600);
/// Default time that a request waits for an identical one in progress.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(10);
/// Longest wait that a request may ask for.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// Time without renewal after which a request counts as abandoned.
pub const DEFAULT_HOLD: Duration = Duration::from_secs(60);
/// Shortest such time; below it, renewals could not keep up with a slow disk.
pub const MIN_HOLD: Duration = Duration::from_secs(1);
/// Longest such time, and so the longest wait before a takeover.
pub const MAX_HOLD: Duration = Duration::from_secs(3600);
/// Default limit of the body of a request with a key.
pub const DEFAULT_BODY_BYTES: usize = 2 * 1024 * 1024;
/// Largest limit that a policy may set for such a body, which is held in memory.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of requests in one process that wait for an identical one. Further requests get 409
/// `request_in_progress` at once.
pub const MAX_WAITERS: usize = 10_000;
/// Maximum total size of the bodies of waiting requests.
pub const MAX_WAITING_BYTES: usize = 256 * 1024 * 1024;
/// First pause before the store is asked again whether another process has answered.
pub const FIRST_POLL: Duration = Duration::from_millis(10);
/// Longest such pause; each is twice the one before.
pub const LONGEST_POLL: Duration = Duration::from_millis(500);
/// Timeout for an answer of the store; after it the outcome counts as unknown.
pub const STORE_WAIT: Duration = Duration::from_secs(5);
/// Number of attempts of a begin with an unknown outcome.
pub const BEGIN_TRIES: u32 = 2;
/// Number of attempts to record an end before the answer is sent without it.
pub const FINISH_TRIES: u32 = 3;
/// Pause after the first failed attempt to record an end; it doubles each time.
pub const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest such pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time that attempts to record an end continue after its answer was sent.
pub const UNSAVED_FOR: Duration = Duration::from_secs(300);
/// Maximum number of such ends; beyond it, the hold expires instead.
pub const MAX_UNSAVED: usize = 1_024;
/// Maximum number of headers stored with an answer.
pub const MAX_STORED_HEADERS: usize = 32;
/// Largest stored header, in bytes; larger ones are left out.
pub const MAX_STORED_HEADER_BYTES: usize = 8 * 1024;
/// Longest path shown in a conflict, in characters. Longer paths are truncated there, but compared in full.
pub const MAX_SHOWN_PATH_CHARS: usize = 2_048;
/// Interval at which key uses are written.
pub const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of keys with uses waiting to be written; uses of further keys are not counted.
pub const MAX_COUNTED_KEYS: usize = 10_000;
/// `Retry-After` of a request in progress.
pub const RETRY_IN_PROGRESS_AFTER: Duration = Duration::from_secs(1);
/// `Retry-After` when the store is unavailable.
pub const RETRY_STORE_AFTER: Duration = Duration::from_secs(2);
