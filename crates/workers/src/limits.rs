//! Every limit of sessions and of the runs that workers carry out.

use std::time::Duration;

/// Most sessions of a workspace on one node.
pub const MAX_SESSIONS_PER_WORKSPACE: usize = 1_000;
/// Most sessions on one node.
pub const MAX_SESSIONS: usize = 10_000;
/// Most sessions that are remembered after their end, so that their worker learns why it ended.
pub const MAX_ENDED_SESSIONS: usize = 10_000;
/// Most names and beginnings of names that a credential is bound to.
pub const MAX_BOUND_NAMES: usize = 200;
/// Most workflows, tasks and actions of a session together.
pub const MAX_NAMES: usize = 1_000;
/// Most attempts, tasks and actions that a worker may have under way.
pub const MAX_CONCURRENCY: u32 = 10_000;
/// Longest name that is only for people, in characters.
pub const MAX_LABEL_CHARS: usize = 255;
/// Most items of one run in a commit.
pub const MAX_ITEMS: usize = 10_000;
/// Most runs in a commit.
pub const MAX_RUNS_PER_COMMIT: usize = 1_024;
/// Most results of tasks and actions in a commit.
pub const MAX_RESULTS: usize = 10_000;
/// Largest body of a commit, in bytes.
pub const MAX_COMMIT_BYTES: usize = 8 * 1024 * 1024;
/// Most records in `activate` and in one page of a log.
pub const MAX_LOG_PAGE: usize = 1_000;
/// Most bytes of records in `activate` and in one page of a log, beyond the first record.
pub const MAX_LOG_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes of messages in one answer, beyond the first message.
pub const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// Most bytes of messages that wait for one session. A session that leaves more lying gets no new runs.
pub const MAX_MAILBOX_BYTES: usize = 64 * 1024 * 1024;
/// Most bytes of messages that wait for all sessions of a workspace on one node.
pub const MAX_WORKSPACE_MAILBOX_BYTES: usize = 256 * 1024 * 1024;
/// Most runs that are taken up for each slot of a session, those under way included. More stay in the store.
pub const MAX_RUNS_PER_SLOT: usize = 2;
/// Most operations of one activation that are open at once.
pub const MAX_OPEN_OPERATIONS: usize = 10_000;
/// Most batches of one run that wait to be carried out.
pub const MAX_WAITING_BATCHES: usize = 1_024;
/// Longest time that a commit waits for what it asked for.
pub const COMMIT_WAIT: Duration = Duration::from_millis(50);
/// Longest wait of a task or an action for a worker that offers it.
pub const WORKER_WAIT: Duration = Duration::from_secs(2);
/// Longest wait of a poll for a message.
pub const POLL_FOR: Duration = Duration::from_secs(5);
/// How long after the end of its hold an effect of a vanished worker may still leave: clocks that run at different rates.
pub const HOLD_MARGIN: Duration = Duration::from_secs(1);
/// Wait of a poll while the lease of some work does not cover what was promised to the worker.
pub const HOLD_CHECK_EVERY: Duration = Duration::from_millis(200);
/// Interval of the look for sessions that are over, at most.
pub const SESSION_CHECK_EVERY: Duration = Duration::from_secs(1);
/// Interval of the look for work that is still under way, while the node stops.
pub const WIND_DOWN_CHECK_EVERY: Duration = Duration::from_millis(10);
/// Longest time that a worker may take from an outcome to its next batch. After it the run is given back.
pub const BATCH_WITHIN: Duration = Duration::from_secs(300);
/// Most attempts of one session whose outcome may still come late.
pub const MAX_LATE_ATTEMPTS: usize = 10_000;
/// Most bytes of earlier exchanges that a request to a push worker carries. Beyond it the function is forgotten and replayed.
pub const MAX_PUSHED_TURN_BYTES: usize = 512 * 1024;
/// Most activations of a push worker that are kept while they wait. Beyond it the oldest is forgotten and replayed.
pub const MAX_PUSHED_ACTIVATIONS: usize = 1_000;
/// Most bytes of the body of one request to a push worker.
pub const MAX_PUSHED_BYTES: usize = 8 * 1024 * 1024;
/// How far the clock of a push worker may be behind.
pub const PUSH_CLOCK_MARGIN: Duration = Duration::from_secs(2);
/// Shortest hold that work is pushed with. With less, the next answer of the session is awaited.
pub const MIN_PUSH_HOLD: Duration = Duration::from_secs(3);
/// Wait after the first failed request to a push worker. It doubles with each one in a row.
pub const FIRST_PUSH_PAUSE: Duration = Duration::from_millis(250);
/// Longest wait after failed requests to a push worker.
pub const MAX_PUSH_PAUSE: Duration = Duration::from_secs(60);
/// Failed requests in a row after which a push worker gets no new work but one at a time.
pub const PUSH_FAILURES_TO_REST: u32 = 5;
