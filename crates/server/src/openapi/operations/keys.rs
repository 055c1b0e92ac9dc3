//! Idempotency keys and their policy.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, get, post};
use crate::routes::keys::CredentialQuery;
use crate::routes::why::WhyQuery;

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/why", "explain", "Explain a key, subject or id")
            .about(
                "Explains what a run id, idempotency key, subject, promise, operation, entity or provider's event id names: the \
                 tree of runs behind it, what each open run waits for, since when and until when, and the command that settles it.",
            )
            .query::<WhyQuery>()
            .answers::<api::Why>(200, "What the query names, and the family of the run behind it.")
            .fails_with(&[Code::NotFound]),
        get("/api/v1/keys/{scope}/{key}", "get_key", "Look up a key")
            .about("Shows what a key stands for: who used it, when, for what, how often it was replayed, and when it expires.")
            .query::<CredentialQuery>()
            .answers::<api::KeyRecord>(200, "The key.")
            .fails_with(&[Code::InvalidIdempotencyKey]),
        post("/api/v1/keys/{scope}/{key}/release", "release_key", "Release a key")
            .about("Frees a key before it expires, so that it can be used again. What it names must have ended.")
            .query::<CredentialQuery>()
            .body::<api::ReleaseKey>()
            .answers::<api::KeyRecord>(200, "The key is free. This is what it stood for.")
            .fails_with(&[Code::OperationPending]),
        get("/api/v1/idempotency-policy", "get_idempotency_policy", "Get the idempotency policy")
            .about("Returns the rules for idempotency keys on this server: lengths, scopes, lifetimes and headers.")
            .answers::<api::IdempotencyPolicy>(200, "The policy."),
    ];
    let about = "An idempotency key makes a request happen once, however often you send it.";
    Group { tag: "Idempotency keys", about, examples: "keys", operations }
}
