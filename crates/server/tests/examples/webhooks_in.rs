//! Webhook sources, and the events that they accept.

use std::sync::Arc;

use hapax_documents::{HostServices, Secret, Secrets};
use hapax_engine::Failure;
use hapax_engine::model::WorkspaceId;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::recorder::{Recorder, call};
use super::support::{Setup, TestServer};

/// A carrier that reports parcels. Its webhooks are not signed, which keeps the test short.
fn carrier() -> Value {
    json!({
        "name": "carrier", "signature": { "scheme": "none", "allowUnsigned": true },
        "eventId": { "pointer": "/id" },
        "actions": [{ "settle": { "key": "carrier:{{ body.parcel }}", "value": "{{ body }}" } }],
    })
}

#[tokio::test]
async fn the_examples_of_webhook_sources_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    let mut examples = Recorder::new(&server, "webhook_sources");
    examples.send(call("create_source").body(carrier())).await;
    examples.send(call("create_source").body(carrier())).await;
    examples.send(call("list_sources")).await;
    examples.send(call("get_source").at("carrier")).await;
    let version = server.get("/api/v1/webhook-sources/carrier").await.header("etag").unwrap().to_owned();
    let mut changed = carrier();
    changed["actions"][0]["settle"]["key"] = json!("parcel:{{ body.parcel }}");
    examples.send(call("replace_source").at("carrier").header("if-match", version).body(changed)).await;
    let disabling = json!({ "status": "disabled", "reason": "The carrier rotates its secret." });
    examples.send(call("change_source").at("carrier").body(disabling)).await;
    examples.send(call("delete_source").at("carrier").query("reason=changed-carriers")).await;
    examples.finish();
}

const SECRET: &str = "the secret of a shop";

struct Safe;

#[async_trait::async_trait]
impl Secrets for Safe {
    async fn get_secret(&self, _: &WorkspaceId, _: &str) -> Result<Secret, Failure> {
        Ok(SECRET.to_owned().into())
    }
}

/// As GitHub signs.
fn sign(body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[tokio::test]
async fn the_examples_of_webhook_events_are_what_a_server_answers() {
    let services = HostServices::new().secrets(Arc::new(Safe));
    let server = TestServer::memory_with(Setup { services, ..Setup::default() }).await;
    let mut examples = Recorder::new(&server, "webhook_events");
    let made = server.post("/api/v1/webhook-sources", &carrier(), &[]).await.json();
    let path = made["path"].as_str().unwrap();
    let event = |id: &str| json!({ "id": id, "parcel": "ch_19", "status": "delivered" });
    let source = path.rsplit('/').next().unwrap();
    examples.send(call("receive_webhook").at(source).by("").body(event("evt_1"))).await;
    let signed = json!({
        "name": "shop", "preset": "github", "secrets": ["secret://shop"], "eventId": { "pointer": "/id" },
        "actions": [{ "settle": { "key": "shop:{{ body.parcel }}", "value": "{{ body }}" } }],
    });
    assert_eq!(server.post("/api/v1/webhook-sources", &signed, &[]).await.status, 201);
    let shop = call("receive_webhook_by_name").at("acme").at("shop").by("");
    let signature = sign(&event("evt_2").to_string());
    examples.send(shop.header("x-hub-signature-256", signature).body(event("evt_2"))).await;
    examples.send(call("list_webhook_events").query("source=carrier&limit=1")).await;
    examples.send(call("get_webhook_event").at("carrier").at("evt_1")).await;
    examples.send(call("reprocess_webhook_event").at("carrier").at("evt_1")).await;
    let status = server.get("/api/v1/webhook-events/carrier/evt_1").await.json()["status"].clone();
    let many = json!({ "source": "carrier", "status": status, "limit": 10 });
    examples.send(call("reprocess_webhook_events").body(many)).await;
    examples.finish();
}
