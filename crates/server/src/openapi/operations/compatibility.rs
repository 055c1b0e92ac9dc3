//! Endpoints that are specified elsewhere.

use hapax_api as api;
use hapax_api::Code;
use serde_json::json;

use super::promises::SETTLING;
use crate::openapi::operation::{Group, Operation, get, patch, post};

fn with_key(operation: Operation, strict: &str) -> Operation {
    operation
        .header("idempotency-key", "Key of this creation or completion.", json!({ "type": "string" }))
        .header("strict", strict, json!({ "type": "boolean" }))
}

pub(super) fn group() -> Group {
    let create = post("/promises", "create_durable_promise", "Create a durable promise")
        .about("Creates a durable promise. Creating it again with the same `idempotency-key` returns it.");
    let complete = patch("/promises/{id}", "complete_durable_promise", "Complete a durable promise").about(
        "Completes a durable promise. Completing it again with the same `idempotency-key` returns it.",
    );
    let operations = vec![
        with_key(create, "`true`: an existing promise counts only while it is pending.")
            .body::<api::CreateDurablePromise>()
            .answers::<api::DurablePromise>(201, "The promise was created.")
            .answers::<api::DurablePromise>(200, "The promise was created before with this key.")
            .fails_with(&[Code::PromiseExists, Code::InvalidIdempotencyKey, Code::QuotaExceeded]),
        get("/promises/{id}", "get_durable_promise", "Get a durable promise")
            .about("Returns a durable promise.")
            .answers::<api::DurablePromise>(200, "The promise."),
        with_key(
            complete,
            "`true`: an earlier completion counts only if it asked for the same state, and a timeout never does.",
        )
        .body::<api::CompleteDurablePromise>()
        .answers::<api::DurablePromise>(200, "The promise is completed.")
        .fails_with(&[Code::PromiseCompletionRefused, Code::InvalidIdempotencyKey]),
        get("/api/tenants/{slug}/promises/{ref}", "get_promise_of_tenant", "Get a promise of a tenant")
            .about("Same as `GET /api/v1/promises/{ref}`, with the workspace in the path.")
            .waits()
            .answers::<api::Promise>(200, "The promise as it is now.")
            .fails_with(&[Code::InvalidIdempotencyKey]),
        post(
            "/api/tenants/{slug}/promises/{ref}/resolve",
            "resolve_promise_of_tenant",
            "Resolve a promise of a tenant",
        )
        .about("Same as `POST /api/v1/promises/{ref}/resolve`, with the workspace in the path.")
        .body::<api::ResolvePromise>()
        .answers::<api::SettledPromise>(200, "The promise is resolved.")
        .answers::<api::KeptSettlement>(202, "No promise has this key yet. The value is stored for it.")
        .fails_with(SETTLING),
        post(
            "/api/tenants/{slug}/promises/{ref}/reject",
            "reject_promise_of_tenant",
            "Reject a promise of a tenant",
        )
        .about("Same as `POST /api/v1/promises/{ref}/reject`, with the workspace in the path.")
        .body::<api::RejectPromise>()
        .answers::<api::SettledPromise>(200, "The promise is rejected.")
        .answers::<api::KeptSettlement>(202, "No promise has this key yet. The rejection is stored for it.")
        .fails_with(SETTLING),
    ];
    let about = "Endpoints that other specifications define: durable promises, and promises by tenant. Use the chapters above for new code.";
    Group { tag: "Compatibility", about, examples: "compatibility", operations }
}
