//! Claims after a crash, and the janitor that frees them.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_server::ModuleOptions;
use serde_json::{Value, json};

use super::invoice_fixture::{CLOSE, Gate, INVOICE, action, begin_closing, billing, make, told, upload};
use super::support::{Role, Setup, StoreKind, TestServer};

const PAST_THE_WINDOW: Duration = Duration::from_secs(5 * 60 + 1);

/// Two nodes over one store, at a time that the test moves; the first one holds a claim and is killed.
async fn after_a_crash(document: &Value) -> (TestServer, Arc<ManualClock>, Arc<Gate>, String) {
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let setup = || Setup { clock: clock.clone(), ..Setup::default() };
    let crashing = TestServer::over(store.clone(), StoreKind::Memory, setup()).await;
    let held = Gate::register(&crashing.engine, "close");
    upload(&crashing, document).await;
    make(&crashing, "invoice", "inv-1", "approved").await;
    let operation = begin_closing(&crashing, &held).await;
    crashing.engine.kill();
    let node = TestServer::over(store, StoreKind::Memory, setup()).await;
    let gate = Gate::register(&node.engine, "close");
    (node, clock, gate, operation)
}

/// S1.4, S1.16, S1.34, S1.35, S1.38, S1.40, S1.41: stuck in `closing`, reverted once the window has passed, and the history tells it.
#[tokio::test]
async fn a_claim_left_by_a_crash_is_reverted_after_the_window_and_recorded() {
    let (server, clock, gate, operation) = after_a_crash(&billing()).await;
    let stuck = server.get(INVOICE).await.json();
    assert_eq!(
        (&stuck["entity"]["status"], &stuck["pendingOperation"]["id"]),
        (&json!("closing"), &json!(operation))
    );
    assert_eq!(server.post(CLOSE, &json!({}), &[]).await.told(), (409, "claim_failed".into()));
    clock.advance(Duration::from_secs(4 * 60));
    assert_eq!(server.engine.free_stale_claims("billing").await.unwrap().reverted, 0, "within the window");
    assert_eq!(server.get(INVOICE).await.json()["pendingOperation"]["age"], "4m");
    clock.advance(PAST_THE_WINDOW);
    // The janitor runs by itself when the time has come.
    let freed = server.until_shown(INVOICE, |shown| shown["entity"]["status"] == "approved").await;
    assert_eq!(
        (&freed["pendingOperation"], &action(&freed, "close")["enabled"]),
        (&json!(null), &json!(true))
    );
    let shown = server.get(&format!("/api/v1/operations/{operation}")).await.json();
    assert_eq!(shown["operation"]["status"], "REVERTED");
    assert_eq!(told(&shown["history"]), ["began", "reverted"]);
    assert_eq!(shown["history"][1]["status"], "approved");
    assert!(shown["history"][1]["lastHeardAt"].is_string(), "{shown}");
    let listed = server.get("/api/v1/operations?status=REVERTED&type=invoice&stepKey=close").await.json();
    assert_eq!(listed["items"][0]["id"], operation.as_str());
    let watcher = server.key(hapax_server::identity::INSTALLATION, Role::Viewer).await;
    let metrics = server.send("GET", "/metrics", None, &watcher, &[]).await.text();
    assert!(metrics.contains("hapax_janitor_releases_total 1\n"), "{metrics}");
    gate.let_through(1);
    let done = server.post(CLOSE, &json!({}), &[]).await;
    assert_eq!((done.status, &done.json()["entity"]["status"]), (200, &json!("closed")), "{}", done.text());
}

fn holding() -> Value {
    let mut document = billing();
    document["steps"][1]["recovery"] = json!("hold");
    document
}

