//! All limits of the server. A body, a wait or a count without a named limit is a bug.

use std::num::NonZeroU32;
use std::time::Duration;

/// Most objects that one explanation (`/api/v1/why`) matches.
pub const MAX_WHY_MATCHES: usize = 20;
/// Most runs of a family that one explanation shows.
pub const MAX_WHY_RUNS: usize = 100;
/// Most ancestors of a run that one explanation follows.
pub const MAX_WHY_ANCESTORS: usize = 16;
/// Most generations of descendants that one explanation shows.
pub const MAX_WHY_DEPTH: u32 = 4;
/// Most webhook sources that are searched for an event.
pub const MAX_WHY_SOURCES: usize = 200;
/// Most characters of an output or a failure that a sentence repeats.
pub const MAX_WHY_EXCERPT_CHARS: usize = 160;
/// Most entries of a run's journal that are searched for the person who paused it.
pub const MAX_WHY_JOURNAL_ENTRIES: usize = 1_000;
/// Longest query of an explanation, in characters.
pub const MAX_WHY_QUERY_CHARS: usize = 512;
/// More than a run takes in JSON, in bytes, without its input.
pub const MAX_RUN_WITHOUT_INPUT: usize = 16 * 1024;
/// Most connections at once.
pub const MAX_CONNECTIONS: usize = 4_096;
/// Most connections at once from one address (one /64 network of IPv6).
pub const MAX_CONNECTIONS_PER_ADDRESS: usize = 512;
/// Most connections that get a "no room" response at once; further ones are closed without a
/// response.
pub const MAX_POLITE_REFUSALS: usize = 64;
/// Longest time to send that response.
pub const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time from the first byte of a request to the end of its headers, and from the opening of
/// a connection to the end of its first head.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to read a whole body.
pub const BODY_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time that bytes may wait because the client does not read, or leaves the window of a
/// stream closed. Streams are checked once in this time, so one may last up to twice as long.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time a connection may be kept without a request. More than the 60 s of common load
/// balancers, so that they close connections first.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Longest TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the files of the certificate are looked at. A renewed certificate is used after that.
pub const TLS_RELOAD_EVERY: Duration = Duration::from_secs(10);
/// Longest time for everything in flight (requests, operations and runs) to end after the shutdown
/// signal.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for attempts of workers to end before the server stops to listen; a quarter of the drain time if that is
/// less.
pub const MAX_WIND_DOWN: Duration = Duration::from_secs(5);
/// Most of the drain time that is reserved for the last writes; a tenth of it if that is less.
pub const MAX_CLOSING_TIME: Duration = Duration::from_secs(2);
/// Least time to close the store in, even if the drain time is used up.
pub const MIN_CLOSING_TIME: Duration = Duration::from_millis(500);
/// Largest head of a request, in bytes; on HTTP/2, largest header list.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Most headers of a request.
pub const MAX_HEADERS: usize = 100;
/// Longest path and query, in bytes.
pub const MAX_URI_BYTES: usize = 4 * 1024;
/// Most requests at once on one HTTP/2 connection.
pub const MAX_HTTP2_STREAMS: u32 = 128;
/// Most streams that a client may reset before the server accepts them; beyond it the connection is
/// closed (rapid reset).
pub const MAX_HTTP2_PENDING_RESETS: usize = 20;
/// Most bytes buffered for one HTTP/2 stream that its client does not read.
pub const MAX_HTTP2_SEND_BUFFER: usize = 256 * 1024;
/// Most bytes of the body of one HTTP/2 stream that a client may send before they are read.
pub const HTTP2_STREAM_WINDOW: u32 = 64 * 1024;
/// Most such bytes of one HTTP/2 connection.
pub const HTTP2_CONNECTION_WINDOW: u32 = 256 * 1024;
/// Most bytes of a response that an HTTP/2 client gets at a time, and must take within
/// [`WRITE_STALL_TIMEOUT`].
pub const MAX_PIECE_BYTES: usize = 16 * 1024;
/// Interval between HTTP/2 pings.
pub const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);
/// Longest wait for the answer to a ping.
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after the process ran out of file descriptors or memory for sockets; doubles while that lasts.
pub const MIN_ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Longest such pause.
pub const MAX_ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Interval at which a node publishes its address for other nodes.
pub const PUBLISH_NODE_EVERY: Duration = Duration::from_secs(5);
/// How long a published address is used. After it, sessions of that node count as over.
pub const NODE_LIVES_FOR: Duration = Duration::from_secs(15);
/// Most nodes that are asked for their part of a list.
pub const MAX_NODES: usize = 64;
/// Most sessions that are shown for one version of a workflow.
pub const MAX_SHOWN_SESSIONS: usize = 100;
/// Most pages of sessions that are read to tell who offers which version.
pub const MAX_SESSION_PAGES: usize = 100;
/// Longest time to connect to another node.
pub const FORWARD_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time of a forwarded request: a poll waits for a while.
pub const FORWARD_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait for what another node adds to a list, or for it to learn of a session.
pub const ASK_NODES_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest answer of another node, in bytes: its messages, and one that is larger than all of them may be.
pub const MAX_FORWARDED_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// Largest JSON body, in bytes: the largest payload of the engine plus its envelope.
pub const MAX_BODY_BYTES: usize = hapax_engine::limits::MAX_PAYLOAD_BYTES + 64 * 1024;
/// Most push workers of a workspace.
pub const MAX_PUSH_WORKERS_PER_WORKSPACE: usize = 100;
/// Requests to a push worker at once from one node, if it does not say how many.
pub const DEFAULT_PUSH_CONCURRENCY: u32 = 16;
/// Most requests to a push worker at once from one node.
pub const MAX_PUSH_CONCURRENCY: u32 = 256;
/// Longest time that a request to a push worker may take, if it does not say how long.
pub const PUSH_TIMEOUT: Duration = Duration::from_secs(60);
/// Shortest time limit of requests to a push worker.
pub const MIN_PUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time limit of requests to a push worker.
pub const MAX_PUSH_TIMEOUT: Duration = Duration::from_secs(900);
/// How much larger than the JSON a message of gRPC may be.
pub const MAX_GRPC_OVERHEAD_BYTES: usize = 64 * 1024;
/// Largest body that settles a promise by a token, in bytes; the caller has no credential.
pub const MAX_SETTLE_BODY_BYTES: usize = 64 * 1024;
/// Default for the most bytes of request bodies in memory at once; one address may use a quarter of
/// it, one workspace half.
pub const MAX_BODY_BYTES_IN_MEMORY: usize = 128 * 1024 * 1024;
/// Smallest such budget: a quarter of it holds the largest body twice.
pub const MIN_BODY_BYTES_IN_MEMORY: usize = 8 * MAX_BODY_BYTES;
/// Cost of a body frame beside its bytes, so that many tiny frames are not free.
pub const BODY_FRAME_OVERHEAD: usize = 64;
/// Longest time to read and drop the rest of a body after the response, so that the client sees the
/// response.
pub const DISCARD_BODY_FOR: Duration = Duration::from_secs(10);
/// Most bytes dropped in this way.
pub const MAX_DISCARDED_BODY_BYTES: usize = 256 * 1024 * 1024;
/// Deepest nesting of a JSON body, the same as for a payload.
pub const MAX_JSON_DEPTH: usize = hapax_engine::limits::MAX_PAYLOAD_DEPTH;
/// Most values, keys included, in a JSON body: parsed, each costs about a hundred bytes.
pub const MAX_JSON_VALUES: usize = 200_000;
/// Longest key of a JSON object, in bytes of its text.
pub const MAX_JSON_KEY_BYTES: usize = 4 * 1024;
/// Longest number, in characters; every 64-bit integer and float has a shorter spelling.
pub const MAX_NUMBER_CHARS: usize = 400;
/// Longest excerpt of a request in an error text, in characters.
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

