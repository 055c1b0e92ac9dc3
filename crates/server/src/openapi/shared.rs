//! Parameters and headers that many operations have, described once.

use hapax_api::{DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS};
use hapax_engine::limits::MAX_KEY_CHARS;
use serde_json::{Map, Value, json};

/// Characters of a key.
const PRINTABLE_ASCII: &str = "^[ -~]+$";

/// A parameter of the path: where it occurs, its name there, its name in the description, its meaning, an example.
type PathParameter = (&'static str, &'static str, &'static str, &'static str, &'static str);

const RUN: &str = "run_01997c2e5b7a7c3f8d21a4e6b9c0d312";

/// The longest prefix of a path that has the name decides.
const PATH_PARAMETERS: &[PathParameter] = &[
    (
        "/api/v1/worker-sessions",
        "id",
        "WorkerSessionId",
        "Id of the session.",
        "wks_0f3c5a7e9b1d2f4a6c8e0b2d4f6a8c0e",
    ),
    (
        "/api/v1/worker-sessions",
        "run",
        "WorkerRunId",
        "Id of the run.",
        "run_019ac3d2f8e87d3ab0c1d2e3f4a5b6c7",
    ),
    (
        "/api/v1/push-workers",
        "id",
        "PushWorkerId",
        "Id of the push worker.",
        "psh_3e5f70a1b2c3d4e5f607184b1f2a6c8d",
    ),
    ("/api/v1/workflow-runs", "id", "RunId", "Id of the run.", RUN),
    (
        "/api/v1/workflow-runs",
        "step",
        "ApprovalStep",
        "Name of the approval step. In a `for_each`, add the position of the item: `sign-off.2`.",
        "sign-off",
    ),
    (
        "/api/v1/workflow-definitions",
        "id",
        "DefinitionId",
        "Id of the definition.",
        "def_4b1f2a6c8d3e5f70a1b2c3d4e5f60718",
    ),
    ("/api/v1/doubts", "run", "DoubtRun", "Id of the run.", RUN),
    ("/api/v1/doubts", "step", "DoubtStep", "Id of the step in doubt.", "charge"),
    (
        "/api/v1/ledger",
        "key",
        "EffectKey",
        "Idempotency key of the effect, percent-encoded.",
        "run_01997c2e5b7a7c3f8d21a4e6b9c0d312:charge",
    ),
    ("/api/v1/audit", "id", "AuditEntryId", "Id of the entry.", "aud_1767225600000_42"),
    (
        "/api/v1/early-settlements",
        "key",
        "EarlySettlementKey",
        "Key of the promise to come, percent-encoded.",
        "carrier:ch_19",
    ),
    ("/api/v1/keys", "scope", "KeyScope", "Kind of key: `run`, `promise`, `operation` or `request`.", "run"),
    ("/api/v1/keys", "key", "Key", "The key, percent-encoded.", "order-4711"),
    ("/api/v1/workspaces", "id", "WorkspaceId", "Name of the workspace.", "acme"),
    ("/api/v1/credentials", "id", "CredentialId", "Id of the credential.", "cred_7Hq2ZkX9vB1n"),
    (
        "/api/v1/webhook-subscriptions",
        "id",
        "SubscriptionId",
        "Id of the subscription.",
        "sub_01997c2e5b7a7c3f8d21a4e6b9c0d312",
    ),
    (
        "/api/v1/webhook-deliveries",
        "id",
        "DeliveryId",
        "Id of the delivery, percent-encoded.",
        "run_01997c2e5b7a7c3f8d21a4e6b9c0d312:~run.completed~0~webhook.sub_01997c2e",
    ),
    ("/api/v1/webhook-sources", "name", "SourceName", "Name of the source.", "stripe"),
    (
        "/api/v1/webhook-sources",
        "id",
        "SourceId",
        "Id of the source.",
        "whk_01997c2e5b7a7c3f8d21a4e6b9c0d312",
    ),
    (
        "/api/v1/webhooks/{source}",
        "source",
        "SourceAddress",
        "Id of the source, as in the `path` of the source.",
        "whk_01997c2e5b7a7c3f8d21a4e6b9c0d312",
    ),
    ("/api/v1/webhooks", "workspace", "SourceWorkspace", "Workspace of the source.", "acme"),
    ("/api/v1/webhooks", "name", "SourceOfWorkspace", "Name of the source.", "stripe"),
    ("/api/v1/webhook-events", "source", "EventSource", "Name of the source.", "stripe"),
    (
        "/api/v1/webhook-events",
        "event",
        "EventId",
        "Id that the provider gave the event, percent-encoded.",
        "evt_1NG8Du2eZvKYlo2C",
    ),
    ("/api/v1/entity-workflows", "name", "EntityWorkflowName", "Name of the entity workflow.", "billing"),
    (
        "/api/v1/entities",
        "type",
        "EntityType",
        "Type of entity, as `entity` of its workflow says.",
        "invoice",
    ),
    ("/api/v1/entities", "id", "EntityId", "Id of the entity.", "inv-2024-117"),
    ("/api/v1/entities", "stepKey", "StepKey", "Key of the step.", "close"),
    (
        "/api/v1/operations",
        "id",
        "OperationId",
        "Id of the operation.",
        "op_01997c2e5b7a7c3f8d21a4e6b9c0d312",
    ),
    (
        "/api/v1/promises",
        "ref",
        "PromiseRef",
        "`id:` and the id of the promise, or `key:` and its business key, percent-encoded.",
        "key:carrier:ch_19",
    ),
    (
        "/api/tenants",
        "ref",
        "TenantPromiseRef",
        "`id:` and the id of the promise, or `key:` and its business key, percent-encoded.",
        "key:carrier:ch_19",
    ),
    ("/api/tenants", "slug", "Tenant", "Name of the workspace of your credential.", "acme"),
    ("/settle", "token", "SettleToken", "The settle token.", "hps_example"),
    ("/promises", "id", "DurablePromiseId", "Id of the promise, percent-encoded.", "invoice-4711"),
];

/// Name of the shared parameter for `name` in `path`.
pub(crate) fn path_parameter(path: &str, name: &str) -> Option<&'static str> {
    let fitting = PATH_PARAMETERS.iter().filter(|row| path.starts_with(row.0) && row.1 == name);
    fitting.max_by_key(|row| row.0.len()).map(|row| row.2)
}

