//! Operations of the API that pages use. Each is a row of the server's table of routes; a test of the server holds them
//! against it.

use http::Method;

/// One operation: a method and the template of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// Method of the route.
    pub method: Method,
    /// Template of the path.
    pub path: &'static str,
}

const fn get(path: &'static str) -> Op {
    Op { method: Method::GET, path }
}

const fn post(path: &'static str) -> Op {
    Op { method: Method::POST, path }
}

const fn patch(path: &'static str) -> Op {
    Op { method: Method::PATCH, path }
}

const fn put(path: &'static str) -> Op {
    Op { method: Method::PUT, path }
}

const fn delete(path: &'static str) -> Op {
    Op { method: Method::DELETE, path }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $op:expr;)*) => {
        $(#[doc = concat!("`", stringify!($op), "`")] pub const $name: Op = $op;)*
        /// Every operation above.
        pub const ALL: &[&Op] = &[$(&$name),*];
    };
}

operations! {
    LIST_DEFINITIONS = get("/api/v1/workflow-definitions");
    SHOW_DEFINITION = get("/api/v1/workflow-definitions/{id}");
    CHANGE_DEFINITION = patch("/api/v1/workflow-definitions/{id}");
    DELETE_DEFINITION = delete("/api/v1/workflow-definitions/{id}");
    UPLOAD_DEFINITION = post("/api/v1/workflow-definitions");
    START_RUN = post("/api/v1/workflow-runs");
    LIST_RUNS = get("/api/v1/workflow-runs");
    SHOW_RUN = get("/api/v1/workflow-runs/{id}");
    LIST_STEPS = get("/api/v1/workflow-runs/{id}/steps");
    CANCEL_RUN = post("/api/v1/workflow-runs/{id}/cancel");
    PAUSE_RUN = post("/api/v1/workflow-runs/{id}/pause");
    RESUME_RUN = post("/api/v1/workflow-runs/{id}/resume");
    RETRY_RUN = post("/api/v1/workflow-runs/{id}/retry");
    REVEAL_RUN = post("/api/v1/workflow-runs/{id}/reveal");
    SHOW_RETRY_PLAN = get("/api/v1/workflow-runs/{id}/retry-plan");
    SEND_SIGNAL = post("/api/v1/workflow-runs/{id}/signals");
    ANSWER_APPROVAL = post("/api/v1/workflow-runs/{id}/approvals/{step}");
    LIST_EVENTS = get("/api/v1/workflow-runs/{id}/events");
    SHOW_RUN_LEDGER = get("/api/v1/workflow-runs/{id}/ledger");
    LIST_RUN_NOTES = get("/api/v1/workflow-runs/{id}/notes");
    ADD_RUN_NOTE = post("/api/v1/workflow-runs/{id}/notes");
    SHOW_KEY = get("/api/v1/keys/{scope}/{key}");
    RELEASE_KEY = post("/api/v1/keys/{scope}/{key}/release");
    WHY = get("/api/v1/why");
    LIST_DOUBTS = get("/api/v1/doubts");
    PROPOSE_RULING = post("/api/v1/doubts/{run}/{step}/propose");
    CONFIRM_RULING = post("/api/v1/doubts/{run}/{step}/confirm");
    RESOLVE_DOUBT = post("/api/v1/doubts/{run}/{step}/resolve");
    SHOW_LEDGER = get("/api/v1/ledger");
    LIST_AUDIT = get("/api/v1/audit");
    CREATE_WORKSPACE = post("/api/v1/workspaces");
    LIST_WORKSPACES = get("/api/v1/workspaces");
    SHOW_WORKSPACE = get("/api/v1/workspaces/{id}");
    CREATE_CREDENTIAL = post("/api/v1/credentials");
    LIST_CREDENTIALS = get("/api/v1/credentials");
    ROTATE_CREDENTIAL = post("/api/v1/credentials/{id}/rotate");
    REVOKE_CREDENTIAL = post("/api/v1/credentials/{id}/revoke");
    SHOW_POLICY = get("/api/v1/idempotency-policy");
    SHOW_HEALTH = get("/healthz");
    SHOW_READINESS = get("/readyz");
    SHOW_NODE = get("/api/v1/node");
    LIST_LEASES = get("/api/v1/leases");
    LIST_WORKER_SESSIONS = get("/api/v1/worker-sessions");
    SHOW_METRICS = get("/metrics");
    CREATE_SUBSCRIPTION = post("/api/v1/webhook-subscriptions");
    LIST_SUBSCRIPTIONS = get("/api/v1/webhook-subscriptions");
    SHOW_SUBSCRIPTION = get("/api/v1/webhook-subscriptions/{id}");
    ROTATE_SUBSCRIPTION = post("/api/v1/webhook-subscriptions/{id}/rotate");
    CHANGE_SUBSCRIPTION = patch("/api/v1/webhook-subscriptions/{id}");
    DELETE_SUBSCRIPTION = delete("/api/v1/webhook-subscriptions/{id}");
    TEST_SUBSCRIPTION = post("/api/v1/webhook-subscriptions/{id}/test");
    LIST_DELIVERIES = get("/api/v1/webhook-deliveries");
    REDELIVER = post("/api/v1/webhook-deliveries/{id}/redeliver");
    REDELIVER_MANY = post("/api/v1/webhook-deliveries/redeliver");
    DISCARD_DELIVERIES = post("/api/v1/webhook-deliveries/discard");
    LIST_PROMISES = get("/api/v1/promises");
    SHOW_PROMISE = get("/api/v1/promises/{ref}");
    RESOLVE_PROMISE = post("/api/v1/promises/{ref}/resolve");
    REJECT_PROMISE = post("/api/v1/promises/{ref}/reject");
    LIST_EARLY_SETTLEMENTS = get("/api/v1/early-settlements");
    LIST_SOURCES = get("/api/v1/webhook-sources");
    SHOW_SOURCE = get("/api/v1/webhook-sources/{name}");
    REPLACE_SOURCE = put("/api/v1/webhook-sources/{name}");
    CHANGE_SOURCE = patch("/api/v1/webhook-sources/{name}");
    CREATE_SOURCE = post("/api/v1/webhook-sources");
    DELETE_SOURCE = delete("/api/v1/webhook-sources/{name}");
    LIST_WEBHOOK_EVENTS = get("/api/v1/webhook-events");
    SHOW_WEBHOOK_EVENT = get("/api/v1/webhook-events/{source}/{event}");
    REPROCESS_EVENT = post("/api/v1/webhook-events/{source}/{event}/reprocess");
    REPROCESS_EVENTS = post("/api/v1/webhook-events/reprocess");
    LIST_ENTITY_WORKFLOWS = get("/api/v1/entity-workflows");
    SHOW_ENTITY_WORKFLOW = get("/api/v1/entity-workflows/{name}");
    DRAW_ENTITY_WORKFLOW = get("/api/v1/entity-workflows/{name}/diagram");
    STREAM_EVENTS = get("/api/v1/workflow-runs/{id}/events/stream");
    LIST_ENTITIES = get("/api/v1/entities/{type}");
    SHOW_ENTITY = get("/api/v1/entities/{type}/{id}");
    TAKE_STEP = post("/api/v1/entities/{type}/{id}/steps/{stepKey}");
    OVERRIDE_STEP = post("/api/v1/entities/{type}/{id}/steps/{stepKey}/override");
    LIST_ENTITY_NOTES = get("/api/v1/entities/{type}/{id}/notes");
    ADD_ENTITY_NOTE = post("/api/v1/entities/{type}/{id}/notes");
    LIST_ENTITY_OPERATIONS = get("/api/v1/entities/{type}/{id}/operations");
    LIST_OPERATIONS = get("/api/v1/operations");
    SHOW_OPERATION = get("/api/v1/operations/{id}");
    RESOLVE_OPERATION = post("/api/v1/operations/{id}/resolve");
}
