//! Every limit of the server, in one place: a body, a wait or a count without a name here is a bug.

use std::time::Duration;

/// Most things that one explanation (`/api/v1/why`) matches.
pub const MAX_WHY_MATCHES: usize = 20;
/// Most runs of a family that one explanation shows.
pub const MAX_WHY_RUNS: usize = 100;
/// Most ancestors of a run that one explanation follows.
pub const MAX_WHY_ANCESTORS: usize = 16;
/// Most generations of descendants that one explanation shows.
pub const MAX_WHY_DEPTH: u32 = 4;
/// Most recent runs that are searched for a subject.
pub const MAX_WHY_SEARCHED_RUNS: usize = 5_000;
/// Most webhook sources that are searched for an event.
pub const MAX_WHY_SOURCES: usize = 200;
/// Most characters of an output or a failure that a sentence repeats.
pub const MAX_WHY_EXCERPT_CHARS: usize = 160;
/// Most entries of a run's journal that are searched for who paused it.
pub const MAX_WHY_JOURNAL_ENTRIES: usize = 1_000;
/// Longest query of an explanation, in characters.
pub const MAX_WHY_QUERY_CHARS: usize = 512;
/// Most connections at once.
pub const MAX_CONNECTIONS: usize = 4_096;
/// Most connections at once from one address (one /64 network of IPv6).
pub const MAX_CONNECTIONS_PER_ADDRESS: usize = 512;
/// Most connections that are told at once that there is no room; more are closed without a word.
pub const MAX_POLITE_REFUSALS: usize = 64;
/// Longest time spent on telling so.
pub const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time from the first byte of a request to the end of its headers. A watch goes round once in this time, so a
/// slow client may last up to twice as long.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to read a whole body.
pub const BODY_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time that bytes for a client may lie unsent because it does not read, or leaves the window of a stream closed. Streams are
/// looked at once in this time, so one may last up to twice as long.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time a connection may be kept without a request. More than the 60 s of common load balancers, so that they, not
/// we, are the ones to close.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Longest TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that everything in flight, requests, operations and runs, may take to end once the server is told to stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Most of the grace that is kept for what is written last when a server stops; a tenth of it if that is less.
pub const MAX_CLOSING_TIME: Duration = Duration::from_secs(2);
/// Least time to close the store in, whatever is left of the grace.
pub const MIN_CLOSING_TIME: Duration = Duration::from_millis(500);
/// Largest head of a request, in bytes; on HTTP/2, largest header list.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Most headers of a request.
pub const MAX_HEADERS: usize = 100;
/// Longest path and query, in bytes.
pub const MAX_URI_BYTES: usize = 4 * 1024;
/// Most requests at once on one HTTP/2 connection.
pub const MAX_HTTP2_STREAMS: u32 = 128;
/// Most streams that a client may have reset before we took them up; beyond it the connection is closed (rapid reset).
pub const MAX_HTTP2_PENDING_RESETS: usize = 20;
/// Most bytes held back for one HTTP/2 stream that its client does not read.
pub const MAX_HTTP2_SEND_BUFFER: usize = 256 * 1024;
/// Most bytes of the body of one HTTP/2 stream that a client may send before they are read.
pub const HTTP2_STREAM_WINDOW: u32 = 64 * 1024;
/// Most such bytes of one HTTP/2 connection.
pub const HTTP2_CONNECTION_WINDOW: u32 = 256 * 1024;
/// Most bytes of an answer that an HTTP/2 client is handed at a time, and must take within [`WRITE_STALL_TIMEOUT`].
pub const MAX_PIECE_BYTES: usize = 16 * 1024;
/// How often an HTTP/2 client is asked whether it is still there.
pub const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long it may take to say so.
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after the process ran out of file descriptors or memory for sockets; doubles while that lasts.
pub const MIN_ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Longest such pause.
pub const MAX_ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Largest JSON body, in bytes: the largest payload of the engine, and room for what is around it.
pub const MAX_BODY_BYTES: usize = hapax_engine::limits::MAX_PAYLOAD_BYTES + 64 * 1024;
/// Largest body that settles a promise by a token, in bytes: whoever sends it has no credential.
pub const MAX_SETTLE_BODY_BYTES: usize = 64 * 1024;
/// Most bytes of request bodies in memory at once, unless the operator says otherwise; one address may take a quarter of it, one workspace half.
pub const MAX_BODY_BYTES_IN_MEMORY: usize = 128 * 1024 * 1024;
/// Smallest such budget: a quarter of it holds the largest body twice.
pub const MIN_BODY_BYTES_IN_MEMORY: usize = 8 * MAX_BODY_BYTES;
/// What a piece of a body costs beside its bytes, so that many tiny pieces are not free.
pub const BODY_FRAME_OVERHEAD: usize = 64;
/// Longest time that the rest of a body is read and thrown away after its request was answered, so that the client gets to see the answer.
pub const DISCARD_BODY_FOR: Duration = Duration::from_secs(10);
/// Most bytes thrown away like this.
pub const MAX_DISCARDED_BODY_BYTES: usize = 256 * 1024 * 1024;
/// Deepest nesting of a JSON body, the same as that of a payload.
pub const MAX_JSON_DEPTH: usize = hapax_engine::limits::MAX_PAYLOAD_DEPTH;
/// Most values, keys included, in a JSON body: parsed, each costs about a hundred bytes.
pub const MAX_JSON_VALUES: usize = 200_000;
/// Longest key of a JSON object, in bytes of its text.
pub const MAX_JSON_KEY_BYTES: usize = 4 * 1024;
/// Longest number, in characters; every 64-bit integer and float has a shorter spelling.
pub const MAX_NUMBER_CHARS: usize = 400;
/// Longest part of what was sent that an error text repeats, in characters.
pub const MAX_ECHO_CHARS: usize = 120;