/// Names in braces, in order.
pub(crate) fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Every shared parameter by its name in the description.
pub(crate) fn parameters() -> Map<String, Value> {
    let header = |name: &str, about: &str, schema: Value| json!({ "name": name, "in": "header", "required": false, "description": about, "schema": schema });
    let query = |name: &str, about: &str, schema: Value| json!({ "name": name, "in": "query", "required": false, "description": about, "schema": schema });
    let mut parameters = Map::new();
    for (_, name, shared, about, example) in PATH_PARAMETERS {
        let described = json!({
            "name": name, "in": "path", "required": true, "description": about,
            "schema": { "type": "string" }, "example": example,
        });
        parameters.insert((*shared).into(), described);
    }
    parameters.insert(
        "IdempotencyKey".into(),
        header(
            "Idempotency-Key",
            "A unique key for this request. If you send the same request again with the same key, you get the first \
             response again and nothing happens twice.",
            json!({ "type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": PRINTABLE_ASCII }),
        ),
    );
    parameters.insert(
        "IfMatch".into(),
        header(
            "If-Match",
            "The version you last saw, as `ETag` gave it. The request changes nothing and fails with `CONCURRENCY_ERROR` \
             if the version is no longer current.",
            json!({ "type": "string" }),
        ),
    );
    parameters.insert(
        "Prefer".into(),
        header(
            "Prefer",
            "`wait=N` waits up to N seconds, at most 60, for the outcome.",
            json!({ "type": "string" }),
        ),
    );
    parameters.insert(
        "Limit".into(),
        query(
            "limit",
            "Number of items on the page.",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_PAGE_ITEMS, "default": DEFAULT_PAGE_ITEMS }),
        ),
    );
    parameters.insert(
        "Cursor".into(),
        query(
            "cursor",
            "`nextCursor` of the previous page. Keep the same filters. Leave it out for the first page.",
            json!({ "type": "string" }),
        ),
    );
    parameters
}

/// Shared response headers: the name on the wire, which is also the name in the description, and
/// its meaning.
const HEADERS: &[(&str, &str, &str)] = &[
    ("ETag", "string", "Current version, in quotes. Send it as `If-Match` to change only what you saw."),
    ("Location", "string", "Path of the resource."),
    ("Retry-After", "integer", "Seconds to wait before you send the request again."),
    (
        "Idempotency-Replayed",
        "boolean",
        "`true` if this response was stored and is sent again for the same key.",
    ),
    (
        "Idempotency-Expires",
        "string",
        "When the stored response expires, as an HTTP date. Sent with a replay.",
    ),
    (
        "Idempotency-Stored",
        "boolean",
        "`false` if the work was done but the response could not be stored, so a retry may not find it.",
    ),
    ("WWW-Authenticate", "string", "The scheme to authenticate with."),
];

/// Every shared header by its name.
pub(crate) fn headers() -> Map<String, Value> {
    let described = |(name, kind, about): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({ "description": about, "schema": { "type": kind } }))
    };
    HEADERS.iter().map(described).collect()
}

/// References to these shared headers.
pub(crate) fn header_refs<'a>(names: impl IntoIterator<Item = &'a str>) -> Map<String, Value> {
    let reference = |name: &str| (name.to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }));
    names.into_iter().map(reference).collect()
}
