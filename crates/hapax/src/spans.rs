//! Spans of time as people say them.

use std::time::Duration;

/// `n` seconds.
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `n` minutes.
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// `n` hours.
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(3_600 * n)
}

/// `n` days of 24 hours.
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(86_400 * n)
}
