//! Irreversible steps: who may repeat one that may have happened.

use std::sync::{Arc, Mutex};

use hapax_engine::Failure;
use hapax_engine::limits::MAX_ACTION_TRIES;
use hapax_engine::runtime::{ActionAnswer, StepCall};
use serde_json::json;

use super::invoice_fixture::{action, make, post_as, upload};
use super::support::{Role, TestServer};

const PAYOUT: &str = "/api/v1/entities/payout/po-1";

/// How often one operation enters its action if the outcome stays unknown.
const TRIES: usize = MAX_ACTION_TRIES as usize;

/// A payout whose bank is silent this many times, and then does it. Returns the effect keys of the
/// action.
async fn with_payout(server: &TestServer, silences: usize, effect: &str) -> Arc<Mutex<Vec<String>>> {
    let entered = Arc::new(Mutex::new(Vec::new()));
    let keys = entered.clone();
    let code = move |call: StepCall| {
        let before = {
            let mut keys = keys.lock().unwrap();
            keys.push(call.idempotency_key().as_str().to_owned());
            keys.len() - 1
        };
        async move {
            match before < silences {
                true => Err(Failure::unknown("the bank hung up").with_code("bank_silent")),
                false => ActionAnswer::done(json!({ "sent": true })),
            }
        }
    };
    server.engine.register_action("SendPayout", code).unwrap();
    let document = json!({
        "name": "payouts", "module": "billing", "entity": "payout", "status_types": ["ready", "sending", "sent"],
        "steps": [{
            "step_id": 1, "step_key": "send", "status": "ready", "successful_state": "sent", "claim_state": ["sending", "ready"],
            "action": "SendPayout", "irreversible": true, "effect": effect,
        }],
    });
    upload(server, &document).await;
    make(server, "payout", "po-1", "ready").await;
    entered
}

/// A payout whose bank never said whether it did it: only an override takes it further.
pub async fn with_failed_payout(server: &TestServer) {
    with_payout(server, TRIES, "idempotent").await;
    let failed = post_as(server, &server.admin, &format!("{PAYOUT}/steps/send"), json!({})).await;
    assert_eq!(failed.told(), (502, "action_failed".into()));
}