/// Longest cursor accepted, in characters.
pub const MAX_CURSOR_CHARS: usize = 1_024;

/// Most addresses or key ids that a limiter remembers; beyond it the least recently seen are forgotten.
pub const MAX_RATE_LIMIT_ENTRIES: usize = 16_384;
/// Failed authentications in a burst, per address.
pub const FAILED_AUTH_BURST_PER_ADDRESS: u32 = 20;
/// Failed authentications in a burst, per key id.
pub const FAILED_AUTH_BURST_PER_KEY: u32 = 10;
/// Time after which one more failed authentication is forgiven.
pub const FAILED_AUTH_REFILL: Duration = Duration::from_secs(6);
/// Smallest buffer that HTTP/1 can be read with.
pub const MIN_HTTP1_BUFFER: usize = 8 * 1024;

/// How often a run that moves while it is read is read again, to show it as it was at one moment.
pub const SHOW_TRIES: u32 = 5;
/// How long a settle token works unless it is said.
pub const SETTLE_TOKEN_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// The longest that one may work.
pub const MAX_SETTLE_TOKEN_FOR: Duration = Duration::from_secs(90 * 24 * 3600);
/// When to come again if the store could not be reached.
pub const STORE_RETRY_AFTER_SECONDS: u64 = 1;
/// How often it is tried whether the store takes writes.
pub const STORE_PROBE_EVERY: Duration = Duration::from_secs(5);
/// Longest time that such a write may take before the store counts as one that takes none.
pub const STORE_PROBE_PATIENCE: Duration = Duration::from_secs(5);
/// How large such a write is, beside what is around it: enough to need room of its own.
pub const STORE_PROBE_BYTES: usize = 4 * 1024;
/// Most credentials of a workspace, revoked ones included.
pub const MAX_CREDENTIALS_PER_WORKSPACE: usize = 1_000;
/// Longest time that the secret before a rotation may still count.
pub const MAX_KEY_OVERLAP: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a credential is remembered before it is looked up again: the longest time a revocation takes to count on other nodes.
pub const CREDENTIAL_CACHE_FOR: Duration = Duration::from_secs(2);
/// Most credentials remembered at once.
pub const MAX_CACHED_CREDENTIALS: usize = 10_000;
/// How exactly it is known when a credential was last used.
pub const LAST_USED_RESOLUTION: Duration = Duration::from_secs(3600);
/// Largest document, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 512 * 1024;
/// How often a node looks for what other nodes were given: definitions, entity workflows, webhook sources and subscriptions. Within five seconds a
/// change counts everywhere.
pub const CATALOG_POLL: Duration = Duration::from_secs(1);
/// How much further back than the last look that look goes: longer than any write takes to become visible.
pub const CATALOG_OVERLAP: Duration = Duration::from_secs(60);
/// Most definitions of one installation unless the operator says otherwise: each claim looks for due runs of each.
pub const MAX_DEFINITIONS: usize = 2_000;
/// Most definitions of a workspace unless the operator says otherwise, so that one cannot take the room of all.
pub const MAX_DEFINITIONS_PER_WORKSPACE: usize = 500;
/// Open runs are counted up to here when they keep a definition from being deleted.
pub const MAX_COUNTED_OPEN_RUNS: usize = 1_000;
/// Most workflows, tasks and actions that workers of a workspace have offered, ever.
pub const MAX_WORKER_NAMES_PER_WORKSPACE: usize = 2_000;
/// Most subscriptions of a workspace; deleted ones do not count.
pub const MAX_SUBSCRIPTIONS_PER_WORKSPACE: usize = 50;
/// Most subscriptions of one installation: each look for due deliveries looks for each.
pub const MAX_SUBSCRIPTIONS: usize = 1_000;
/// How long what still waits for a deleted subscription is looked for, to be given up: longer than any pause between two attempts.
pub const BURY_DELETED_FOR: Duration = Duration::from_secs(3 * 24 * 3600);
/// Most webhooks on their way to one subscription at once.
pub const DELIVERIES_AT_ONCE: usize = 8;
/// Longest time that one attempt to send a webhook may take.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest address of a subscription, in characters.
pub const MAX_WEBHOOK_URL_CHARS: usize = 2_048;
/// Longest description of a subscription, or reason for a change of one or of a webhook source, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// How long the secret before a rotation signs alongside, unless told otherwise.
pub const SECRET_OVERLAP: Duration = Duration::from_secs(24 * 3600);
/// Longest time that it may.
pub const MAX_SECRET_OVERLAP: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest text that tells what came of a test, in characters.
pub const MAX_TEST_DETAIL_CHARS: usize = 1_024;
/// Most pages that a list of deliveries looks through for those of webhooks, before it hands out a page that is not full.
pub const MAX_DELIVERY_LOOKS: usize = 5;
/// Most deliveries that one request may have sent once more, or forgotten.
pub const MAX_SETTLED_AT_ONCE: usize = 100;
/// Shortest secret that a sealing key is made from, in bytes.
pub const MIN_SEALING_SECRET_BYTES: usize = 32;
/// Largest webhook that is taken in, in bytes.
pub const MAX_WEBHOOK_BYTES: usize = hapax_documents::limits::MAX_EVENT_BYTES;
/// When the sender of a webhook is asked to come again if a secret of its source cannot be read.
pub const WEBHOOK_RETRY_AFTER_SECONDS: u64 = 5;
/// How long the sender of a webhook waits for it to be processed; past that it is told that it was received. Slack gives three seconds in all.
pub const PROCESS_WEBHOOK_WITHIN: Duration = Duration::from_secs(2);
/// How long an event may lie unprocessed before another takes it up: longer than whoever took it in needs.
pub const SWEEP_WEBHOOKS_AFTER: Duration = Duration::from_secs(10);
/// How often such events are looked for.
pub const SWEEP_WEBHOOKS_EVERY: Duration = Duration::from_secs(2);
/// Most that are taken up at once.
pub const SWEEP_WEBHOOKS_AT_ONCE: usize = 50;
/// How often an event is taken up that cannot be processed, before it has failed.
pub const MAX_WEBHOOK_SWEEPS: u32 = 18;
/// Longest pause between two of these times; the first is [`SWEEP_WEBHOOKS_AFTER`], and each is twice the one before.
pub const LONGEST_WEBHOOK_PAUSE: Duration = Duration::from_secs(600);
/// Most events that are read from the store at once, each with its body.
pub const WEBHOOKS_READ_AT_ONCE: usize = 20;
/// Most events that one request may have processed again.
pub const MAX_REPROCESSED_WEBHOOKS: usize = 100;
/// Most actions that are remembered of an event beside those of its source as it is now.
pub const MAX_EARLIER_ACTIONS: usize = 32;
/// Most webhook sources of a workspace; deleted ones do not count.
pub const MAX_SOURCES_PER_WORKSPACE: usize = 100;
/// Most names that webhook sources of a workspace ever had, those of deleted ones included.
pub const MAX_SOURCE_NAMES_PER_WORKSPACE: usize = 1_000;
/// Most webhook sources of one installation.
pub const MAX_SOURCES: usize = 2_000;
/// Most series of sources that metrics tell apart; the others are counted together.
pub const MAX_SOURCE_SERIES: usize = 5_000;
/// Most entity workflows of a workspace.
pub const MAX_ENTITY_WORKFLOWS_PER_WORKSPACE: usize = 100;
/// Most entity workflows of one installation.
pub const MAX_ENTITY_WORKFLOWS: usize = 2_000;
/// How long a request waits for the action of its step, unless `Prefer: wait=N` says otherwise.
pub const STEP_WAIT: Duration = hapax_http_idempotency::limits::MAX_WAIT;
/// Most workspaces whose operations in doubt are counted for metrics.
pub const MAX_WORKSPACES_MEASURED: usize = 200;
/// Most paused runs of a workspace that are looked at for metrics, the newest first.
pub const MAX_PAUSED_MEASURED: usize = 100;
/// Most live streams of one credential.
pub const MAX_STREAMS_PER_CREDENTIAL: usize = 32;
/// Most live streams.
pub const MAX_STREAMS: usize = 1_024;
/// How soon after a change a live stream looks again.
pub const STREAM_POLL: Duration = Duration::from_millis(100);
/// How long it may go without looking.
pub const STREAM_POLL_MAX: Duration = Duration::from_secs(2);
/// How often a live stream that has nothing to tell shows that it is alive.
pub const STREAM_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long one live stream lasts; the client then comes again and goes on where it was.
pub const STREAM_LIFETIME: Duration = Duration::from_secs(3600);

