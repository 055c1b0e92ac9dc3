//! Outgoing webhooks and their outcomes.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, get, post};
use crate::routes::deliveries::DeliveryQuery;

pub(super) fn group() -> Group {
    let operations = vec![
        get("/api/v1/webhook-deliveries", "list_deliveries", "List deliveries")
            .about("Lists deliveries in the order of their runs. A page may be short although there are more.")
            .query::<DeliveryQuery>()
            .answers_page::<api::WebhookDelivery>("One page of deliveries.")
            .fails_with(&[Code::NotFound]),
        get("/api/v1/webhook-deliveries/{id}", "get_delivery", "Get a delivery")
            .about("Returns one delivery with its last outcome.")
            .answers::<api::WebhookDelivery>(200, "The delivery."),
        post("/api/v1/webhook-deliveries/{id}/redeliver", "redeliver_webhook", "Redeliver a webhook")
            .about("Sends a webhook again that was delivered or is dead, with the same `webhook-id`.")
            .body::<api::RedeliverWebhook>()
            .answers::<api::WebhookDelivery>(200, "The delivery, which is due again.")
            .fails_with(&[Code::DeliveryUnderWay, Code::SubscriptionDisabled, Code::RulingIncomplete]),
        post("/api/v1/webhook-deliveries/redeliver", "redeliver_webhooks", "Redeliver many webhooks")
            .about("Sends many webhooks of a subscription again, each with its own `webhook-id`, in the order of their runs.")
            .body::<api::RedeliverWebhooks>()
            .answers_page::<api::WebhookDelivery>("The deliveries that are due again.")
            .fails_with(&[Code::NotFound, Code::InvalidCursor, Code::SubscriptionDisabled, Code::DeliveryUnderWay, Code::RulingIncomplete]),
        post("/api/v1/webhook-deliveries/discard", "discard_webhooks", "Discard dead deliveries")
            .about("Removes dead deliveries that nobody will want. The audit log keeps which they were, who removed them, and why.")
            .body::<api::DiscardWebhooks>()
            .answers_page::<api::WebhookDelivery>("The removed deliveries, as they were.")
            .fails_with(&[Code::NotFound, Code::InvalidCursor, Code::DeliveryUnderWay, Code::RulingIncomplete]),
    ];
    let about = "A delivery is one webhook to one subscription. It is retried with growing pauses until it is delivered or dead.";
    Group { tag: "Webhook deliveries", about, examples: "webhook_deliveries", operations }
}