/// S2.46, S2.48: the existing operation is shown before anything may be done; a new key needs a manager's override, with a reason, which is audited.
#[tokio::test]
async fn an_irreversible_step_that_may_have_happened_is_repeated_by_a_manager_only() {
    let server = TestServer::sqlite().await;
    let entered = with_payout(&server, TRIES, "idempotent").await;
    let (support, manager) =
        (server.key("acme", Role::Operator).await, server.key("acme", Role::Manager).await);
    let send = format!("{PAYOUT}/steps/send");
    let failed = post_as(&server, &support, &send, json!({ "idempotencyKey": "first" })).await;
    assert_eq!(failed.told(), (502, "action_failed".into()));
    assert_eq!(failed.json()["failure"]["code"], "bank_silent");
    let first = failed.json()["operation"]["id"].as_str().unwrap().to_owned();
    let recorded = server.get(&format!("/api/v1/operations/{first}")).await.json();
    let key = recorded["operation"]["effectKey"].as_str().unwrap().to_owned();
    assert!(failed.text().contains(&key), "who asks again is told the key: {}", failed.text());
    assert_eq!(
        *entered.lock().unwrap(),
        vec![key.clone(); TRIES],
        "tried again, each time under the same key"
    );

    let shown = server.send("GET", PAYOUT, None, &support, &[]).await.json();
    let button = action(&shown, "send");
    assert_eq!((&button["enabled"], &button["code"]), (&json!(false), &json!("override_required")));
    assert_eq!(button["operationId"], first.as_str());
    assert_eq!(shown["entity"]["status"], "ready", "S1.31: released");

    let again = post_as(&server, &support, &send, json!({ "idempotencyKey": "second" })).await;
    assert_eq!(again.told(), (403, "override_required".into()));
    assert_eq!(again.json()["operation"]["id"], first.as_str());
    let same = post_as(&server, &support, &send, json!({ "idempotencyKey": "first" })).await;
    assert_eq!(same.told(), (502, "action_failed".into()), "the same key is told what is recorded");
    assert_eq!((&same.json()["replayed"], &same.json()["operation"]["id"]), (&json!(true), &json!(first)));

    let over = format!("{send}/override");
    let reason = json!({ "reason": "the bank says it never arrived", "idempotencyKey": "third" });
    let refused = post_as(&server, &support, &over, reason.clone()).await;
    assert_eq!(refused.told(), (403, "forbidden".into()));
    assert_eq!(refused.json()["requiredRole"], "manager");
    for (bad, code) in [
        (json!({}), "invalid_request"),
        (json!({ "reason": "" }), "ruling_incomplete"),
        (json!({ "reason": "  " }), "ruling_incomplete"),
        (json!({ "reason": "x".repeat(4097) }), "invalid_request"),
    ] {
        let refused = post_as(&server, &manager, &over, bad).await;
        assert_eq!(refused.told(), (400, code.into()), "{}", refused.text());
    }
    assert_eq!(entered.lock().unwrap().len(), TRIES, "nothing was done meanwhile");
    let done = post_as(&server, &manager, &over, reason).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.json()["operation"]["result"], json!({ "sent": true }));
    let entered = entered.lock().unwrap().clone();
    assert_eq!(entered.len(), TRIES + 1);
    assert_ne!(entered[TRIES], key, "a manager's word begins a new effect");
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let entry =
        audit["items"].as_array().unwrap().iter().find(|entry| entry["what"] == "overridden").unwrap();
    assert_eq!(entry["reason"], "the bank says it never arrived");
    assert_eq!((&entry["actor"]["role"], &entry["target"]), (&json!("manager"), &json!(first)));
    assert_eq!(entry["entity"], json!({ "type": "payout", "id": "po-1" }));
    let history = server
        .get(&format!("/api/v1/operations/{}", done.json()["operation"]["id"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(super::invoice_fixture::told(&history["history"]), ["began", "overridden", "ended"]);
}

/// CONTRACT §8: a non-idempotent action is not repeated after an unknown outcome. It is held in
/// doubt, and the ruling "did not happen" frees the step for everyone.
#[tokio::test]
async fn an_unknown_outcome_of_a_non_idempotent_action_is_held_until_a_ruling() {
    let server = TestServer::sqlite().await;
    let entered = with_payout(&server, 1, "non_idempotent").await;
    let (support, manager) =
        (server.key("acme", Role::Operator).await, server.key("acme", Role::Manager).await);
    let send = format!("{PAYOUT}/steps/send");
    let doubted = post_as(&server, &support, &send, json!({})).await;
    assert_eq!(doubted.told(), (409, "operation_in_doubt".into()), "{}", doubted.text());
    let first = doubted.json()["operation"]["id"].as_str().unwrap().to_owned();
    let shown = server.get(PAYOUT).await.json();
    assert_eq!(
        (&shown["entity"]["status"], &shown["pendingOperation"]["id"]),
        (&json!("sending"), &json!(first))
    );
    for (key, path, asked) in [
        (&support, send.clone(), json!({ "idempotencyKey": "second" })),
        (&manager, format!("{send}/override"), json!({ "reason": "in a hurry" })),
    ] {
        let refused = post_as(&server, key, &path, asked).await;
        assert_eq!(refused.told(), (409, "claim_failed".into()), "{path}: {}", refused.text());
    }
    let ruling =
        json!({ "resolution": "did_not_happen", "attempt": 1, "reason": "the bank has no such payout" });
    let path = format!("/api/v1/operations/{first}/resolve");
    let ruled = post_as(&server, &manager, &path, ruling).await;
    assert_eq!(ruled.status, 200, "{}", ruled.text());
    assert_eq!(entered.lock().unwrap().len(), 1, "entered once until somebody knew");
    let done = post_as(&server, &support, &send, json!({ "idempotencyKey": "third" })).await;
    assert_eq!((done.status, &done.json()["entity"]["status"]), (200, &json!("sent")), "{}", done.text());
    let entered = entered.lock().unwrap().clone();
    assert_eq!(
        (entered.len(), &entered[0]),
        (2, &entered[1]),
        "under the same key, should the ruling be wrong"
    );
}

/// S1.33: a panic releases, and surfaces.
#[tokio::test]
async fn a_panicking_action_releases_its_claim_and_is_reported() {
    let server = TestServer::sqlite().await;
    let code = |_| async { if true { panic!("the code is broken") } else { ActionAnswer::done(1) } };
    server.engine.register_action("close", code).unwrap();
    upload(&server, &super::invoice_fixture::billing()).await;
    make(&server, "invoice", "inv-1", "approved").await;
    let failed = server.post(super::invoice_fixture::CLOSE, &json!({}), &[]).await;
    assert_eq!(failed.told(), (500, "action_panicked".into()));
    let shown = server.get(super::invoice_fixture::INVOICE).await.json();
    assert_eq!((&shown["entity"]["status"], &shown["pendingOperation"]), (&json!("approved"), &json!(null)));
}

/// S1.18: fields by requester; a credential of one requester always uses that one.
#[tokio::test]
async fn a_credential_asks_as_its_own_requester_and_as_no_other() {
    let server = TestServer::sqlite().await;
    upload(
        &server,
        &json!({
            "name": "tickets", "module": "default", "entity": "ticket", "status_types": ["open", "closed"],
            "steps": [{
                "step_id": 1, "step_key": "close", "status": { "agent": "open" }, "successful_state": { "agent": "closed" },
            }],
        }),
    )
    .await;
    make(&server, "ticket", "t-1", "open").await;
    let close = "/api/v1/entities/ticket/t-1/steps/close";
    let (agent, customer) =
        (server.key_for("agent", Role::Operator).await, server.key_for("customer", Role::Operator).await);
    for (key, asked, told) in [
        (&customer, json!({}), (409, "step_not_allowed")),
        (&customer, json!({ "requester": "agent" }), (403, "requester_not_allowed")),
        (&server.admin, json!({}), (409, "step_not_allowed")),
        (&server.admin, json!({ "requester": "nobody-knows" }), (409, "step_not_allowed")),
    ] {
        let refused = post_as(&server, key, close, asked.clone()).await;
        assert_eq!(refused.told(), (told.0, told.1.into()), "{asked}");
    }
    let shown = |key: String, query: &'static str| {
        let server = &server;
        async move { server.send("GET", &format!("/api/v1/entities/ticket/t-1{query}"), None, &key, &[]).await }
    };
    assert_eq!(shown(customer.clone(), "").await.json()["allowedActions"], json!([]));
    assert_eq!(
        shown(customer.clone(), "?requester=agent").await.told(),
        (403, "requester_not_allowed".into())
    );
    assert_eq!(action(&shown(agent.clone(), "").await.json(), "close")["enabled"], true);
    assert_eq!(
        action(&shown(server.admin.clone(), "?requester=agent").await.json(), "close")["enabled"],
        true
    );
    let done = post_as(&server, &agent, close, json!({ "by": "Ann" })).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.json()["operation"]["requester"], "agent");
    assert_eq!(done.json()["operation"]["actor"]["name"], "Ann (agent's)");
}

/// Of fifty equal rulings one counts; the others get the name of its author.
#[tokio::test]
async fn one_of_several_equal_rulings_on_an_operation_wins() {
    let server = TestServer::sqlite().await;
    with_payout(&server, 1, "non_idempotent").await;
    let doubted = server.post(&format!("{PAYOUT}/steps/send"), &json!({}), &[]).await;
    assert_eq!(doubted.told(), (409, "operation_in_doubt".into()), "{}", doubted.text());
    let path = format!("/api/v1/operations/{}/resolve", doubted.json()["operation"]["id"].as_str().unwrap());
    let ruling = json!({ "resolution": "did_not_happen", "attempt": 1, "reason": "the bank says no" });
    let answers = futures_util::future::join_all((0..50).map(|_| server.post(&path, &ruling, &[]))).await;
    let (counted, others): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(counted.len(), 1, "{:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
    for other in others {
        assert_eq!(other.told(), (409, "doubt_resolved".into()), "{}", other.text());
        assert_eq!(other.json()["decision"], "did_not_happen", "{}", other.text());
        assert_eq!(other.json()["decidedBy"]["role"], "admin");
    }
    let audit = server.get("/api/v1/audit?action=resolved").await.json();
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
}
