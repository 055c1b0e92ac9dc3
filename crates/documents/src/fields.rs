//! The fields each object of a document may have; the checks and the published schema both go by these lists.

pub(crate) const DOCUMENT: &[&str] = &[
    "name",
    "version",
    "description",
    "idempotency",
    "retention",
    "onFailure",
    "fingerprint",
    "output",
    "steps",
];
pub(crate) const FINGERPRINT: &[&str] = &["ignore"];

/// Every step has these.
pub(crate) const STEP: &[&str] = &["name", "type", "description", "when", "output"];
pub(crate) const EFFECT: &[&str] = &[
    "effect",
    "onDoubt",
    "nonIdempotent",
    "rejectsStaleFences",
    "retry",
    "onExhausted",
    "timeout",
    "probe",
    "compensate",
];
pub(crate) const REQUEST: &[&str] = &[
    "method",
    "url",
    "hostFromData",
    "headers",
    "body",
    "keyHeader",
    "success",
    "retryable",
    "keepResponse",
];

/// What each kind of step has beyond that.
pub(crate) const KINDS: &[(&str, &[&[&str]])] = &[
    ("task", &[&["task", "input"], EFFECT]),
    ("http", &[REQUEST, EFFECT]),
    ("wait", &[&["for", "until"]]),
    ("condition", &[&["if", "then", "else"]]),
    ("promise", &[&["timeout", "key", "keyTtl"]]),
    ("signal", &[&["signal", "timeout"]]),
    ("approval", &[&["by", "decisions", "show", "fields", "timeout", "onReject", "onTimeout"]]),
    ("child", &[&["workflow", "input", "onClose"]]),
    ("parallel", &[&["branches"]]),
    ("for_each", &[&["items", "steps", "concurrency", "maxItems", "result"]]),
];

pub(crate) const RETRY: &[&str] = &["for", "maxAttempts", "first", "factor", "cap"];
pub(crate) const PROBE: &[&str] = &["timeout", "settle", "happened", "didNotHappen", "output"];
pub(crate) const UNDO_TASK: &[&str] = &["type", "task", "input", "retry"];
pub(crate) const UNDO_HTTP: &[&str] = &["type", "timeout", "retry"];
pub(crate) const DECIDERS: &[&str] = &["roles", "requesters"];

pub(crate) const SOURCE: &[&str] =
    &["name", "description", "preset", "signature", "secrets", "eventId", "filter", "actions"];
pub(crate) const SIGNATURE: &[&str] = &["scheme"];
pub(crate) const HMAC: &[&str] = &["header", "algorithm", "encoding", "prefix"];
pub(crate) const UNSIGNED: &[&str] = &["allowUnsigned"];
pub(crate) const EVENT_ID: &[&str] = &["header", "pointer"];
/// What an action does: one of these.
pub(crate) const ACTS: &[&str] = &["settle", "start", "signal"];
pub(crate) const ACTION: &[&str] = &["when"];
pub(crate) const SETTLE: &[&str] = &["key", "value", "reject", "keepFor"];
pub(crate) const REJECT: &[&str] = &["message", "code"];
pub(crate) const START: &[&str] = &["workflow", "key", "input"];
pub(crate) const SIGNAL: &[&str] = &["run", "key", "name", "id", "payload"];

pub(crate) const ENTITY: &[&str] = &[
    "name",
    "kind",
    "description",
    "module",
    "entity",
    "table",
    "status_types",
    "initial",
    "claims",
    "steps",
];
pub(crate) const TABLE: &[&str] = &["name", "id", "status", "version", "updated_at", "data"];
pub(crate) const CLAIMS: &[&str] = &["revert_to"];
pub(crate) const ENTITY_STEP: &[&str] = &[
    "step_id",
    "step_key",
    "status",
    "claim_state",
    "successful_claim_state",
    "successful_state",
    "action",
    "validation",
    "effect",
    "recovery",
    "irreversible",
    "idempotency",
    "probe",
    "retry",
    "success_after_effect",
    "failure_after_effect",
];
pub(crate) const VALIDATION: &[&str] = &["when", "message", "code"];
/// What an action of a step is: one of these, or the bare name of a handler.
pub(crate) const ENTITY_ACTIONS: &[&str] = &["handler", "workflow", "http"];
/// What an after-effect is: one of these, or the bare name of a target.
pub(crate) const AFTER_EFFECTS: &[&str] = &["target", "workflow", "http"];
pub(crate) const HANDLER: &[&str] = &["handler", "transaction"];
pub(crate) const RUN_OF: &[&str] = &["workflow", "input"];
/// What a request of an action has beyond the usual.
pub(crate) const ACTION_REQUEST: &[&str] = &["timeout", "output", "data"];
pub(crate) const AFTER_REQUEST: &[&str] = &["timeout"];
/// Words that begin an object, so that no requester may be called so.
pub(crate) const NO_REQUESTERS: &[&str] =
    &["handler", "workflow", "http", "target", "when", "message", "method", "url", "happened"];
/// Words that begin a probe.
pub(crate) const PROBES: &[&str] = &["method", "url", "happened"];

/// The kinds, for a message.
pub(crate) fn kinds() -> String {
    let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    kinds.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The README tells of every field there is.
    #[test]
    fn every_field_is_explained() {
        let readme = include_str!("../README.md");
        let of_kinds = KINDS.iter().flat_map(|(_, own)| own.iter().copied());
        let of_sources =
            [SOURCE, SIGNATURE, HMAC, UNSIGNED, EVENT_ID, ACTS, ACTION, SETTLE, REJECT, START, SIGNAL];
        let of_entities = [
            ENTITY,
            TABLE,
            CLAIMS,
            ENTITY_STEP,
            VALIDATION,
            ENTITY_ACTIONS,
            AFTER_EFFECTS,
            HANDLER,
            RUN_OF,
            ACTION_REQUEST,
        ];
        let all = [DOCUMENT, FINGERPRINT, STEP, RETRY, PROBE, UNDO_TASK, UNDO_HTTP, DECIDERS]
            .into_iter()
            .chain(of_sources)
            .chain(of_entities)
            .chain(of_kinds);
        for field in all.flatten() {
            let is_there =
                readme.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == *field);
            assert!(is_there, "{field} is not in the README");
        }
        for (kind, _) in KINDS {
            assert!(readme.contains(&format!("| `{kind}` |")), "{kind} is not in the README");
        }
    }
}