/// How often a run that changes during a read is read again, to show a consistent state.
pub const SHOW_TRIES: u32 = 5;
/// Default lifetime of a settle token.
pub const SETTLE_TOKEN_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest lifetime of a settle token.
pub const MAX_SETTLE_TOKEN_FOR: Duration = Duration::from_secs(90 * 24 * 3600);
/// Default lifetime of an action token.
pub const ACTION_TOKEN_FOR: Duration = Duration::from_secs(10 * 60);
/// Longest lifetime of an action token.
pub const MAX_ACTION_TOKEN_FOR: Duration = Duration::from_secs(3600);
/// Longest action token.
pub const MAX_ACTION_TOKEN_CHARS: usize = 4_096;
/// Wait before a retry if the store is unreachable.
pub const STORE_RETRY_AFTER_SECONDS: u64 = 1;
/// Interval between probe writes to the store.
pub const STORE_PROBE_EVERY: Duration = Duration::from_secs(5);
/// Longest time for a probe write before the store counts as read-only.
pub const STORE_PROBE_PATIENCE: Duration = Duration::from_secs(5);
/// Size of a probe write, without its envelope: enough to need space of its own.
pub const STORE_PROBE_BYTES: usize = 4 * 1024;
/// Most credentials of a workspace, revoked ones included.
pub const MAX_CREDENTIALS_PER_WORKSPACE: usize = 1_000;
/// Longest time that the secret before a rotation stays valid.
pub const MAX_KEY_OVERLAP: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a credential is cached: the longest time a revocation takes to reach other nodes.
pub const CREDENTIAL_CACHE_FOR: Duration = Duration::from_secs(2);
/// Most credentials remembered at once.
pub const MAX_CACHED_CREDENTIALS: usize = 10_000;
/// Precision of a credential's last use.
pub const LAST_USED_RESOLUTION: Duration = Duration::from_secs(3600);
/// Largest document, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 512 * 1024;
/// Interval at which a node reads changes of other nodes: definitions, entity workflows, webhook
/// sources and subscriptions. A change takes effect everywhere within five seconds.
pub const CATALOG_POLL: Duration = Duration::from_secs(1);
/// Overlap between two reads of the catalog: longer than any write takes to become visible.
pub const CATALOG_OVERLAP: Duration = Duration::from_secs(60);
/// Default for the most definitions of one installation; each claim looks for due runs of each.
pub const MAX_DEFINITIONS: usize = 2_000;
/// Default for the most definitions of a workspace, so that one cannot use the room of all.
pub const MAX_DEFINITIONS_PER_WORKSPACE: usize = 500;
/// Most open runs that are counted when they keep a definition from being deleted.
pub const MAX_COUNTED_OPEN_RUNS: usize = 1_000;
/// Most workflows, tasks and actions that workers of a workspace have offered, ever.
pub const MAX_WORKER_NAMES_PER_WORKSPACE: usize = 2_000;
/// Most subscriptions of a workspace; deleted ones do not count.
pub const MAX_SUBSCRIPTIONS_PER_WORKSPACE: usize = 50;
/// Most subscriptions of one installation; each scan for due deliveries covers all of them.
pub const MAX_SUBSCRIPTIONS: usize = 1_000;
/// How long waiting deliveries of a deleted subscription are still collected, to be given up:
/// longer than any pause between two attempts.
pub const BURY_DELETED_FOR: Duration = Duration::from_secs(3 * 24 * 3600);
/// Most webhooks on their way to one subscription at once.
pub const DELIVERIES_AT_ONCE: usize = 8;
/// Longest time that one attempt to send a webhook may take.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest address of a subscription, in characters.
pub const MAX_WEBHOOK_URL_CHARS: usize = 2_048;
/// Longest description of a subscription, or reason for a change of one or of a webhook source, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// Default time that the secret before a rotation also signs.
pub const SECRET_OVERLAP: Duration = Duration::from_secs(24 * 3600);
/// Longest time that it also signs.
pub const MAX_SECRET_OVERLAP: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest text about the result of a test, in characters.
pub const MAX_TEST_DETAIL_CHARS: usize = 1_024;
/// Most pages of deliveries that one request searches before it returns a page that is not full.
pub const MAX_DELIVERY_LOOKS: usize = 5;
/// Most deliveries that one request may redeliver or discard.
pub const MAX_SETTLED_AT_ONCE: usize = 100;
/// Shortest secret that a sealing key is made from, in bytes.
pub const MIN_SEALING_SECRET_BYTES: usize = 32;
/// Largest webhook that is accepted, in bytes.
pub const MAX_WEBHOOK_BYTES: usize = hapax_documents::limits::MAX_EVENT_BYTES;
/// Wait before the sender of a webhook should retry if a secret of its source cannot be read.
pub const WEBHOOK_RETRY_AFTER_SECONDS: u64 = 5;
/// How long the response to a webhook waits for processing; after that it is `received`. Slack
/// allows three seconds in all.
pub const PROCESS_WEBHOOK_WITHIN: Duration = Duration::from_secs(2);
/// Age of an unprocessed event before another task takes it: longer than the receiving task needs.
pub const SWEEP_WEBHOOKS_AFTER: Duration = Duration::from_secs(10);
/// Interval between sweeps.
pub const SWEEP_WEBHOOKS_EVERY: Duration = Duration::from_secs(2);
/// Most events per sweep.
pub const SWEEP_WEBHOOKS_AT_ONCE: usize = 50;
/// How often processing an event is tried before it counts as failed.
pub const MAX_WEBHOOK_SWEEPS: u32 = 18;
/// Longest pause between two tries; the first is [`SWEEP_WEBHOOKS_AFTER`], and each is twice the
/// one before.
pub const LONGEST_WEBHOOK_PAUSE: Duration = Duration::from_secs(600);
/// Most events that are read from the store at once, each with its body.
pub const WEBHOOKS_READ_AT_ONCE: usize = 20;
/// Most events that one request may reprocess.
pub const MAX_REPROCESSED_WEBHOOKS: usize = 100;
/// Most actions of earlier versions of its source that an event remembers.
pub const MAX_EARLIER_ACTIONS: usize = 32;
/// Most webhook sources of a workspace; deleted ones do not count.
pub const MAX_SOURCES_PER_WORKSPACE: usize = 100;
/// Most names of webhook sources that a workspace ever had, including deleted sources.
pub const MAX_SOURCE_NAMES_PER_WORKSPACE: usize = 1_000;
/// Most webhook sources of one installation.
pub const MAX_SOURCES: usize = 2_000;
/// Most metric series of sources; the other sources are counted together.
pub const MAX_SOURCE_SERIES: usize = 5_000;
/// Most entity workflows of a workspace.
pub const MAX_ENTITY_WORKFLOWS_PER_WORKSPACE: usize = 100;
/// Most entity workflows of one installation.
pub const MAX_ENTITY_WORKFLOWS: usize = 2_000;
/// How long a request waits for the action of its step, unless `Prefer: wait=N` says otherwise.
pub const STEP_WAIT: Duration = hapax_http_idempotency::limits::MAX_WAIT;
/// Most paused runs of a workspace that metrics read, the newest first.
pub const MAX_WORKSPACES_MEASURED: usize = 200;
/// Most paused runs of a workspace that are looked at for metrics, the newest first.
pub const MAX_PAUSED_MEASURED: usize = 100;
/// Default quota of a workspace: requests per second on each node. More than a small node can do, so that a workspace alone
/// on it is not slowed down; operators of many workspaces set it lower.
pub const WORKSPACE_REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(100_000).expect("not 0");
/// Default quota of a workspace: requests in progress on each node, half of the connections.
pub const WORKSPACE_REQUESTS_AT_ONCE: usize = MAX_CONNECTIONS / 2;
/// Default quota of a workspace: starts of runs per second on each node, for the same reason.
pub const WORKSPACE_STARTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(100_000).expect("not 0");
/// Default quota of a workspace: live streams on each node, a quarter of them.
pub const WORKSPACE_STREAMS: usize = MAX_STREAMS / 4;
/// Default quota of a workspace: runs that have not ended.
pub const WORKSPACE_OPEN_RUNS: usize = 1_000_000;
/// How often the open runs of a workspace are counted. In between, starts of this node are added.
pub const OPEN_RUNS_COUNTED_EVERY: Duration = Duration::from_secs(30);
/// The same while the workspace is at its quota.
pub const OPEN_RUNS_COUNTED_WHEN_FULL_EVERY: Duration = Duration::from_secs(1);
/// Most workspaces with metric series of their own for quotas.
pub const MAX_QUOTA_SERIES: usize = 500;
/// Most live streams of one credential.
pub const MAX_STREAMS_PER_CREDENTIAL: usize = 32;
/// Delay before a live stream reads again after a change.
pub const MAX_STREAMS: usize = 1_024;
/// Longest time without a read.
pub const STREAM_POLL: Duration = Duration::from_millis(100);
/// Interval of keep-alives on a live stream without events.
pub const STREAM_POLL_MAX: Duration = Duration::from_secs(2);
/// Lifetime of one live stream; the client then reconnects and continues where it was.
pub const STREAM_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long one live stream lasts; the client then comes again and goes on where it was.
pub const STREAM_LIFETIME: Duration = Duration::from_secs(3600);

