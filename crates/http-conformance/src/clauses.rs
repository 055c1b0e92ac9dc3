//! All clauses, in the order of the contract.

mod concurrency;
mod conflict;
mod connection;
mod key_form;
mod lifetime;
mod replay;
mod scope;

use crate::clause::{Clause, table};

/// One entry per clause: the smallest profile that includes it, its id, title, rule, source and check.
pub(crate) const ALL: &[Clause] = table! {
    ietf new_key_works { "a new key works", "A request under a key that was never used is processed as usual.",
        "IETF draft, first time request; CONTRACT §3" } replay::new_key_works;
    ietf replay_same_status { "a replay has the same status", "A retry of a finished request gets the same result.",
        "IETF draft, duplicate request; Stripe; CONTRACT §3" } replay::same_status;
    hapax replay_same_body { "a replay has the same body", "A replay returns the stored body byte for byte.",
        "Stripe; CONTRACT §3" } replay::same_body;
    ietf replay_no_second_effect { "a replay has no second effect", "A retry under one key does not do the work again.",
        "IETF draft, duplicate request; Stripe; CONTRACT §1" } replay::no_second_effect;
    hapax replay_marked { "a replay is marked", "A replay has `Idempotency-Replayed: true`, and a first answer does not.",
        "Stripe; CONTRACT §3" } replay::marked;
    ietf failure_replayed { "a failure is replayed", "The outcome of a request that began is stored, 5xx included.",
        "IETF draft, duplicate request (success or an error); Stripe; CONTRACT §3" } replay::failure_replayed;
    ietf other_body_422 { "another body under a key is refused", "A key used with a different payload gets 422.",
        "IETF draft, error handling; CONTRACT §3" } conflict::other_body_422;
    hapax conflict_problem { "a conflict is a problem document",
        "A conflict is application/problem+json with the code `idempotency_key_conflict`.",
        "CONTRACT §3, §10" } conflict::problem;
    hapax conflict_stored_request { "a conflict shows the stored request",
        "A conflict has `storedRequest`, a summary of the request that holds the key.",
        "CONTRACT §3" } conflict::stored_request;
    ietf conflict_changes_nothing { "a conflict changes nothing",
        "A refused request has no effect, and the first is still replayed.",
        "IETF draft, error handling; CONTRACT §3" } conflict::changes_nothing;
    hapax other_target_conflict { "another target under a key is refused",
        "A fingerprint covers method and path: the same key for another operation gets 422.",
        "Stripe; CONTRACT §2" } conflict::other_target;
    hapax json_form_ignored { "the form of JSON does not count",
        "Field order and whitespace do not make a request different.", "CONTRACT §2" } conflict::json_form_ignored;
    hapax quoted_equals_bare { "quoted and bare are one key",
        "A bare key and a quoted RFC 8941 string are the same key.",
        "IETF draft, syntax; Stripe; CONTRACT §2" } key_form::quoted_equals_bare;
    hapax empty_key_400 { "an empty key is refused", "A key has 1 to 255 characters; an empty key gets 400.",
        "CONTRACT §2" } key_form::empty;
    hapax long_key_400 { "256 characters are refused", "A key of more than 255 characters gets 400.",
        "Stripe; CONTRACT §2" } key_form::too_long;
    hapax longest_key_accepted { "255 characters are accepted", "A key of 255 characters is valid, and every character counts.",
        "Stripe; CONTRACT §2" } key_form::longest;
    hapax bad_characters_400 { "other characters are refused", "A key with control or non-ASCII characters gets 400.",
        "IETF draft, syntax (RFC 8941 string); CONTRACT §2" } key_form::bad_characters;
    hapax header_twice_400 { "two keys are refused", "A request with two key headers gets 400.", "CONTRACT §2" } key_form::twice;
    ietf key_missing_400 { "a required key is required", "A request without a required key gets 400.",
        "IETF draft, error handling; CONTRACT §2" } key_form::missing;
    ietf concurrent_one_effect { "concurrent duplicates have one effect",
        "Concurrent duplicates do the work once; each duplicate gets the result or 409.",
        "IETF draft, concurrent request; CONTRACT §3" } concurrency::one_effect;
    hapax concurrent_same_body { "concurrent duplicates get one body",
        "A duplicate waits for the first and gets the same body.", "CONTRACT §3" } concurrency::same_body;
    ietf in_flight_409 { "a duplicate in flight gets 409", "A duplicate that does not wait for a request in flight gets 409.",
        "IETF draft, error handling; CONTRACT §3 (`Prefer: wait=0`)" } concurrency::in_flight_409;
    hapax in_flight_retry_after { "409 says when to retry",
        "The 409 of a request in flight has the code `request_in_progress` and `Retry-After`.",
        "CONTRACT §3" } concurrency::in_flight_retry_after;
    hapax other_credential_other_key { "another credential has its own keys",
        "Keys are scoped to a credential: the same key of another credential is a different key.",
        "IETF draft, security considerations; CONTRACT §2" } scope::other_credential;
    hapax get_ignores_key { "GET ignores keys", "A key on GET is ignored, even a malformed one.",
        "Stripe; CONTRACT §2" } scope::get_ignores_key;
    hapax failed_validation_not_stored { "refused input is not stored",
        "After a validation failure the same key can be used for a valid request.",
        "Stripe; CONTRACT §3" } scope::failed_validation_not_stored;
    hapax expires_told { "replays show when the key expires",
        "Replays have `Idempotency-Expires`, an HTTP date at least 24 hours after the answer.",
        "Stripe (24 hours); CONTRACT §3, §4" } lifetime::expires;
    hapax late_first_sent_412 { "a retry that comes too late is refused",
        "A request with an `Idempotency-First-Sent` older than the window gets 412, and nothing runs.", "CONTRACT §3" } lifetime::late;
    ietf cut_mid_request_one_effect { "a request cut short, then retried, has one effect",
        "A client that disconnected while sending may retry under the same key.",
        "IETF draft, introduction; CONTRACT §1" } connection::cut_mid_request;
    ietf cut_before_answer_one_effect { "a request whose answer was lost, then retried, has one effect",
        "A client that never saw the answer may retry under the same key.",
        "IETF draft, introduction; Stripe; CONTRACT §1" } connection::cut_before_answer;
};
