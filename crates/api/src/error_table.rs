//! All error codes in one table. The enum, the responses and the docs page are generated from it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Fixed properties of an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorKind {
    /// Its spelling.
    pub code: &'static str,
    /// The HTTP status it is sent with.
    pub status: u16,
    /// Title for people.
    pub title: &'static str,
    /// True if the same request may succeed later.
    pub retryable: bool,
    /// Remedy, for the docs page.
    pub remedy: &'static str,
}

macro_rules! errors {
    ($($variant:ident = $code:literal, $status:literal, $retryable:literal, $title:literal, $remedy:literal;)*) => {
        /// A stable code for programs to branch on. [`ERRORS`] explains each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        /// The table, in the order of [`Code`].
        pub const ERRORS: &[ErrorKind] = &[
            $(ErrorKind { code: $code, status: $status, title: $title, retryable: $retryable, remedy: $remedy },)*
        ];

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];
        }
    };
}

errors! {
    // The request is malformed or breaks a rule.
    InvalidRequest = "invalid_request", 400, false, "The request breaks a rule",
        "A field, parameter or header has a value that is not allowed. `detail` and `path` name it. Correct it and send the request again; nothing was stored, so the same idempotency key may be used.";
    InvalidJson = "invalid_json", 400, false, "The body is not acceptable JSON",
        "The body must be one JSON value in UTF-8, without duplicate keys, without \\u0000, nested at most 64 deep, with numbers that fit a 64-bit integer or a finite 64-bit float. `detail` says where reading stopped. Correct the body and send it again.";
    InvalidIdempotencyKey = "invalid_idempotency_key", 400, false, "The idempotency key is malformed",
        "A key is 1 to 255 printable ASCII characters, given once, either bare or as a quoted string. Derive it from what triggers the request, for example `process-order-789`. Nothing was stored.";
    IdempotencyKeyMissing = "idempotency_key_missing", 400, false, "This definition requires an idempotency key",
        "The definition says `idempotency: required`. Send `idempotencyKey` in the body, or the header `Idempotency-Key`, derived from the event that triggers the request.";
    InvalidCursor = "invalid_cursor", 400, false, "The cursor does not belong to this list",
        "A cursor is only good for the list, the filters and the workspace it was given for. Send the request without `cursor` to begin at the first page.";
    RulingIncomplete = "ruling_incomplete", 400, false, "The decision is incomplete",
        "A decision needs the name of who decides and a reason that says how they know. Add both and send it again.";

    // Authentication and permissions.
    Unauthorized = "unauthorized", 401, false, "No valid API key was given",
        "Send `Authorization: Bearer hpx_…` (or `x-api-key: hpx_…`), once. The key may be mistyped, expired, rotated or revoked; the answer is the same for all of these. Ask an admin of the workspace for a key.";
    WebhookSignatureInvalid = "webhook_signature_invalid", 401, false, "The webhook is not signed as its source requires",
        "The signature was missing, wrong or too old. Check the secret configured for the source, and that the body reaches this server unchanged. Nothing was stored.";
    NameNotAllowed = "name_not_allowed", 403, false, "The credential may not offer this name to workers",
        "The credential is bound to names of workflows, tasks and actions, and the session offers another one, `name`. Offer only names that the credential is bound to, or ask an admin for another credential.";
    Forbidden = "forbidden", 403, false, "The credential's role does not allow this",
        "The key is valid, but its role is too low for this route. `requiredRole` names the role you need. Use another key, or ask an admin for one.";
    NoRole = "no_role", 403, false, "Nobody gave this person a role",
        "The identity provider vouches for the person, and no rule of the settings gives them a role in a workspace. Ask an admin to put the person into one of the groups that the rules name, then sign in again.";
    NetworkNotAllowed = "network_not_allowed", 403, false, "The credential may not be used from this address",
        "The key is valid, but it is bound to networks, and the request came from elsewhere. Send the request from one of its networks, or ask an admin for another credential.";
    NeedsManager = "needs_manager", 403, false, "This decision is irreversible and needs a manager",
        "A decision that makes an effect run, or gives one up for good, needs a credential with the role manager; names in the request do not replace it. Ask a manager to decide.";
    NeedsSecondPerson = "needs_second_person", 403, false, "This decision takes two people",
        "Two different people stand behind this decision, and one of them is a manager. Propose it with `POST /api/v1/doubts/{run}/{step}/propose`; another person confirms it with `POST /api/v1/doubts/{run}/{step}/confirm`. Two names under one credential are one person.";
    OwnApproval = "own_approval", 403, false, "The person who had the run started cannot approve it",
        "You had this run started, so another person must answer. To allow your own answer, set `selfApproval: true` on the step.";
    PayloadsHidden = "payloads_hidden", 403, false, "The credential sees no payloads",
        "Inputs, outputs and other payloads are hidden from the credential, whatever its role. Ask an admin for a credential, or for a rule of the identity provider, that shows them.";
    ApprovalForOthers = "approval_for_others", 403, false, "The approval is for others to decide",
        "`by` names the roles and requesters whom the step asks. Use a credential that has one of the roles, or was made for one of the requesters.";
    RequesterNotAllowed = "requester_not_allowed", 403, false, "The credential may not ask as this requester",
        "The credential was made for one requester, which `requester` names, and cannot act for another. Omit `requester`, or use a credential of the other requester.";
    OverrideRequired = "override_required", 403, false, "The step is irreversible and may have happened",
        "`operation` describes the operation that may have done it. Find out whether it happened. If it did not, a manager can force the step with `POST /api/v1/entities/{type}/{id}/steps/{stepKey}/override` and a reason.";
    PromiseCompletionRefused = "promise_completion_refused", 403, false, "The durable promise was completed differently",
        "The promise was already completed under another `idempotency-key` or, with `strict`, in another state or by its timeout. Nothing was changed. Read it with `GET /promises/{id}`.";

    // The requested resource.
    NotFound = "not_found", 404, false, "The resource does not exist in this workspace",
        "Check the address and the id. Resources of another workspace look as if they did not exist.";
    DefinitionNotFound = "definition_not_found", 404, false, "There is no such definition in this workspace",
        "List the definitions with `GET /api/v1/workflow-definitions`, or upload this one first.";
    SessionUnknown = "session_unknown", 404, false, "The worker session is over, or never was",
        "The session ended because nothing was received from the worker for too long, or the node that had it stopped or is gone. Open a new session and forget all runs of the old one.";
    MethodNotAllowed = "method_not_allowed", 405, false, "The route does not take this method",
        "`Allow` lists the methods that the route takes. The OpenAPI document at `/openapi.json` lists all routes.";
    NotAcceptable = "not_acceptable", 406, false, "The response cannot be sent in the requested format",
        "The API sends `application/json`, and errors as `application/problem+json`. Omit `Accept`, or accept one of these.";
    RequestTimeout = "request_timeout", 408, true, "The request did not arrive in time",
        "The server closed the request because its body came too slowly. Nothing was done. Send it again, over a better connection or in smaller parts.";

    // Conflicts with the current state.
    Concurrency = "CONCURRENCY_ERROR", 409, true, "It was modified concurrently",
        "Another request changed it first, and this one changed nothing. Read it again (a run with `GET /api/v1/workflow-runs/{id}`, an entity with `GET /api/v1/entities/{type}/{id}`), decide again with its current `version`, and send the request again.";
    RequestInProgress = "request_in_progress", 409, true, "The first request under this key is still under way",
        "Another request with the same idempotency key has not been answered yet. Wait for `Retry-After` seconds and send the same request under the same key: it gets the response to the first.";
    RequestInDoubt = "request_in_doubt", 409, false, "Nobody knows whether the request happened",
        "The process that handled the first request under this key vanished before it answered. Find out whether the operation happened; then free the key (`POST /api/v1/keys/request/{key}/release`) if it did not.";
    AnswerNotKept = "answer_not_kept", 409, false, "The answer was not kept",
        "The request was done, but its response cannot be repeated: it was larger than the limit for stored responses, or it holds a secret, which is shown once. `operationId` names the operation, and `location` the resource it created, if any. If the secret did not arrive, rotate it, or revoke the resource and create another under a new key.";
    OperationPending = "operation_pending", 409, true, "Another operation on this subject is still open",
        "At most one run is open per definition and subject. `pending` names the open one. Wait for it, or cancel it, then send the request again.";
    ClaimFailed = "claim_failed", 409, true, "Another operation is already in progress",
        "The operation described in `operation` holds the entity. The action of this request did not run. Wait for that operation to end, and read the entity before you try again.";
    StepNotAllowed = "step_not_allowed", 409, false, "The entity's status does not allow the step",
        "`entityStatus` is the current status, and `allowedSteps` lists the steps it allows. Nothing was done. Read the entity, and decide again.";
    OperationInDoubt = "operation_in_doubt", 409, false, "Nobody knows whether the operation happened",
        "The process that ran the action of `operation` vanished. Find out whether it happened, then decide with `POST /api/v1/operations/{id}/resolve`.";
    OperationNotInDoubt = "operation_not_in_doubt", 409, false, "The operation is not in doubt",
        "It has ended, is in progress, or was already decided. Read the operation to see its outcome.";
    EntityExists = "entity_exists", 409, false, "There is another entity with this type and id",
        "Nothing was created or changed. Read the entity with `GET /api/v1/entities/{type}/{id}`, or choose another id for a new one.";
    EntityElsewhere = "entity_elsewhere", 409, false, "Entities of this type live in the operator's table",
        "You cannot create them here: insert a row into that table. Steps work as with any other entity.";
    EntityTypeTaken = "entity_type_taken", 409, false, "Another entity workflow moves entities of this type",
        "Each type of entity has one workflow in a workspace; `workflow` names it. Replace that one, or name another type in `entity`.";
    DefinitionExists = "definition_exists", 409, false, "This name and version hold other content",
        "Versions are immutable. Upload the changed definition under a new version; runs that began on the old one keep it.";
    DefinitionArchived = "definition_archived", 409, false, "The definition is archived",
        "An archived definition starts no new runs; its open runs continue. Start another version, or unarchive it with `PATCH /api/v1/workflow-definitions/{id}` and `status: active`.";
    DefinitionInUse = "definition_in_use", 409, false, "Open runs need the definition",
        "`openRuns` says how many runs of this definition have not ended; nothing was deleted. Archive it (`PATCH /api/v1/workflow-definitions/{id}` with `status: archived`) so that no new runs begin, wait for the open ones or cancel them, then delete it.";
    DefinitionLimitReached = "definition_limit_reached", 409, false, "There is no room for another definition",
        "`limit` is the maximum, and `quota` names the setting. Delete definitions that no run needs (`DELETE /api/v1/workflow-definitions/{id}`), old versions first, or ask the operator to raise `max-definitions` or `max-definitions-per-workspace`. Waiting does not help.";
    EntityWorkflowInUse = "entity_workflow_in_use", 409, false, "Open operations need the entity workflow",
        "`operationId` names an operation under this workflow that is pending or in doubt; nothing was deleted. Wait for it, or decide it with `POST /api/v1/operations/{id}/resolve`, then delete the workflow.";
    SessionReplaced = "session_replaced", 409, false, "Another worker session of the same instance was opened",
        "The newer session has the work of this one. Stop, or open a session with another `instance`.";
    WorkflowTaken = "workflow_taken", 409, false, "The workflow has other code already",
        "A workflow of this name and version is defined by a document, or its code is in workers. It cannot be both: runs of the same version must always find the same code. Use another name or version.";
    RequestSuperseded = "request_superseded", 409, false, "A newer request of the same session took its place",
        "A session has at most one poll and one commit under way. The newer request gets the messages; drop this one.";
    RunEnded = "run_ended", 409, false, "The run has ended",
        "An ended run takes no commands or signals. A FAILED run can be reopened with `POST /api/v1/workflow-runs/{id}/retry`; otherwise start a new one.";
    AlreadyAsked = "already_asked", 409, false, "The same command was already given",
        "The command is in progress or done. Read the run to see its status; you need not repeat the command.";
    NotARoot = "not_a_root", 409, false, "Another run started this one",
        "Only a root run can be cancelled together with its descendants. `rootRunId` names the root of this run: send `POST /api/v1/workflow-runs/{rootRunId}/cancel` with `descendants: true`, or cancel this run alone, without `descendants`.";
    RunNotPaused = "run_not_paused", 409, false, "The run is not paused",
        "Only a PAUSED run can be resumed. Read the run to see its status.";
    RunNotFailed = "run_not_failed", 409, false, "The run is not failed",
        "Only a FAILED run can be retried. Read the run to see its status.";
    RunUndone = "run_undone", 409, false, "Steps of the run were undone",
        "Compensations have run, so the recorded outcomes no longer hold and the run cannot go on. Start a new run under a new key. To use the same key, release it first, as a manager: `hapax keys release run <key> --reason <why>`.";
    StepInDoubt = "step_in_doubt", 409, false, "A step of the run is in doubt",
        "The effect of the step may have happened, and this command would run it again. Ask the provider, then resolve the doubt (`POST /api/v1/doubts/…`), or start a new run.";
    EffectsWouldRepeat = "effects_would_repeat", 409, false, "Effects that have happened would happen again",
        "The retry would repeat effects that have happened, and no idempotency key protects them at the provider. `effects` names their steps. Read the plan (`GET /api/v1/workflow-runs/{id}/retry-plan?fromStep=…`, or `hapax runs retry RUN --from STEP --dry-run`). To repeat them all, send the retry as a manager with their names in `repeatEffects`, and a `reason`. Otherwise retry from a later step.";
    KeyTaken = "key_taken", 409, false, "The run's key now names another run",
        "The key of this run was released when it ended, and now names another run, `holder`. Look at that run; this one cannot be reopened.";
    DoubtChanged = "doubt_changed", 409, false, "The doubt has changed",
        "The step is no longer in doubt, or is in doubt for a different reason. List the doubts again, and decide again.";
    ApprovalNotAsked = "approval_not_asked", 409, true, "The step does not ask for an approval now",
        "An answer counts only once the step has asked: nobody approves what they have not seen. Nothing was stored. Read the run, and answer when the step waits.";
    ApprovalOver = "approval_over", 409, false, "The approval is over",
        "Another person answered first, or the time for an answer has passed. Only the first answer counts. `decidedBy`, `decision` and `decidedAt` describe it.";
    DoubtResolved = "doubt_resolved", 409, false, "The doubt is already resolved",
        "Another person or a probe was faster. The ledger of the run shows the decision.";
    NobodyActs = "nobody_acts", 409, false, "No code is left to carry out the decision",
        "The run no longer waits for the step, so the step cannot be run or undone. Handle it by hand, then rule that it happened, or abandon it.";
    DeliveryUnderWay = "delivery_under_way", 409, true, "The after-effect is still being delivered",
        "Delivery continues by itself. Only an after-effect that was delivered or given up can be redelivered.";
    SubscriptionDisabled = "subscription_disabled", 409, false, "The subscription is disabled or deleted",
        "`reason` says why. Repair the receiver, enable the subscription (`PATCH /api/v1/webhook-subscriptions/{id}` with `status: enabled`), then send the request again.";
    PromiseAlreadySettled = "promise_already_settled", 409, false, "The promise holds another value",
        "The first settlement stands and was not changed. Read the promise to see its value.";
    PromiseTimedOut = "promise_timed_out", 409, false, "The promise has timed out",
        "The settlement came after the deadline and was not accepted. The run continued without it. Look at the run, and start a new one if the work is still needed.";
    PromiseKeyConflict = "promise_key_conflict", 409, false, "The key names another promise",
        "`holder` names the promise that the key was registered for. Use a key derived from the business object of this promise.";
    PromiseExists = "promise_exists", 409, false, "A promise with this id exists",
        "Nothing was created or changed. Read the promise by its id. For a new promise, choose another id or omit it.";
    TooManySignals = "too_many_signals", 409, true, "The run has too many unread signals",
        "The signal was not stored. Let the run read some, then send it again under the same `signalId`.";
    NameTaken = "name_taken", 409, false, "The name is taken",
        "Another resource has this name. Choose a different name.";
    LastAdmin = "last_admin", 409, false, "This is the last admin credential",
        "Without it nobody could administer the workspace. Issue another admin credential first.";
    IdempotencyKeyExpired = "idempotency_key_expired", 410, false, "The idempotency key has expired",
        "The key was used before, and the response is no longer stored. To find the outcome of the first request, read the resource it created. For a new operation, use a new key.";
    IdempotencyKeySpent = "idempotency_key_spent", 410, false, "The key's run was deleted after its retention",
        "The data of the first run is deleted, but the key still rejects a second one. For a new run, use a new key.";
    IdempotencyWindowPassed = "idempotency_window_passed", 412, false, "The first attempt is older than the key's lifetime",
        "According to `Idempotency-First-Sent`, the request was first sent before any key that is still stored. It may have been done already, so it was not run again. Check whether it was done; if not, send it under a new key.";

    // Size limits.
    PayloadTooLarge = "payload_too_large", 413, false, "The body is too large",
        "`maxBytes` or `maxItems` names the limit. Send less: put large data elsewhere and pass a reference to it, or split a batch.";
    UriTooLong = "uri_too_long", 414, false, "The address is too long",
        "Shorten the path and the query; put data into the body.";
    UnsupportedMediaType = "unsupported_media_type", 415, false, "The body is not sent as JSON",
        "Send `Content-Type: application/json` (in UTF-8) and no `Content-Encoding`.";
    HeadersTooLarge = "headers_too_large", 431, false, "The headers are too large",
        "Send fewer or shorter headers; put data into the body.";

    // Well-formed, but rejected by a rule of the domain.
    IdempotencyKeyConflict = "idempotency_key_conflict", 422, false, "The key was used for another request",
        "`storedRequest` describes the first request under the key and lists the JSON paths that differ. Nothing was changed. For a new operation, use a new key; for a retry, send the first request unchanged.";
    InputInvalid = "input_invalid", 422, false, "The input does not match the workflow's input schema",
        "Each entry of `problems` has a JSON Pointer to a wrong or missing value and says what the schema expects there. Nothing was started, and no key was used: correct the input and send the request again, under the same key. `GET /api/v1/workflow-definitions/{id}` shows the schema as `document.input`.";
    DefinitionInvalid = "definition_invalid", 422, false, "The definition has errors",
        "`problems` lists every error with its path. Correct them and upload it again; `hapax validate FILE` shows the same list.";
    SourceInvalid = "source_invalid", 422, false, "The webhook source has errors",
        "Each entry of `problems` names a path, a rule and what to do. Correct them all and upload the source again; `hapax validate` checks it without a server.";
    EntityWorkflowInvalid = "entity_workflow_invalid", 422, false, "The entity workflow has errors",
        "`problems` lists every error with its path and rule. Correct them all and upload the workflow again; `hapax validate FILE` shows the same list.";
    TableNotAllowed = "table_not_allowed", 422, false, "The operator has not allowed this table",
        "An entity workflow may only use a table of the database that the operator has allowed for the workspace, in `entity_tables`. Ask the operator, or omit `table` to keep the entities in Hapax.";
    StepRejected = "step_rejected", 422, false, "The step was rejected",
        "A validation or the action itself rejected it; `failure` says why. The entity is unchanged. Correct the cause, then take the step again, under a new key if the response has `operation`.";
    UnprotectedEffect = "unprotected_effect", 422, false, "A non-idempotent effect is not protected",
        "The step declares that its effect is not idempotent, and nothing keeps it from happening twice. Declare it claimed or transactional, or leave it to an after-effect.";
    UncoveredClaimState = "uncovered_claim_state", 422, false, "No janitor covers a claim state",
        "`workflow` claims into a status, and `module` has no janitor on this server, so a crash could leave an entity claimed permanently. Ask the operator to add the module to `modules`, or name a module that is listed.";
    AddressNotAllowed = "address_not_allowed", 422, false, "The address may not be called from here",
        "The address of a request in a document, or of a subscription, points to a private or reserved network, to a port that is closed, or is not in the allow-list; `problems` or `path` says which. Use another one, or ask the operator to allow it.";

    // Temporary conditions.
    RateLimited = "rate_limited", 429, true, "Too many requests",
        "Wait for `Retry-After` seconds and send the request again, under the same key.";
    QuotaExceeded = "quota_exceeded", 429, true, "The workspace has reached a quota",
        "`quota` names it. Wait until open work has ended, or ask the operator for a higher one.";
    TooManyStreams = "too_many_streams", 429, true, "Too many live streams are open",
        "Close one of the event streams of this credential, or poll the events page.";
    Internal = "internal", 500, false, "The server failed",
        "This is a fault of the server. If the request had a key, its outcome is stored under the key. Report `traceId` to the operator, whose logs have the cause.";
    ActionPanicked = "action_panicked", 500, false, "The action of the step panicked",
        "This is a fault in the code of the action, and its outcome is unknown. The claim was released, and `operation` describes the operation. The operator's logs have the cause.";
    ActionFailed = "action_failed", 502, false, "The action of the step failed",
        "`failure` says why, and `operation` describes the operation. The claim was released, so you can take the step again, under a new key, once the cause is gone. If the action may have happened, the next operation of the step sends the same effect key, and a provider that honours keys does it once.";
    StoreBroken = "store_broken", 500, false, "The store cannot be used",
        "The data is damaged or has an unknown format. The operator should run `hapax admin fsck` and read the logs before any other step.";
    StoreRefused = "store_refused", 500, false, "The store refused the request",
        "Nothing was written, and the same request will not succeed. Report `traceId` to the operator.";
    StoreUnavailable = "store_unavailable", 503, true, "The store is not available",
        "Nothing was written. Wait for `Retry-After` seconds and send the same request again, under the same key.";
    IdentityProviderUnavailable = "identity_provider_unavailable", 503, true, "The identity provider does not answer as it should",
        "The server could not read the provider's description or keys, or exchange the code of a sign-in. Wait as `Retry-After` says and try again; the operator's log has the cause.";
    OutcomeUnknown = "outcome_unknown", 503, true, "The store did not confirm the write",
        "The request may or may not have taken effect. Send the same request again under the same idempotency key: it converges on one result. Without a key, check whether it was done before you send it again.";
    TooManyConnections = "too_many_connections", 503, true, "The server has no room for another connection",
        "Reuse connections, or wait a moment and try again.";
    BodyMemoryFull = "body_memory_full", 503, true, "The server has no memory for another body",
        "Nothing was done. `share` names the exhausted share: the address, the workspace, or the whole server. Send fewer large bodies at once, wait for `Retry-After` seconds, and send the request again, under the same key.";
    SecretUnavailable = "secret_unavailable", 503, true, "A secret cannot be read now",
        "The server could not read a secret that it needs to check the signature, so the webhook was neither accepted nor rejected. Send it again after `Retry-After` seconds. The operator's log names the secret.";
    NodeUnreachable = "node_unreachable", 503, true, "Another node does not answer",
        "The request is for a session of another node, and that node did not answer in time. It may or may not have done what was asked. Send the same request again, with the same number. If the node is gone, you get `session_unknown` within 15 seconds: then open a new session.";
    ShuttingDown = "shutting_down", 503, true, "The server is shutting down",
        "Nothing was done. Send the request again; another node, or this one after its restart, will handle it.";
}