/// CONTRACT §8, `recovery: hold`: it is shown as in doubt, holds the entity, and people decide.
#[tokio::test]
async fn a_held_operation_is_in_doubt_until_people_decide() {
    for (resolution, status, entity) in
        [("happened", "DONE", "closed"), ("did_not_happen", "REVERTED", "approved")]
    {
        let (server, clock, _, operation) = after_a_crash(&holding()).await;
        clock.advance(PAST_THE_WINDOW);
        let held =
            server.until_shown(INVOICE, |shown| shown["pendingOperation"]["status"] == "IN_DOUBT").await;
        assert_eq!(action(&held, "close")["code"], "operation_in_doubt");
        let refused = server.post(CLOSE, &json!({}), &[]).await;
        assert_eq!(refused.told(), (409, "claim_failed".into()));
        let watcher = server.key(hapax_server::identity::INSTALLATION, Role::Viewer).await;
        let metrics = server.send("GET", "/metrics", None, &watcher, &[]).await.text();
        assert!(metrics.contains("hapax_operations_in_doubt 1\n"), "{metrics}");
        let path = format!("/api/v1/operations/{operation}/resolve");
        let asked = json!({ "attempt": 1, "resolution": resolution, "result": { "seen": 1 }, "reason": "" });
        assert_eq!(server.post(&path, &asked, &[]).await.told(), (400, "ruling_incomplete".into()));
        let operator = server.key("acme", Role::Operator).await;
        let ruling = json!({ "resolution": resolution, "result": { "seen": 1 }, "reason": "asked the bank" });
        assert_eq!(server.post(&path, &ruling, &[]).await.told(), (400, "invalid_request".into()));
        let of_attempt = |attempt: u32| {
            let mut asked = ruling.clone();
            asked["attempt"] = attempt.into();
            asked
        };
        let other = server.post(&path, &of_attempt(2), &[]).await;
        assert_eq!(other.told(), (409, "operation_not_in_doubt".into()));
        let asked = of_attempt(1);
        let alone = super::invoice_fixture::post_as(&server, &operator, &path, asked.clone()).await;
        if resolution == "did_not_happen" {
            // It is irreversible: a manager must decide, whoever else agrees.
            assert_eq!(alone.told(), (403, "needs_manager".into()));
            let mut together = asked.clone();
            together["by"] = "grace".into();
            let refused = super::invoice_fixture::post_as(&server, &operator, &path, together.clone()).await;
            assert_eq!(refused.told(), (403, "needs_manager".into()));
            together["secondedBy"] = "ada".into();
            let refused = super::invoice_fixture::post_as(&server, &operator, &path, together).await;
            assert_eq!(refused.told(), (400, "invalid_request".into()));
            let manager = server.key("acme", Role::Manager).await;
            let decided = super::invoice_fixture::post_as(&server, &manager, &path, asked.clone()).await;
            assert_eq!(decided.status, 200, "{}", decided.text());
        } else {
            assert_eq!(alone.status, 200, "{}", alone.text());
        }
        let shown = server.get(&format!("/api/v1/operations/{operation}")).await.json();
        assert_eq!(shown["operation"]["status"], status, "{shown}");
        assert_eq!(told(&shown["history"])[..3], ["began", "held", "resolved"], "{shown}");
        assert_eq!(shown["history"][2]["reason"], "asked the bank");
        assert_eq!(server.get(INVOICE).await.json()["entity"]["status"], entity);
        assert_eq!(server.post(&path, &asked, &[]).await.told(), (409, "doubt_resolved".into()));
    }
}

/// S1.43, S1.42, S1.44, S1.45, S1.46, S1.47: a server that knows of a claim which no janitor covers does not start, and names workflow and module.
#[tokio::test]
async fn a_server_without_the_janitor_of_a_declared_claim_refuses_to_start() {
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let first = TestServer::over(
        store.clone(),
        StoreKind::Memory,
        Setup { clock: clock.clone(), ..Setup::default() },
    )
    .await;
    Gate::register(&first.engine, "close");
    upload(&first, &billing()).await;
    let shown = first.get("/api/v1/entity-workflows/billing-flow").await.json();
    let claims = json!([{ "claimInto": "closing", "revertTo": "approved", "coveredBy": "billing" }]);
    assert_eq!(shown["claims"], claims);
    let setup = Setup { clock, modules: vec![ModuleOptions::new("shipping")], ..Setup::default() };
    let refused = TestServer::try_launch(store, setup).await.expect_err("billing has no janitor");
    let text = refused.to_string();
    assert!(
        text.contains("billing-flow") && text.contains("module billing") && text.contains("closing"),
        "{text}"
    );
}
