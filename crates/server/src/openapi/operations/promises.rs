//! Promises, settle tokens and early settlements.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, get, post};
use crate::routes::doubts::PageOf;
use crate::routes::promises::PromiseFilter;

/// Problems of settling a promise.
pub(super) const SETTLING: &[Code] = &[
    Code::InvalidIdempotencyKey,
    Code::PromiseAlreadySettled,
    Code::PromiseTimedOut,
    Code::PromiseKeyConflict,
    Code::QuotaExceeded,
];

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/promises", "create_promise", "Create a promise")
            .about(
                "Creates a promise that belongs to no run. Any number of runs and callers can wait for it. If a settlement \
                 for its key came early, the promise is settled right away.",
            )
            .body::<api::CreatePromise>()
            .answers::<api::Promise>(201, "The promise was created.")
            .with(&["Location"])
            .fails_with(&[Code::PromiseExists, Code::PromiseKeyConflict, Code::QuotaExceeded]),
        get("/api/v1/promises", "list_promises", "List promises")
            .about("Lists promises by id.")
            .query::<PromiseFilter>()
            .answers_page::<api::Promise>("One page of promises."),
        get("/api/v1/promises/{ref}", "get_promise", "Get a promise")
            .about("Returns a promise. Send `Prefer: wait=N` to wait until it is settled.")
            .waits()
            .answers::<api::Promise>(200, "The promise as it is now.")
            .fails_with(&[Code::InvalidIdempotencyKey]),
        post("/api/v1/promises/{ref}/resolve", "resolve_promise", "Resolve a promise")
            .about(
                "Gives a promise its value. The first settlement wins; the same value again succeeds. If you address the \
                 promise by key and it does not exist yet, the value is stored until it does.",
            )
            .body::<api::ResolvePromise>()
            .answers::<api::SettledPromise>(200, "The promise is resolved.")
            .answers::<api::KeptSettlement>(202, "No promise has this key yet. The value is stored for it.")
            .fails_with(SETTLING),
        post("/api/v1/promises/{ref}/reject", "reject_promise", "Reject a promise")
            .about("Settles a promise without a value. Runs and callers that wait for it see a failure.")
            .body::<api::RejectPromise>()
            .answers::<api::SettledPromise>(200, "The promise is rejected.")
            .answers::<api::KeptSettlement>(202, "No promise has this key yet. The rejection is stored for it.")
            .fails_with(SETTLING),
        post("/api/v1/promises/{ref}/tokens", "create_settle_token", "Create a settle token")
            .about(
                "Creates a token that lets somebody without a credential settle this promise, once, with \
                 `POST /settle/{token}`. The token is shown only in this response.",
            )
            .optional_body::<api::CreateSettleToken>()
            .answers::<api::IssuedSettleToken>(201, "The token.")
            .fails_with(&[
                Code::InvalidIdempotencyKey,
                Code::PromiseAlreadySettled,
                Code::PromiseTimedOut,
                Code::QuotaExceeded,
            ]),
        post("/settle/{token}", "settle_by_token", "Settle by token")
            .about(
                "Settles the promise of a token. You need no credential. An unknown, expired or used token is always \
                 answered with `not_found`.",
            )
            .body::<api::SettleByToken>()
            .answers::<api::SettledByToken>(200, "The promise is settled.")
            .fails_with(&[Code::RateLimited]),
        get("/settle/{token}", "explain_settle_token", "Explain a settle link")
            .about("Explains how to use a settle link. The text is the same for every token, and nothing is settled.")
            .answers_text(200, "An explanation.", &["text/plain"])
            .always_found(),
        get("/api/v1/early-settlements", "list_early_settlements", "List early settlements")
            .about("Lists settlements that arrived before their promise, by key.")
            .query::<PageOf>()
            .answers_page::<api::EarlySettlement>("One page of settlements."),
        get("/api/v1/early-settlements/{key}", "get_early_settlement", "Get an early settlement")
            .about("Returns the settlement that waits for a promise with this key.")
            .answers::<api::EarlySettlement>(200, "The settlement.")
            .fails_with(&[Code::InvalidIdempotencyKey]),
    ];
    let about =
        "A promise is a value that somebody outside supplies, once: a person, a webhook, another service.";
    Group { tag: "Promises", about, examples: "promises", operations }
}
