//! Every number of the storm, in one place.

use std::time::Duration;

/// Lease of a run. Short, so that two minutes hold many pauses that outlast it.
pub const LEASE: Duration = Duration::from_secs(3);
/// Grace of a node that is asked to stop.
pub const DRAIN: Duration = Duration::from_secs(5);
/// How long after the grace period a node may still run. Generous, because the machine may be busy.
pub const STOP_MARGIN: Duration = Duration::from_secs(30);
/// How long a node may take to be ready once its database responds.
pub const START_WITHIN: Duration = Duration::from_secs(120);

/// Timeout of one request of a step.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time the provider works on a request that it has received. Longer than the timeout: it goes on when the caller has left.
pub const PROVIDER_WORKS: Duration = Duration::from_millis(2_600);
/// Longest time a request to the provider is held up on its way. What is held longer is cut, not delivered.
pub const REQUEST_HELD: Duration = Duration::from_millis(800);
/// How late this process may be on a busy machine. Requests that may have waited longer are turned away: nothing happens.
pub const MOST_LATE: Duration = Duration::from_millis(400);
/// Time after the last possible send when "did not happen" becomes certain: more than
/// `REQUEST_HELD`, `PROVIDER_WORKS` and twice `MOST_LATE`.
pub const SETTLE: Duration = Duration::from_secs(5);

/// Patience of a client with one request.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(6);
/// Pause of a client before it sends a request again.
pub const CLIENT_PAUSE: Duration = Duration::from_millis(250);
/// Largest answer that a client reads.
pub const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Largest request that the provider reads.
pub const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Connections of one proxy, or of the provider, at a time.
pub const MAX_CONNECTIONS: usize = 2_000;
/// Requests that the provider records. A storm of an hour stays below it by far.
pub const MAX_RECORDED: usize = 1_000_000;

/// Silence after which a janitor takes the holder of a claim for gone: the least that a node accepts.
pub const CLAIM_STALE_AFTER: Duration = Duration::from_secs(90);
/// Time kept for healing, settling and checking, out of `--minutes`.
pub const HEALING: Duration = Duration::from_secs(50);
/// Longest time until everything is settled after the storm; past it, what is open is a violation.
pub const SETTLED_WITHIN: Duration = Duration::from_secs(180);
/// Pieces of work begun per second.
pub const WORK_PER_SECOND: f64 = 2.5;
/// Pieces of work of one storm, at most.
pub const MAX_WORK: usize = 20_000;
/// Lines of the event log that are kept. A storm of an hour has about a tenth of it.
pub const MAX_CHRONICLE_LINES: usize = 1_000_000;
/// Lines of one node's log that one story quotes.
pub const MAX_LOG_LINES_PER_STORY: usize = 100;
/// Stories of violations that are written to files.
pub const MAX_STORIES: usize = 50;