/// How long figures about the store are shown again before it is asked anew, however often somebody scrapes.
pub const STORE_FIGURES_KEPT_FOR: Duration = Duration::from_secs(1);
/// Longest time that a scrape waits for the store.
pub const STORE_FIGURES_PATIENCE: Duration = Duration::from_secs(3);
/// Most credentials whose use of keys is told apart in metrics; the others are counted together.
pub const MAX_CREDENTIAL_SERIES: usize = 1_000;
/// How often it is written how run keys were used.
pub const KEY_USES_FLUSHED_EVERY: Duration = Duration::from_secs(1);
/// Most run keys whose uses wait to be written.
pub const MAX_PENDING_KEY_USES: usize = 10_000;

/// Longest line of a log, in bytes, its end included.
pub const MAX_LOG_LINE_BYTES: usize = 1_024;
/// Longest value on a line of a log, in bytes before quoting.
pub const MAX_LOG_VALUE_BYTES: usize = 400;

/// Most spans that wait to be exported; beyond it they are dropped and counted.
pub const MAX_PENDING_SPANS: usize = 8_192;
/// Most spans in one export.
pub const MAX_SPANS_PER_EXPORT: usize = 512;
/// Longest time that a span waits for others to be exported with.
pub const SPAN_EXPORT_EVERY: Duration = Duration::from_secs(1);
/// Longest time that one export may take.
pub const SPAN_EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most attributes of one span.
pub const MAX_SPAN_ATTRIBUTES: usize = 32;
/// Longest attribute of a span, in bytes.
pub const MAX_SPAN_ATTRIBUTE_BYTES: usize = 1_024;

/// Most secrets of a document that the audit log names.
pub const MAX_NOTED_SECRETS: usize = 16;
