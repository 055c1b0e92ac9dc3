//! Outgoing webhook subscriptions.

use hapax_api as api;
use hapax_api::Code;

use crate::openapi::operation::{Group, delete, get, patch, post};
use crate::routes::doubts::PageOf;
use crate::routes::request::Deletion;

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/webhook-subscriptions", "create_subscription", "Create a subscription")
            .about("Creates a subscription. The signing secret is shown only in this response.")
            .body::<api::CreateSubscription>()
            .answers::<api::IssuedSubscription>(201, "The subscription and its secret.")
            .with(&["Location"])
            .fails_with(&[Code::NameTaken, Code::AddressNotAllowed, Code::QuotaExceeded]),
        get("/api/v1/webhook-subscriptions", "list_subscriptions", "List subscriptions")
            .about("Lists subscriptions without their secrets, and without deleted ones. A page may be short although there are more.")
            .query::<PageOf>()
            .answers_page::<api::Subscription>("One page of subscriptions."),
        get("/api/v1/webhook-subscriptions/{id}", "get_subscription", "Get a subscription")
            .about("Returns a subscription without its secret.")
            .answers::<api::Subscription>(200, "The subscription.")
            .with(&["ETag"]),
        post("/api/v1/webhook-subscriptions/{id}/rotate", "rotate_subscription", "Rotate a signing secret")
            .about("Gives a subscription a new secret. Both secrets sign for a while, so that you can switch the receiver.")
            .optional_body::<api::RotateSubscription>()
            .answers::<api::IssuedSubscription>(200, "The subscription and its new secret."),
        patch("/api/v1/webhook-subscriptions/{id}", "change_subscription", "Change a subscription")
            .about(
                "Changes the fields you send. Set `status` to `disabled` to stop sending webhooks: waiting deliveries become \
                 dead, and you can redeliver them once the subscription is enabled again.",
            )
            .body::<api::ChangeSubscription>()
            .answers::<api::Subscription>(200, "The subscription after the change.")
            .with(&["ETag"])
            .fails_with(&[Code::NameTaken, Code::AddressNotAllowed]),
        delete("/api/v1/webhook-subscriptions/{id}", "delete_subscription", "Delete a subscription")
            .about("Deletes a subscription. It is no longer listed, but its deliveries are.")
            .query::<Deletion>()
            .answers::<api::Subscription>(200, "The deleted subscription.")
            .with(&["ETag"]),
        post("/api/v1/webhook-subscriptions/{id}/test", "test_subscription", "Send a test webhook")
            .about("Sends `test.ping` once, now, and returns what the receiver answered. A test changes nothing about the subscription.")
            .answers::<api::TestedSubscription>(200, "What the receiver answered."),
    ];
    let about = "A subscription sends you signed webhooks when runs end or steps come into doubt.";
    Group { tag: "Webhook subscriptions", about, examples: "webhook_subscriptions", operations }
}