/// How long figures about the store are cached, however often they are scraped.
pub const STORE_FIGURES_KEPT_FOR: Duration = Duration::from_secs(1);
/// Longest time that a scrape waits for the store.
pub const STORE_FIGURES_PATIENCE: Duration = Duration::from_secs(3);
/// Most credentials with metric series of their own; the others are counted together.
pub const MAX_CREDENTIAL_SERIES: usize = 1_000;
/// Interval for writing the use of run keys.
pub const KEY_USES_FLUSHED_EVERY: Duration = Duration::from_secs(1);
/// Most run keys whose uses wait to be written.
pub const MAX_PENDING_KEY_USES: usize = 10_000;

/// Longest line of a log, in bytes, its end included.
pub const MAX_LOG_LINE_BYTES: usize = 1_024;
/// Longest value on a line of a log, in bytes before quoting.
pub const MAX_LOG_VALUE_BYTES: usize = 400;

/// Most spans that wait for export; beyond it spans are dropped and counted.
pub const MAX_PENDING_SPANS: usize = 8_192;
/// Most spans in one export.
pub const MAX_SPANS_PER_EXPORT: usize = 512;
/// Longest time that a span waits for a batch.
pub const SPAN_EXPORT_EVERY: Duration = Duration::from_secs(1);
/// Longest time that one export may take.
pub const SPAN_EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most attributes of one span.
pub const MAX_SPAN_ATTRIBUTES: usize = 32;
/// Longest attribute of a span, in bytes.
pub const MAX_SPAN_ATTRIBUTE_BYTES: usize = 1_024;

