//! The fields that each object of a document may have. Both the checks and the published schema use these lists.

pub(crate) const DOCUMENT: &[&str] = &[
    "name",
    "version",
    "description",
    "idempotency",
    "retention",
    "onFailure",
    "fingerprint",
    "input",
    "output",
    "sensitive",
    "steps",
];
pub(crate) const FINGERPRINT: &[&str] = &["ignore"];

/// Fields of every step.
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

/// Additional fields of each kind of step.
pub(crate) const KINDS: &[(&str, &[&[&str]])] = &[
    ("task", &[&["task", "input"], EFFECT]),
    ("http", &[REQUEST, EFFECT]),
    ("wait", &[&["for", "until"]]),
    ("condition", &[&["if", "then", "else"]]),
    ("promise", &[&["timeout", "key", "keyTtl"]]),
    ("signal", &[&["signal", "timeout"]]),
    (
        "approval",
        &[&["by", "decisions", "show", "fields", "timeout", "onReject", "onTimeout", "selfApproval"]],
    ),
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
/// Kinds of actions of a source.
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
    "statusTypes",
    "initial",
    "claims",
    "steps",
];
pub(crate) const TABLE: &[&str] = &["name", "id", "status", "version", "updatedAt", "data"];
pub(crate) const CLAIMS: &[&str] = &["revertTo"];
pub(crate) const ENTITY_STEP: &[&str] = &[
    "stepId",
    "stepKey",
    "status",
    "claimState",
    "successfulClaimState",
    "successfulState",
    "action",
    "validation",
    "effect",
    "recovery",
    "irreversible",
    "idempotency",
    "probe",
    "retry",
    "successAfterEffect",
    "failureAfterEffect",
];
/// Fields of entity workflows that are also accepted in snake_case. Documents show camelCase, and the model uses
/// snake_case.
pub(crate) const MODEL_SPELLINGS: &[(&str, &str)] = &[
    ("statusTypes", "status_types"),
    ("revertTo", "revert_to"),
    ("updatedAt", "updated_at"),
    ("stepId", "step_id"),
    ("stepKey", "step_key"),
    ("claimState", "claim_state"),
    ("successfulClaimState", "successful_claim_state"),
    ("successfulState", "successful_state"),
    ("successAfterEffect", "success_after_effect"),
    ("failureAfterEffect", "failure_after_effect"),
];
pub(crate) const VALIDATION: &[&str] = &["when", "message", "code"];
/// Kinds of entity actions. A bare name is a handler.
pub(crate) const ENTITY_ACTIONS: &[&str] = &["handler", "workflow", "http"];
/// Kinds of after-effects. A bare name is a target.
pub(crate) const AFTER_EFFECTS: &[&str] = &["target", "workflow", "http"];
pub(crate) const HANDLER: &[&str] = &["handler", "transaction"];
pub(crate) const RUN_OF: &[&str] = &["workflow", "input"];
/// Additional fields of the request of an action.
pub(crate) const ACTION_REQUEST: &[&str] = &["timeout", "output", "data"];
pub(crate) const AFTER_REQUEST: &[&str] = &["timeout"];
/// Keys that begin an object, so they cannot be names of requesters.
pub(crate) const NO_REQUESTERS: &[&str] =
    &["handler", "workflow", "http", "target", "when", "message", "method", "url", "happened"];
/// Keys that begin a probe.
pub(crate) const PROBES: &[&str] = &["method", "url", "happened"];

/// The kinds, as a list for a message.
pub(crate) fn kinds() -> String {
    let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    kinds.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_in_the_reference_pages() {
        let readme = [
            include_str!("../../../docs/workflow-documents.md"),
            include_str!("../../../docs/webhook-source-documents.md"),
            include_str!("../../../docs/entity-documents.md"),
        ]
        .concat();
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
            assert!(is_there, "{field} is not in the reference pages");
        }
        for (kind, _) in KINDS {
            assert!(readme.contains(&format!("| `{kind}` |")), "{kind} is not in the reference pages");
        }
    }
}
