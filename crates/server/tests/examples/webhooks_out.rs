//! Subscriptions, and the deliveries to them.

use serde_json::{Value, json};

use super::recorder::{Recorder, call};
use super::support::{Receiver, TestServer};

#[tokio::test]
async fn the_examples_of_subscriptions_are_what_a_server_answers() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let mut examples = Recorder::new(&server, "webhook_subscriptions");
    let asked = json!({
        "name": "billing", "url": receiver.url(), "events": ["run.completed", "run.failed"],
        "description": "Tells the billing team about orders.",
    });
    let made = examples.send(call("create_subscription").body(asked)).await;
    let id = made["subscription"]["id"].as_str().unwrap().to_owned();
    examples.send(call("list_subscriptions")).await;
    examples.send(call("get_subscription").at(&id)).await;
    examples.send(call("test_subscription").at(&id)).await;
    examples.send(call("rotate_subscription").at(&id).body(json!({}))).await;
    let disabling = json!({ "status": "disabled", "reason": "The receiver moves to another host." });
    examples.send(call("change_subscription").at(&id).body(disabling)).await;
    examples.send(call("delete_subscription").at(&id).query("reason=no-longer-needed")).await;
    examples.finish();
}

#[tokio::test]
async fn the_examples_of_deliveries_are_what_a_server_answers() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let mut examples = Recorder::new(&server, "webhook_deliveries");
    let asked = json!({ "name": "billing", "url": receiver.url(), "events": ["run.completed"] });
    let made = server.post("/api/v1/webhook-subscriptions", &asked, &[]).await.json();
    let subscription = made["subscription"]["id"].as_str().unwrap().to_owned();
    let run = server.start(&server.echo().await, json!({ "order": "4711" })).await;
    server.until(&run, "COMPLETED").await;
    let delivered = format!("/api/v1/webhook-deliveries?subscription={subscription}&status=delivered");
    let has_one = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 1);
    server.until_shown(&delivered, has_one).await;
    let query = format!("subscription={subscription}&status=delivered");
    let listed = examples.send(call("list_deliveries").query(query)).await;
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    examples.send(call("get_delivery").at(&id)).await;
    let reason = "The receiver lost its database.";
    examples.send(call("redeliver_webhook").at(&id).body(json!({ "reason": reason }))).await;
    receiver.until(2).await;
    server.until_shown(&delivered, has_one).await;
    let many =
        json!({ "subscriptionId": subscription, "status": "delivered", "limit": 10, "reason": reason });
    examples.send(call("redeliver_webhooks").body(many)).await;
    receiver.until(3).await;
    server.until_shown(&delivered, has_one).await;
    // A receiver that is gone for good answers 410, and its deliveries are dead.
    receiver.usually(410);
    let run = server.start(&server.echo().await, json!({ "order": "4712" })).await;
    server.until(&run, "COMPLETED").await;
    let dead = format!("/api/v1/webhook-deliveries?subscription={subscription}&status=dead");
    server.until_shown(&dead, has_one).await;
    let discard =
        json!({ "subscriptionId": subscription, "limit": 10, "reason": "The receiver is gone for good." });
    examples.send(call("discard_webhooks").body(discard)).await;
    examples.finish();
}