/// Most secrets of a document that the audit log names.
pub const MAX_NOTED_SECRETS: usize = 16;

/// How long a link that signs in to the console counts.
pub const SIGN_IN_LINK_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Links that sign in to the console, at most.
pub const MAX_SIGN_IN_LINKS: usize = 100;
/// How exactly it is written down when a session of the console was last used.
pub const SESSION_SEEN_RESOLUTION: Duration = Duration::from_secs(60);

/// Most identity providers.
pub const MAX_IDENTITY_PROVIDERS: usize = 20;
/// Most rules of one identity provider.
pub const MAX_PEOPLE_RULES: usize = 500;
/// Most keys of an identity provider that are read.
pub const MAX_IDENTITY_KEYS: usize = 50;
/// Largest response of an identity provider, in bytes.
pub const MAX_IDENTITY_ANSWER_BYTES: usize = 512 * 1024;
/// Longest request to an identity provider.
pub const IDENTITY_PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);
/// Age at which the keys of an identity provider are read again.
pub const IDENTITY_KEYS_REFRESHED_AFTER: Duration = Duration::from_secs(10 * 60);
/// How long they count if the provider does not answer.
pub const IDENTITY_KEYS_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);
/// Shortest time between two attempts to read them, and between two searches for an unknown key.
pub const IDENTITY_RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Difference between the clocks of this server and of an identity provider that is tolerated.
pub const TOKEN_CLOCK_SKEW: Duration = Duration::from_secs(60);
/// Longest token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 14 * 1024;
/// Longest subject of a token, in characters.
pub const MAX_SUBJECT_CHARS: usize = 255;
/// Most values of a person's role claim that are kept.
pub const MAX_CLAIM_VALUES: usize = 50;
/// Longest of them, in characters.
pub const MAX_CLAIM_VALUE_CHARS: usize = 256;
/// How long a sign-in at an identity provider may take.
pub const SIGN_IN_FOR: Duration = Duration::from_secs(10 * 60);
/// Largest cookie of a sign-in that is read, in bytes.
pub const MAX_SIGN_IN_COOKIE_BYTES: usize = 8 * 1024;
/// Longest code of an identity provider, in bytes.
pub const MAX_CODE_BYTES: usize = 4 * 1024;
/// Most used states of sign-ins that a node remembers.
pub const MAX_USED_STATES: usize = 1_000;
/// Shortest time between two entries of the audit log about refused sign-ins; one entry covers all in between.
pub const REFUSED_SIGN_INS_EVERY: Duration = Duration::from_secs(60);
/// Most refused sign-ins that one entry describes; it counts the others.
pub const MAX_REFUSED_SIGN_INS_DESCRIBED: usize = 5;
/// Largest response that is masked, in bytes: a page of runs, each with the largest payloads.
pub const MAX_MASKED_BYTES: usize = 512 * 1024 * 1024;
/// Most routes that a credential is bound to.
pub const MAX_ROUTES_PER_CREDENTIAL: usize = 50;
/// Most networks that a credential is bound to.
pub const MAX_NETWORKS_PER_CREDENTIAL: usize = 50;