impl Code {
    /// Fixed properties of the code.
    pub fn kind(self) -> &'static ErrorKind {
        &ERRORS[self as usize]
    }

    /// Its spelling.
    pub fn as_str(self) -> &'static str {
        self.kind().code
    }

    /// The code with this spelling, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Code::from_name(&text).ok_or_else(|| D::Error::custom("a code this client does not know"))
    }
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let codes = ERRORS.iter().map(|kind| kind.code);
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(codes))
            .description(Some("A stable code; `/errors/<code>` explains it."))
            .into()
    }
}

impl ToSchema for Code {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_spelled_once_and_finds_its_own_row() {
        let spelled: BTreeSet<&str> = ERRORS.iter().map(|kind| kind.code).collect();
        assert_eq!(spelled.len(), ERRORS.len());
        assert_eq!(Code::ALL.len(), ERRORS.len());
        for (code, kind) in Code::ALL.iter().zip(ERRORS) {
            assert_eq!(code.kind(), kind);
            assert_eq!(Code::from_name(kind.code), Some(*code));
        }
    }

    #[test]
    fn codes_are_snake_case_but_for_the_one_a_seed_spells_otherwise() {
        for kind in ERRORS.iter().filter(|kind| kind.code != "CONCURRENCY_ERROR") {
            assert!(kind.code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", kind.code);
        }
        for seeded in ["CONCURRENCY_ERROR", "idempotency_key_conflict", "claim_failed"] {
            assert!(Code::from_name(seeded).is_some(), "{seeded}");
        }
    }

    #[test]
    fn the_status_and_whether_to_try_again_agree() {
        for kind in ERRORS {
            assert!((400..600).contains(&kind.status), "{}", kind.code);
            match kind.status {
                408 | 429 | 503 => assert!(kind.retryable, "{}", kind.code),
                409 => {}
                _ => assert!(!kind.retryable, "{}", kind.code),
            }
        }
    }

    #[test]
    fn every_code_says_what_it_is_and_what_to_do() {
        for kind in ERRORS {
            assert!(!kind.title.is_empty() && !kind.title.ends_with('.'), "{}", kind.code);
            assert!(kind.remedy.len() > 30 && kind.remedy.ends_with('.'), "{}", kind.code);
        }
    }

    /// `text` in lines of at most 120 characters.
    fn wrapped(text: &str) -> String {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= 120 => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines.join("\n")
    }

    /// The docs page of all codes is generated from the table.
    #[test]
    fn the_docs_list_every_code() {
        let mut page = String::from(
            "# Errors\n\n\
             <!-- made from the table of errors: HAPAX_UPDATE=1 cargo test -p hapax-api docs -->\n\n\
             Every error response is `application/problem+json` with `type`, `title`, `status`, `detail`, `code`, `retryable` and\n\
             `traceId`. Some codes add members of their own. Programs branch on `code`. A server explains each code at\n\
             `/errors/<code>`. Over gRPC, `code` is metadata, and the status beside the HTTP status is the gRPC status.\n",
        );
        for (code, kind) in Code::ALL.iter().zip(ERRORS) {
            let again = if kind.retryable { "yes" } else { "no" };
            page.push_str(&format!(
                "\n## {}\n\n{} · `{}` · {} · may succeed later: {again}\n\n{}\n",
                kind.code,
                kind.status,
                code.grpc_status().as_str(),
                kind.title,
                wrapped(kind.remedy)
            ));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        if std::env::var_os("HAPAX_UPDATE").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == page,
            "docs/errors.md is not up to date: HAPAX_UPDATE=1 cargo test -p hapax-api docs"
        );
    }
}
