//! Every limit of the engine, in one place: a list, a batch, a payload or a wait without a name here is a bug.

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
/// Longest reason or note that a person gives, in characters; longer ones are refused.
pub const MAX_REASON_CHARS: usize = 4096;
/// Longest name that a person gives, in characters.
pub const MAX_PERSON_CHARS: usize = 128;
/// Longest name under which somebody acts, in characters: a person's, and in brackets that of what they act through.
pub const MAX_ACTOR_CHARS: usize = 2 * MAX_PERSON_CHARS + 3;
/// Most steps one generation of a run may record; beyond it the run fails and should use `continue_as_new`.
pub const MAX_STEPS_PER_RUN: u32 = 100_000;
/// Most unconsumed signals a run may hold; the next one is refused.
pub const MAX_WAITING_SIGNALS: u64 = 10_000;
/// For how long the key of a promise still names it once that is over, unless its maker says otherwise.
pub const KEEP_PROMISE_KEY_FOR: Duration = Duration::from_secs(24 * 3600);
/// For how long a settlement that comes before its promise is kept for it, unless its sender says otherwise: longer than senders of
/// webhooks try again.
pub const KEEP_EARLY_FOR: Duration = Duration::from_secs(4 * 24 * 3600);
/// For how long events of webhooks are kept, so that one that is sent again is known again: longer than senders try.
pub const KEEP_HOOKS_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most runs on one page of a list.
pub const MAX_PAGE: usize = 1_000;
/// Most promises that are looked at for one page of those that stand so: where few of many do, the page is short.
pub const MAX_PROMISES_LOOKED_AT: usize = 10_000;
/// Most entries of the journal that one page of doubts reads to tell who made the attempts; of those beyond it nobody is told.
pub const MAX_NOTES_LOOKED_AT: usize = 10_000;
/// Most after-effects that a look at the depth of the outbox counts: beyond it, more is no news.
pub const MAX_COUNTED_OUTBOX: usize = 10_000;
/// Most workflows, each by version and priority, that a look for the longest due run goes through.
pub const MAX_WORKFLOWS_LOOKED_AT: usize = 10_000;
/// Most runs one claim may take.
pub const MAX_CLAIM: usize = 1_024;
/// Most leases renewed in one write.
pub const MAX_RENEWALS: usize = 4_096;
/// Most keys or runs one retention pass may delete.
pub const MAX_PURGE: usize = 1_000;
/// How long a step is tried unless its policy says otherwise.
pub const RETRY_FOR: Duration = Duration::from_secs(24 * 3600);
/// How many times as long as a batch took housekeeping leaves the store alone after it.
pub const PURGE_SHARE: u32 = 3;
/// How long housekeeping may be behind before it takes half of its time for deleting.
pub const PURGE_HURRY_AFTER: Duration = Duration::from_secs(600);
/// Most attempts a retry policy may ask for.
pub const MAX_ATTEMPTS: u32 = 1_000;
/// Most JSON paths kept of a request, to say where another one differs.
pub const MAX_OUTLINE_PATHS: usize = 256;
/// Most differing JSON paths one answer names.
pub const MAX_DIFFERENCES: usize = 32;
/// Largest answer kept whole under a request key, in bytes.
pub const MAX_STORED_ANSWER_BYTES: usize = 1024 * 1024;
/// How long after its hold ran out a request that nobody took over is forgotten.
pub const ABANDONED_REQUEST_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Most keys whose uses are counted in one write.
pub const MAX_KEY_USES: usize = 1_000;
/// Longest name of a thing in the catalog, in characters.
pub const MAX_ITEM_NAME_CHARS: usize = 255;
/// Longest name of a table or column of the user's, in characters.
pub const MAX_IDENTIFIER_CHARS: usize = 63;
/// Most columns of a table of the user's that are shown as what is known of an entity.
pub const MAX_COLUMNS_SHOWN: usize = 64;
/// Most operations whose holders are heard of in one write.
pub const MAX_HEARD: usize = 1_000;
/// Most claims a janitor frees in one go.
pub const MAX_STALE_CLAIMS: usize = 200;
/// How often a janitor looks, unless its module says otherwise.
pub const JANITOR_EVERY: Duration = Duration::from_secs(120);
/// For how long nothing is heard of the holder of a claim before it counts as gone, unless its module says otherwise.
pub const CLAIM_STALE_AFTER: Duration = Duration::from_secs(300);
/// How often the store hears, at least, that an operation is alive; more often if a janitor has less patience.
pub const HEAR_AT_LEAST_EVERY: Duration = Duration::from_secs(30);
/// How often the action of an operation is entered under one effect key before an outcome that stays unknown is released or shown to people.
pub const MAX_ACTION_TRIES: u32 = 5;
/// Newest tries under one effect key that a ruling or a probe's "did not happen" speaks of.
pub const MAX_SETTLED_TRIES: u32 = 100;
/// Pause before an action with an unknown outcome is entered again; twice as long each time.
pub const ACTION_PAUSE: Duration = Duration::from_millis(500);
/// Longest such pause, whatever the provider asks for.
pub const MAX_ACTION_PAUSE: Duration = Duration::from_secs(30);
/// Pause between two questions of a probe: "did not happen" counts when it is said twice.
pub const PROBE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often an entity that changed under an operation's eyes is looked at anew before the operation gives up.
pub const MAX_BEGIN_TRIES: u32 = 8;
/// Longest delay, sleep, timeout or deadline: ten years.
pub const MAX_SPAN: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// Shortest lease; below it renewals could not keep up with a slow disk.
pub const MIN_LEASE: Duration = Duration::from_millis(100);
/// Longest wait for an answer of the store; after it the outcome counts as unknown.
pub const MAX_STORE_WAIT: Duration = Duration::from_secs(30);
/// Longest one attempt to deliver an after-effect may take.
pub const MAX_DELIVERY: Duration = Duration::from_secs(60);
/// Most after-effects on their way to one target at once.
pub const MAX_DELIVERIES_PER_TARGET: usize = 1_024;
/// Longest wait for the answer of a probe, unless it or its step has a timeout.
pub const MAX_PROBE: Duration = Duration::from_secs(30);
/// How often a provider that does not answer a probe is asked before the probe counts as one that could not tell.
pub const MAX_PROBE_TRIES: u32 = 3;
/// How long an answer that may be there already is looked for once its time is over.
pub const LAST_LOOK_FOR: Duration = Duration::from_millis(250);
/// Longest nap of a clock that waits for an instant: after it, it looks how much is left.
pub const LONGEST_NAP: Duration = Duration::from_secs(3600);
/// Largest step of a wall clock that is followed. A larger one is a jump: it is logged, counted, and not followed.
pub const MAX_CLOCK_STEP: Duration = Duration::from_secs(10);
/// How long an effect without a timeout of its own is taken to be on its way after its worker vanished.
pub const EFFECT_WITHOUT_TIMEOUT: Duration = Duration::from_secs(30);
/// How much longer than its timeout an attempt may be at work: in the network, in a queue of the provider's, and by clocks that differ.
pub const IN_FLIGHT_MARGIN: Duration = Duration::from_secs(5);
/// Pause between the two answers "did not happen" that a probe must give before it is believed.
pub const DENIAL_PAUSE: Duration = Duration::from_secs(2);
/// How long after a probe that could not tell the provider is asked again, while people look into it; twice as long each time.
pub const PROBE_EVERY: Duration = Duration::from_secs(300);
/// Longest pause between two such questions.
pub const MAX_PROBE_PAUSE: Duration = Duration::from_secs(3600);
/// How often the release of a run whose driver panicked is tried if people steer it meanwhile; after that its lease runs out.
pub const RELEASE_TRIES: u32 = 5;
/// Longest rest of a run whose driver panicked, before it is driven again.
pub const MAX_STALLED_PAUSE: Duration = Duration::from_secs(60);
/// Leases in a row that may end without progress before a run is put aside for people.
pub const MAX_STALLS: u32 = 10;
/// Most runs above a run: how deep a family may be, unless the engine is told otherwise.
pub const MAX_CHILD_DEPTH: u32 = 32;
/// Most descendants of one root since it began or last continued as new, unless the engine is told otherwise.
pub const MAX_DESCENDANTS: u64 = 10_000;
/// Most children that one engine starts in a workspace each second, unless it is told otherwise. Those beyond it begin later.
pub const CHILDREN_PER_SECOND: u32 = 1_000;
/// Longest that a child may have to wait for its turn; one that would wait longer is refused.
pub const MAX_CHILD_DELAY: Duration = Duration::from_secs(60);
/// Most workspaces whose pace of children is remembered.
pub const MAX_PACED_WORKSPACES: usize = 10_000;
/// Most members of a cancelled family that one write asks to cancel.
pub const MAX_SWEEP: usize = 200;
/// How often an engine looks for cancelled families that a crash left half swept.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// How long after it was taken in a webhook that nobody has processed counts as forgotten. Servers look for those of a vanished one every few
/// seconds.
pub const HOOK_FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// Most violations one check of a store names; more are counted.
pub const MAX_VIOLATIONS: usize = 1_000;

/// Steps in doubt that are looked at for one list of runs that need attention.
pub const MAX_DOUBTS_LOOKED_AT: usize = 10_000;
