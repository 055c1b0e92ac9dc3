//! Every limit of a connection to a server.

use std::time::Duration;

/// Attempts, tasks and actions under way at once, by default.
pub(crate) const CONCURRENCY: u32 = 256;
/// Suspended runs kept in memory, by default. Others are replayed when they go on.
pub(crate) const MAX_RESIDENT_RUNS: usize = 10_000;
/// How long an answer may take, besides what it was asked to wait.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Wait before a request is sent again; doubled each time.
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(20);
/// Longest wait before a request is sent again.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Registrations that come within this time share one session.
pub(crate) const REGISTRATION_PAUSE: Duration = Duration::from_millis(5);
/// How long a call waits until the server knows what this program registered.
pub(crate) const ANNOUNCE_WITHIN: Duration = Duration::from_secs(10);
/// Wait after a refusal that is neither final nor known.
pub(crate) const AFTER_REFUSAL: Duration = Duration::from_secs(1);
/// How often a commit lets runs that are awake go first, so that they share it.
pub(crate) const YIELDS_BEFORE_COMMIT: u32 = 16;
/// Late outcomes kept for the next session.
pub(crate) const MAX_LATE_OUTCOMES: usize = 10_000;
/// Longest wait of one request for the end of a run or of a step. The request is then sent again.
pub(crate) const RESULT_WAIT: Duration = Duration::from_secs(30);
