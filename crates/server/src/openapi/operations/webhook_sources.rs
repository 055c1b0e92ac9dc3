//! Webhook sources: permitted senders and the actions of their events.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, delete, get, patch, post, put};
use crate::routes::doubts::PageOf;
use crate::routes::request::Deletion;

/// Problems of uploading a source.
const UPLOADING: &[Code] = &[Code::SourceInvalid, Code::QuotaExceeded, Code::Concurrency];

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/webhook-sources", "create_source", "Create a source")
            .about(
                "Uploads a webhook source as JSON or YAML. Uploading the same content again returns the existing source; \
                 different content under the same name fails with `name_taken`. The schema is at \
                 `/schemas/webhook-source.json`.",
            )
            .document::<api::PutWebhookSource>()
            .answers::<api::WebhookSource>(201, "The source was created.")
            .with(&["ETag", "Location"])
            .answers::<api::WebhookSource>(200, "The source already exists, unchanged.")
            .with(&["ETag", "Location"])
            .fails_with(&[Code::NameTaken])
            .fails_with(UPLOADING),
        get("/api/v1/webhook-sources", "list_sources", "List sources")
            .about("Lists sources by id, without deleted ones. A page may be short although there are more.")
            .query::<PageOf>()
            .answers_page::<api::WebhookSourceSummary>("One page of sources."),
        get("/api/v1/webhook-sources/{name}", "get_source", "Get a source")
            .about("Returns a source with its document.")
            .answers::<api::WebhookSource>(200, "The source.")
            .with(&["ETag"]),
        put("/api/v1/webhook-sources/{name}", "replace_source", "Replace a source")
            .about("Replaces the document of a source. Its address stays the same, and new events follow the new document.")
            .document::<api::PutWebhookSource>()
            .answers::<api::WebhookSource>(200, "The source after the change.")
            .with(&["ETag"])
            .fails_with(UPLOADING),
        patch("/api/v1/webhook-sources/{name}", "change_source", "Enable or disable a source")
            .about(
                "Sets the status of a source. A disabled source rejects its webhooks. Events that were accepted before are \
                 still processed.",
            )
            .body::<api::ChangeWebhookSource>()
            .answers::<api::WebhookSource>(200, "The source after the change.")
            .with(&["ETag"]),
        delete("/api/v1/webhook-sources/{name}", "delete_source", "Delete a source")
            .about(
                "Deletes a source. Its webhooks are rejected, and it is no longer listed. Events that were accepted before \
                 are still processed and listed. A new source with the same name gets the same address, and does not \
                 accept events that came before.",
            )
            .query::<Deletion>()
            .answers::<api::WebhookSource>(200, "The source as it was.")
            .with(&["ETag"]),
    ];
    let about = "A source describes a provider that sends you webhooks: how its webhooks are signed, and what they do when they arrive.";
    Group { tag: "Webhook sources", about, examples: "webhook_sources", operations }
}
