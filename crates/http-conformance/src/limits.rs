//! Every limit of the suite, by name.

use std::time::Duration;

/// Number of concurrent duplicates.
pub const CONCURRENT_DUPLICATES: usize = 20;

/// Number of calls that race while the first is in flight.
pub const CALLS_IN_FLIGHT: usize = 3;

/// Default timeout of one answer.
pub const MAX_WAIT_MS: u64 = 15_000;

/// Maximum timeout in a config.
pub const LONGEST_MAX_WAIT_MS: u64 = 600_000;

/// Maximum bytes read of an answer.
pub const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// Maximum length of an answer quoted in a verdict.
pub const MAX_QUOTED_CHARS: usize = 200;

/// Longest key that a service must accept.
pub const LONGEST_KEY: usize = 255;

/// Minimum lifetime of a key.
pub const SHORTEST_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum difference between a clock in a header and ours.
pub const CLOCK_SLACK: Duration = Duration::from_secs(120);

/// Pause before the next look at a pending result.
pub const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Delay before a client disconnects, so that the service has begun.
pub const LEAVE_AFTER: Duration = Duration::from_millis(100);
