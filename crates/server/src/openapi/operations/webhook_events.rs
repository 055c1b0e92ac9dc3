//! Received webhooks and their events.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, get, post};
use crate::routes::webhook_events::WebhookEventFilter;

/// Problems of sending a webhook.
const SENDING: &[Code] =
    &[Code::WebhookSignatureInvalid, Code::SecretUnavailable, Code::RateLimited, Code::QuotaExceeded];

pub(super) fn group() -> Group {
    let body = "The webhook as the provider sends it, signed as the source requires.";
    let operations = vec![
        post("/api/v1/webhooks/{source}", "receive_webhook", "Receive a webhook")
            .about(
                "Accepts a webhook for the source with this id. The event is stored before you get a 2xx. An event that was \
                 accepted before does nothing. Give this address to your provider.",
            )
            .any_body(body)
            .answers::<api::WebhookReceipt>(200, "The event was accepted, now or before.")
            .answers::<api::WebhookReceipt>(202, "The event was accepted and will be processed.")
            .fails_with(SENDING),
        post("/api/v1/webhooks/{workspace}/{name}", "receive_webhook_by_name", "Receive a webhook by name")
            .about("Accepts a webhook for a source addressed by workspace and name.")
            .any_body(body)
            .answers::<api::WebhookReceipt>(200, "The event was accepted, now or before.")
            .answers::<api::WebhookReceipt>(202, "The event was accepted and will be processed.")
            .fails_with(SENDING),
        get("/api/v1/webhook-events", "list_webhook_events", "List events")
            .about("Lists events that were accepted, newest first.")
            .query::<WebhookEventFilter>()
            .answers_page::<api::ReceivedWebhookSummary>("One page of events."),
        get("/api/v1/webhook-events/{source}/{event}", "get_webhook_event", "Get an event")
            .about("Returns an event with its body and outcome.")
            .answers::<api::ReceivedWebhook>(200, "The event."),
        post("/api/v1/webhook-events/{source}/{event}/reprocess", "reprocess_webhook_event", "Reprocess an event")
            .about("Processes an event again, with the current source. Completed actions are not repeated.")
            .answers::<api::ReceivedWebhookSummary>(200, "The event after processing."),
        post("/api/v1/webhook-events/reprocess", "reprocess_webhook_events", "Reprocess many events")
            .about(
                "Processes the newest events with a status again, oldest of them first. Send `nextCursor` to continue with \
                 older ones.",
            )
            .body::<api::ReprocessWebhooks>()
            .answers::<api::ReprocessedWebhooks>(200, "The events after processing.")
            .fails_with(&[Code::InvalidCursor, Code::NotFound]),
    ];
    let about = "Every webhook that a source accepts becomes an event. An event settles promises, sends signals or starts runs, once.";
    Group { tag: "Webhook events", about, examples: "webhook_events", operations }
}
