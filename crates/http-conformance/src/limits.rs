//! Every limit of the suite, by name.

use std::time::Duration;

/// How many duplicates are sent at once.
pub const CONCURRENT_DUPLICATES: usize = 20;

/// How many calls race while the first is in flight.
pub const CALLS_IN_FLIGHT: usize = 3;

/// How long one answer may take, unless the config says otherwise.
pub const MAX_WAIT_MS: u64 = 15_000;

/// The most a config may ask for.
pub const LONGEST_MAX_WAIT_MS: u64 = 600_000;

/// Bytes of an answer that are read.
pub const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// How much of an answer is quoted in a verdict.
pub const MAX_QUOTED_CHARS: usize = 200;

/// The longest key that must be accepted.
pub const LONGEST_KEY: usize = 255;

/// How long a key must live at least.
pub const SHORTEST_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// By how much a clock in a header may differ from ours.
pub const CLOCK_SLACK: Duration = Duration::from_secs(120);

/// Between two looks at something that is not yet as expected.
pub const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How long a client that will leave stays after its request, so that the service has begun.
pub const LEAVE_AFTER: Duration = Duration::from_millis(100);
