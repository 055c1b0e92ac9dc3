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
pub(crate) const EFFECT: &[&str] =
    &["effect", "onDoubt", "nonIdempotent", "retry", "timeout", "probe", "compensate"];
pub(crate) const REQUEST: &[&str] =
    &["method", "url", "headers", "body", "keyHeader", "success", "retryable"];

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

pub(crate) const RETRY: &[&str] = &["maxAttempts", "initialInterval", "factor", "cap"];
pub(crate) const PROBE: &[&str] = &["timeout", "happened", "didNotHappen", "output"];
pub(crate) const UNDO_TASK: &[&str] = &["type", "task", "input"];
pub(crate) const UNDO_HTTP: &[&str] = &["type", "timeout"];
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
pub(crate) const START: &[&str] = &["workflow", "version", "key", "input"];
pub(crate) const SIGNAL: &[&str] = &["run", "key", "name", "payload"];

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
        let all = [DOCUMENT, FINGERPRINT, STEP, RETRY, PROBE, UNDO_TASK, UNDO_HTTP, DECIDERS]
            .into_iter()
            .chain(of_sources)
            .chain(of_kinds);
        for field in all.flatten() {
            let is_there = readme.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == *field);
            assert!(is_there, "{field} is not in the README");
        }
        for (kind, _) in KINDS {
            assert!(readme.contains(&format!("| `{kind}` |")), "{kind} is not in the README");
        }
    }
}
