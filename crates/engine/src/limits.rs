//! Every limit of the engine. A list, batch, payload or wait without a named limit here is a bug.

use std::time::Duration;

/// Longest idempotency key, signal id or subject, in characters.
pub const MAX_KEY_CHARS: usize = 255;
/// Longest workflow, step, promise, signal or workspace name, in characters.
pub const MAX_NAME_CHARS: usize = 128;
/// Largest input, output, signal or promise value, in bytes of JSON text.
pub const MAX_PAYLOAD_BYTES: usize = 2 * 1024 * 1024;
/// Deepest nesting of a JSON payload.
pub const MAX_PAYLOAD_DEPTH: usize = 64;
/// Longest failure or cancellation text kept, in characters; longer ones are cut.
pub const MAX_MESSAGE_CHARS: usize = 4096;
/// Longest reason or remark of a person, in characters. Longer ones are rejected.
pub const MAX_REASON_CHARS: usize = 4096;
/// Longest name of a person, in characters.
pub const MAX_PERSON_CHARS: usize = 128;
/// Longest name of an actor, in characters: a person, and in brackets the credential they act through.
pub const MAX_ACTOR_CHARS: usize = 2 * MAX_PERSON_CHARS + 3;
/// Maximum number of steps in one generation of a run. Beyond it the run fails; use `continue_as_new`.
pub const MAX_STEPS_PER_RUN: u32 = 100_000;
/// Maximum number of unconsumed signals of a run. Further ones are rejected.
pub const MAX_WAITING_SIGNALS: u64 = 10_000;
/// How long the key of a promise still names it after the promise ended, by default.
pub const KEEP_PROMISE_KEY_FOR: Duration = Duration::from_secs(24 * 3600);
/// How long an early settlement is kept for its promise, by default. Longer than senders of webhooks retry.
pub const KEEP_EARLY_SETTLEMENT_FOR: Duration = Duration::from_secs(4 * 24 * 3600);
/// How long webhook events are kept, so that a resend is recognised. Longer than senders of webhooks retry.
pub const KEEP_INBOUND_EVENTS_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum page size of a list.
pub const MAX_PAGE: usize = 1_000;
/// Maximum number of promises scanned for one page with a status filter. If few match, the page is short.
pub const MAX_PROMISES_SCANNED: usize = 10_000;
/// Maximum number of runs scanned for one page with a filter on steps. If few match, the page is short.
pub const MAX_RUNS_SCANNED: usize = 10_000;
/// Maximum number of journal entries that one page of doubts reads to find who made the attempts.
pub const MAX_JOURNAL_ENTRIES_SCANNED: usize = 10_000;
/// Maximum number of outbox messages counted for the size of the backlog.
pub const MAX_COUNTED_OUTBOX: usize = 10_000;
/// Maximum number of workflows, by version and priority, scanned for the most overdue run.
pub const MAX_WORKFLOWS_SCANNED: usize = 10_000;
/// Maximum number of runs in one claim.
pub const MAX_CLAIM: usize = 1_024;
/// Maximum number of leases renewed in one write.
pub const MAX_RENEWALS: usize = 4_096;
/// Maximum number of keys or runs that one purge pass deletes.
pub const MAX_PURGE: usize = 1_000;
/// How long a step is retried, by default.
pub const RETRY_FOR: Duration = Duration::from_secs(24 * 3600);
/// Pause of housekeeping after a batch, as a multiple of the time that the batch took.
pub const PURGE_SHARE: u32 = 3;
/// Backlog age after which housekeeping spends half of its time on deleting.
pub const PURGE_HURRY_AFTER: Duration = Duration::from_secs(600);
/// Maximum number of attempts in a retry policy.
pub const MAX_ATTEMPTS: u32 = 1_000;
/// Maximum number of JSON paths stored for a request, to report where another one differs.
pub const MAX_LEAF_DIGESTS: usize = 256;
/// Maximum number of differing JSON paths in one answer.
pub const MAX_DIFFERENCES: usize = 32;
/// Largest answer stored under a request key, in bytes.
pub const MAX_STORED_ANSWER_BYTES: usize = 1024 * 1024;
/// How long after its hold ended an abandoned request is kept.
pub const ABANDONED_REQUEST_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum number of keys in one write of usage counts.
pub const MAX_KEY_USAGE_BATCH: usize = 1_000;
/// Longest name of a catalog item, in characters.
pub const MAX_ITEM_NAME_CHARS: usize = 255;
/// Longest name of a user's table or column, in characters.
pub const MAX_IDENTIFIER_CHARS: usize = 63;
/// Maximum number of data columns of a user's table.
pub const MAX_DATA_COLUMNS: usize = 64;
/// Maximum number of operations in one heartbeat write.
pub const MAX_HEARTBEATS: usize = 1_000;
/// Maximum number of claims that a janitor frees in one pass.
pub const MAX_STALE_CLAIMS: usize = 200;
/// Interval of the janitor, by default.
pub const JANITOR_EVERY: Duration = Duration::from_secs(120);
/// How long a claim may go without a heartbeat before its holder counts as gone, by default.
pub const CLAIM_STALE_AFTER: Duration = Duration::from_secs(300);
/// Interval of heartbeats for an operation. Shorter if its janitor allows less time.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);
/// Maximum number of attempts at an action under one effect key before an unknown outcome is released or put
/// in doubt.
pub const MAX_ACTION_TRIES: u32 = 5;
/// Maximum number of attempts that a ruling or a probe's "did not happen" covers, newest first.
pub const MAX_SETTLED_TRIES: u32 = 100;
/// Pause before an action with an unknown outcome is tried again. Doubles each time.
pub const ACTION_PAUSE: Duration = Duration::from_millis(500);
/// Longest such pause, whatever the provider asks for.
pub const MAX_ACTION_PAUSE: Duration = Duration::from_secs(30);
/// Pause between two questions of a probe: "did not happen" must be answered twice.
pub const PROBE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often an operation reads an entity again that keeps changing before it gives up.
pub const MAX_BEGIN_TRIES: u32 = 8;
/// Longest delay, sleep, timeout or deadline: ten years.
pub const MAX_SPAN: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// Shortest lease. With a shorter one, renewals could not keep up with a slow disk.
pub const MIN_LEASE: Duration = Duration::from_millis(100);
/// Longest wait for an answer of the store. After it the outcome is unknown.
pub const MAX_STORE_WAIT: Duration = Duration::from_secs(30);
/// Longest duration of one delivery attempt.
pub const MAX_DELIVERY: Duration = Duration::from_secs(60);
/// Maximum number of concurrent deliveries to one target.
pub const MAX_DELIVERIES_PER_TARGET: usize = 1_024;
/// Longest wait for the answer of a probe, unless it or its step has a timeout.
pub const MAX_PROBE: Duration = Duration::from_secs(30);
/// How often a probe without an answer is repeated before it counts as unknown.
pub const MAX_PROBE_TRIES: u32 = 3;
/// How long an answer that may have arrived is still awaited after the timeout.
pub const FINAL_POLL_FOR: Duration = Duration::from_millis(250);
/// Longest sleep of a clock that waits for an instant. After it, the clock checks the time again.
pub const MAX_CLOCK_SLEEP: Duration = Duration::from_secs(3600);
/// Largest step of the wall clock that is followed. A larger one is a jump: it is logged and counted, but not
/// followed.
pub const MAX_CLOCK_STEP: Duration = Duration::from_secs(10);
/// How long an effect without a timeout counts as in flight after its worker vanished.
pub const EFFECT_WITHOUT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long after its timeout an attempt may still be at work: network, queues of the provider, clock
/// differences.
pub const IN_FLIGHT_MARGIN: Duration = Duration::from_secs(5);
/// Pause between the two answers "did not happen" that a probe must give.
pub const DENIAL_PAUSE: Duration = Duration::from_secs(2);
/// Pause before a probe with an unknown answer is repeated while a ruling is pending. Doubles each time.
pub const PROBE_EVERY: Duration = Duration::from_secs(300);
/// Longest pause between two such probes.
pub const MAX_PROBE_PAUSE: Duration = Duration::from_secs(3600);
/// How often releasing a run whose driver panicked is retried if an operator changes it at the same time.
/// After that its lease expires.
pub const RELEASE_TRIES: u32 = 5;
/// Pause before a background loop is restarted after its first panic.
pub const FIRST_LOOP_RESTART: Duration = Duration::from_millis(100);
/// Longest pause before a background loop is restarted.
pub const MAX_LOOP_RESTART: Duration = Duration::from_secs(30);
/// A background loop that ran this long without a panic is restarted after the first pause again.
pub const LOOP_CALM_AFTER: Duration = Duration::from_secs(60);
/// Longest pause before a run whose driver panicked is driven again.
pub const MAX_STALLED_PAUSE: Duration = Duration::from_secs(60);
/// Leases in a row that may end without progress before a run is quarantined.
pub const MAX_STALLS: u32 = 10;
/// Maximum number of ancestors of a run, by default.
pub const MAX_CHILD_DEPTH: u32 = 32;
/// Maximum number of descendants of a root since it began or last continued as new, by default.
pub const MAX_DESCENDANTS: u64 = 10_000;
/// Maximum number of children that one engine starts in a workspace per second, by default. Further ones
/// start later.
pub const CHILDREN_PER_SECOND: u32 = 1_000;
/// Longest delay of a child by that rate. A child that would wait longer is refused.
pub const MAX_CHILD_DELAY: Duration = Duration::from_secs(60);
/// Maximum number of workspaces whose child rate is tracked.
pub const MAX_PACED_WORKSPACES: usize = 10_000;
/// Maximum number of members of a cancelled family that one write asks to cancel.
pub const MAX_SWEEP: usize = 200;
/// Interval at which an engine looks for cancelled families whose sweep was interrupted.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Age at which an unprocessed webhook event counts as forgotten. Servers look for events of a vanished
/// server every few seconds.
pub const INBOUND_EVENT_OVERDUE_AFTER: Duration = Duration::from_secs(3600);
/// Maximum number of violations that one check of a store lists. Further ones are counted.
pub const MAX_VIOLATIONS: usize = 1_000;

/// Maximum number of steps in doubt scanned for one list of runs that need attention.
pub const MAX_DOUBTS_SCANNED: usize = 10_000;
/// Polls of the code of a remote run, before other runs get a turn.
pub const MAX_POLLS_IN_A_ROW: u32 = 64;
