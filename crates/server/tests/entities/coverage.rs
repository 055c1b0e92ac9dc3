//! A claim that no janitor would free after a crash is refused: when a server starts, and when a document is uploaded.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_server::ModuleOptions;
use serde_json::{Value, json};

use super::invoice_fixture::{CLOSE, Gate, INVOICE, begin_closing, billing, make, post_as, upload};
use super::support::{Role, Setup, StoreKind, TestServer};

const PAST_THE_WINDOW: Duration = Duration::from_secs(5 * 60 + 1);
const BILLING: &str = "/api/v1/entity-workflows/billing-flow";

struct ClaimPlace {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl ClaimPlace {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        ClaimPlace { clock: clock.clone(), store: Arc::new(MemoryStore::new(clock)) }
    }

    fn setup(&self, modules: &[&str]) -> Setup {
        let modules = modules.iter().map(|name| ModuleOptions::new(*name)).collect();
        Setup { clock: self.clock.clone(), modules, ..Setup::default() }
    }

    async fn node(&self, modules: &[&str]) -> TestServer {
        TestServer::over(self.store.clone(), StoreKind::Memory, self.setup(modules)).await
    }

    /// Why a server with these modules does not start.
    async fn refusal(&self, modules: &[&str]) -> String {
        match TestServer::try_launch(self.store.clone(), self.setup(modules)).await {
            Ok(_) => panic!("it starts with {modules:?}"),
            Err(error) => error.to_string(),
        }
    }
}

fn workflow_of_module(module: &str) -> Value {
    let mut document = billing();
    document["module"] = json!(module);
    document
}

async fn put(server: &TestServer, document: &Value) -> super::support::Answer {
    server.send("PUT", BILLING, Some(document.to_string()), &server.admin, &[]).await
}

/// CONTRACT §8: coverage counts open claims as well as declared ones. No entity stays claimed.
#[tokio::test]
async fn a_server_without_a_janitor_for_an_open_claim_does_not_start() {
    let place = ClaimPlace::new();
    let crashing = place.node(&["billing", "archive"]).await;
    let gate = Gate::register(&crashing.engine, "close");
    upload(&crashing, &billing()).await;
    make(&crashing, "invoice", "inv-1", "approved").await;
    begin_closing(&crashing, &gate).await;
    // A server with both modules can move the document: the janitor of the old one still runs here.
    let moved = put(&crashing, &workflow_of_module("archive")).await;
    assert_eq!(moved.status, 200, "{}", moved.text());
    crashing.engine.kill();

    let refusal = place.refusal(&["archive"]).await;
    assert!(refusal.contains("billing-flow") && refusal.contains("closing"), "{refusal}");
    assert!(refusal.contains("module billing") || refusal.contains("\"billing\""), "{refusal}");
    let node = place.node(&["billing", "archive"]).await;
    let gate = Gate::register(&node.engine, "close");
    place.clock.advance(PAST_THE_WINDOW);
    node.until_shown(INVOICE, |shown| shown["entity"]["status"] == "approved").await;
    gate.let_through(1);
    let closed = node.post(CLOSE, &json!({}), &[]).await;
    assert_eq!((closed.status, gate.entered()), (200, 1), "{}", closed.text());
    // Now nothing is open, and the old module is not needed any more.
    place.node(&["archive"]).await;
}

/// The same check answers an upload that would move a document away from the only janitor of its open claims.
#[tokio::test]
async fn an_upload_that_would_leave_an_open_claim_without_a_janitor_is_rejected() {
    let place = ClaimPlace::new();
    let without = place.node(&["archive"]).await;
    let with = place.node(&["billing", "archive"]).await;
    let gate = Gate::register(&with.engine, "close");
    Gate::register(&without.engine, "close");
    upload(&with, &billing()).await;
    make(&with, "invoice", "inv-1", "approved").await;
    begin_closing(&with, &gate).await;
    let refused = put(&without, &workflow_of_module("archive")).await;
    assert_eq!(refused.told(), (422, "uncovered_claim_state".into()), "{}", refused.text());
    let told = refused.json();
    assert_eq!(
        (&told["workflow"], &told["module"], &told["claimInto"]),
        (&json!("billing-flow"), &json!("billing"), &json!("closing"))
    );
    assert_eq!(with.get(BILLING).await.json()["module"], "billing", "nothing was changed");
    gate.let_through(1);
    with.until_shown(INVOICE, |shown| shown["entity"]["status"] == "closed").await;
    let moved = put(&without, &workflow_of_module("archive")).await;
    assert_eq!(moved.status, 200, "nothing is open any more: {}", moved.text());
}

/// Open claims of another workspace under a workflow of the same name do not count.
#[tokio::test]
async fn an_upload_is_not_refused_for_an_open_claim_of_another_workspace() {
    let place = ClaimPlace::new();
    let without = place.node(&["archive"]).await;
    let with = place.node(&["billing", "archive"]).await;
    let gate = Gate::register(&with.engine, "close");
    Gate::register(&without.engine, "close");
    upload(&with, &billing()).await;
    make(&with, "invoice", "inv-1", "approved").await;
    begin_closing(&with, &gate).await;
    let neighbour = without.key("globex", Role::Admin).await;
    let made = post_as(&without, &neighbour, "/api/v1/entity-workflows", workflow_of_module("archive")).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let refused = put(&without, &workflow_of_module("archive")).await;
    assert_eq!(refused.told(), (422, "uncovered_claim_state".into()), "its own claim: {}", refused.text());
    gate.let_through(1);
    with.until_shown(INVOICE, |shown| shown["entity"]["status"] == "closed").await;
}

/// The error of a failed start lists everything that is missing at once.
#[tokio::test]
async fn a_server_that_does_not_start_names_every_workflow_that_is_not_covered() {
    let place = ClaimPlace::new();
    let before = place.node(&["billing", "treasury", "shipping"]).await;
    let gate = Gate::register(&before.engine, "close");
    upload(&before, &billing()).await;
    for (name, module) in [("payouts", "treasury"), ("parcels", "shipping")] {
        let document = json!({
            "name": name, "module": module, "entity": name, "status_types": ["ready", "sending", "sent"],
            "steps": [{
                "step_id": 1, "step_key": "send", "status": "ready", "successful_state": "sent",
                "claim_state": ["sending", "ready"], "action": "echo",
            }],
        });
        upload(&before, &document).await;
    }
    make(&before, "invoice", "inv-1", "approved").await;
    begin_closing(&before, &gate).await;
    assert_eq!(put(&before, &workflow_of_module("treasury")).await.status, 200);
    before.engine.kill();
    let refusal = place.refusal(&[]).await;
    for named in ["billing-flow", "payouts", "parcels", "billing", "treasury", "shipping"] {
        assert!(refusal.contains(named), "{named} is missing: {refusal}");
    }
    let refusal = place.refusal(&["shipping", "treasury"]).await;
    assert!(refusal.contains("billing-flow") && !refusal.contains("parcels"), "{refusal}");
}
