//! Metrics, and who may read them.

use std::time::Duration;

use hapax_engine::limits::KEEP_EARLY_SETTLEMENT_FOR;
use hapax_engine::model::{
    EffectClass, IdempotencyKey, InboundEventId, Name, OnDoubt, Payload, RetryPolicy, WorkspaceId,
};
use hapax_engine::store::{KeyRef, KeyUsage, NewInboundEvent};
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
use hapax_server::identity::INSTALLATION;
use serde_json::json;
use tower::ServiceExt;

use super::scrape::Scrape;
use crate::support::{Role, TestServer};

/// S2.35, S2.36, CONTRACT §11: new operations, replays and conflicts, of both kinds of key, in all and by credential.
#[tokio::test]
async fn replays_and_conflicts_are_counted_for_both_kinds_of_key() {
    let server = TestServer::sqlite().await;
    let echo = server.echo().await;
    let body =
        |order: u32| json!({"definitionId": echo, "input": {"order": order}, "idempotencyKey": "order-1"});
    let plain = |order: u32| json!({"definitionId": echo, "input": {"order": order}});
    let keyed = [("idempotency-key", "\"request-1\"")];
    for (order, status) in [(1, 201), (1, 200), (1, 200), (2, 422)] {
        assert_eq!(server.post("/api/v1/workflow-runs", &body(order), &[]).await.status, status);
    }
    for (order, status) in [(1, 201), (1, 201), (2, 422)] {
        assert_eq!(server.post("/api/v1/workflow-runs", &plain(order), &keyed).await.status, status);
    }
    let scrape = Scrape::of(&server).await;
    for (event, count) in [("new", 1.0), ("replayed", 2.0), ("conflicted", 1.0)] {
        assert_eq!(
            scrape.value(&format!("hapax_run_key_events_total{{event=\"{event}\"}}")),
            count,
            "{event}"
        );
    }
    for (event, count) in [("began", 1.0), ("replayed", 1.0), ("conflicted", 1.0), ("waited", 0.0)] {
        assert_eq!(
            scrape.value(&format!("hapax_request_key_events_total{{event=\"{event}\"}}")),
            count,
            "{event}"
        );
    }
    let own = scrape
        .text
        .lines()
        .find(|line| line.contains("workspace=\"acme\"") && line.contains("use=\"replayed\""));
    assert!(own.is_some_and(|line| line.ends_with(" 3")), "both kinds together: {own:?}");
    let runs = "method=\"POST\",route=\"/api/v1/workflow-runs\"";
    assert_eq!(scrape.value(&format!("hapax_http_requests_total{{{runs},status=\"2xx\"}}")), 5.0);
    assert_eq!(scrape.value(&format!("hapax_http_requests_total{{{runs},status=\"4xx\"}}")), 2.0);
    assert_eq!(scrape.value(&format!("hapax_http_request_duration_seconds_count{{{runs}}}")), 7.0);
    assert_eq!(scrape.value("hapax_runs_created_total"), 2.0);
    assert_eq!(scrape.value("hapax_definitions"), 1.0);
    assert_eq!(scrape.value("hapax_store_up"), 1.0);
    assert!(scrape.value("hapax_oldest_request_key_age_seconds") < 60.0);
}

/// CONTRACT §11: effects entered though an earlier entry may have happened, and steps in doubt.
#[tokio::test]
async fn effects_that_may_have_happened_twice_and_doubts_are_counted_by_class() {
    let server = TestServer::sqlite().await;
    let soon = || RetryPolicy::default().first_wait(Duration::from_millis(1)).max_attempts(3);
    let twice = move |ctx: Ctx, (): ()| async move {
        let lost = |attempt: hapax_engine::ctx::Attempt, until: u32| async move {
            match attempt.number() <= until {
                true => Err(Failure::unknown("the connection was reset")),
                false => Ok(attempt.number()),
            }
        };
        ctx.step("tell", move |attempt| lost(attempt, 1)).retry(soon()).await?;
        ctx.step("pay", move |attempt| lost(attempt, 1))
            .retry(soon())
            .claimed()
            .on_doubt(OnDoubt::Retry)
            .await?;
        let refused = |attempt: hapax_engine::ctx::Attempt| async move {
            if attempt.number() == 1 { Err(Failure::retryable("busy")) } else { Ok(()) }
        };
        ctx.step("ask", refused).retry(soon()).await?;
        ctx.step("hold", move |attempt| lost(attempt, 9)).claimed().await?;
        Ok::<(), Failure>(())
    };
    server.engine.register("twice", twice).unwrap();
    let run = server.engine.start("twice", &()).await.unwrap();
    while server.engine.stats().doubts < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The doubt is on record once the run waits.
    while run.view().await.unwrap().head.status().as_str() != "WAITING" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let scrape = Scrape::of(&server).await;
    let twice = |class: &str| {
        let value = |name: &str| scrape.value(&format!("{name}{{class=\"{class}\"}}"));
        (value("hapax_effects_happened_twice"), value("hapax_effects_may_have_happened_twice"))
    };
    assert_eq!(twice("idempotent"), (0.0, 1.0), "a refusal did not happen");
    assert_eq!(twice("claimed"), (0.0, 1.0));
    assert_eq!(twice("transactional"), (0.0, 0.0));
    assert_eq!(scrape.value("hapax_doubts_total"), 2.0);
    assert_eq!(scrape.value("hapax_steps_in_doubt"), 1.0);
    assert_eq!(scrape.value("hapax_step_retries_total"), 2.0);
    let counted = server.engine.count_effects().await.unwrap();
    let twice = |class| (counted[&class].happened_twice, counted[&class].may_have_happened_twice);
    assert_eq!(twice(EffectClass::Idempotent), (0, 1), "the ledger says the same: {counted:?}");
    assert_eq!(twice(EffectClass::Claimed), (0, 1), "the ledger says the same: {counted:?}");
}

/// CONTRACT §11: outcomes of settlements, including early ones.
#[tokio::test]
async fn settlements_are_counted_by_what_came_of_them() {
    let server = TestServer::memory().await;
    for id in ["a", "b", "c"] {
        server.post("/api/v1/promises", &json!({ "id": id }), &[]).await;
    }
    let resolve = async |promise: &str, value: u32| {
        let body = json!({ "value": value });
        server.post(&format!("/api/v1/promises/{promise}/resolve"), &body, &[]).await.status
    };
    let told = [
        resolve("id:a", 1).await,
        resolve("id:a", 1).await,
        resolve("id:a", 2).await,
        resolve("key:early", 1).await,
        resolve("id:none", 1).await,
    ];
    assert_eq!(told, [200, 200, 409, 202, 404]);
    server.post("/api/v1/promises/id:b/reject", &json!({ "message": "no" }), &[]).await;
    let cancel = json!({ "state": "REJECTED_CANCELED" }).to_string();
    server.send("PATCH", "/promises/c", Some(cancel), &server.admin, &[]).await;
    let scrape = Scrape::of(&server).await;
    for (outcome, count) in [
        ("resolved", 1.0),
        ("rejected", 1.0),
        ("cancelled", 1.0),
        ("repeated", 1.0),
        ("kept", 1.0),
        ("conflicted", 1.0),
        ("timed_out", 0.0),
        ("unmatched", 1.0),
    ] {
        let series = format!("hapax_promise_settlements_total{{outcome=\"{outcome}\"}}");
        assert_eq!(scrape.value(&series), count, "{outcome}");
    }
    assert_eq!(scrape.value("hapax_early_settlements_expired_total"), 0.0);
}

/// CONTRACT §7, §11: a settlement that was kept for a promise which never came is counted when it is forgotten.
#[tokio::test]
async fn early_settlements_that_expire_are_counted() {
    let (server, clock) = TestServer::timed().await;
    let kept = server.post("/api/v1/promises/key:early/resolve", &json!({ "value": 1 }), &[]).await;
    assert_eq!(kept.status, 202);
    clock.advance(KEEP_EARLY_SETTLEMENT_FOR);
    while server.engine.stats().early_expired == 0 {
        clock.advance(EngineOptions::default().purge_every);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(Scrape::of(&server).await.value("hapax_early_settlements_expired_total"), 1.0);
    assert!(server.get("/api/v1/early-settlements").await.json()["items"].as_array().unwrap().is_empty());
}

/// CONTRACT §11: work that no node takes is visible by the time it has been due: a run that no node
/// serves, an after-effect for a target that no node serves, and a stored webhook that is not
/// processed.
#[tokio::test]
async fn work_that_no_node_takes_is_visible_by_its_overdue_time() {
    let (server, clock) = TestServer::timed().await;
    let leaves = |ctx: Ctx, (): ()| async move {
        ctx.after_effect("nobody", &1).await?;
        Ok::<(), Failure>(())
    };
    server.engine.register("leaves", leaves).unwrap();
    server.engine.start("leaves", &()).await.unwrap().result::<()>().await.unwrap();
    let elsewhere = Engine::launch(server.store.clone(), clock.clone(), EngineOptions::default()).unwrap();
    elsewhere.register("elsewhere", |_: Ctx, (): ()| async { Ok::<(), Failure>(()) }).unwrap();
    elsewhere.start("elsewhere", &()).delay(Duration::from_secs(4)).await.unwrap();
    elsewhere.shutdown(Duration::from_secs(5)).await.unwrap();
    let figures = [
        "hapax_outbox_late_seconds",
        "hapax_oldest_due_run_age_seconds",
        "hapax_oldest_unprocessed_webhook_age_seconds",
    ];
    clock.advance(Duration::from_secs(2));
    let id = InboundEventId {
        workspace: WorkspaceId::new("acme").unwrap(),
        source: Name::new("source", "stripe").unwrap(),
        event: "evt_1".into(),
    };
    let hook = NewInboundEvent { id, headers: Payload::null(), body: Vec::new() };
    let _ = server.store.webhook_store().unwrap().receive_event(hook).await.unwrap();
    clock.advance(Duration::from_secs(7));
    let scrape = Scrape::of(&server).await;
    assert_eq!(figures.map(|figure| scrape.value(figure)), [9.0, 5.0, 7.0]);
}

/// Invariant 54: no single workspace can read figures about all of them.
#[tokio::test]
async fn only_the_installation_reads_metrics_and_they_hold_no_secret() {
    let server = TestServer::memory().await;
    for role in Role::ALL {
        let key = server.key("acme", role).await;
        assert_eq!(server.send("GET", "/metrics", None, &key, &[]).await.status, 403, "{role:?}");
    }
    let worker = server.key(INSTALLATION, Role::Worker).await;
    assert_eq!(server.send("GET", "/metrics", None, &worker, &[]).await.status, 403);
    assert_eq!(server.send("GET", "/metrics", None, "", &[]).await.status, 401);
    for canary in ["/api/v1/workflow-runs/run_canary", "/canary?token=canary", "/errors/canary"] {
        server.send("CANARY", canary, None, &server.admin, &[("idempotency-key", "\"canary\"")]).await;
    }
    let scrape = Scrape::of(&server).await;
    let secret = server.admin.rsplit('_').next().unwrap();
    assert!(
        !scrape.text.to_lowercase().contains("canary") && !scrape.text.contains(secret),
        "{}",
        scrape.text
    );
    assert_eq!(
        scrape.value("hapax_http_requests_total{method=\"OTHER\",route=\"unmatched\",status=\"4xx\"}"),
        1.0
    );
}

/// RELIABILITY: metrics on a separate listener or behind authentication; they show that a store is
/// away.
#[tokio::test]
async fn a_listener_of_its_own_tells_without_a_key_even_if_the_store_is_away() {
    let server = TestServer::sqlite().await;
    server.store.close().await.unwrap();
    let ask = |path: &'static str| {
        let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        server.server.metrics_router().oneshot(request)
    };
    let answer = ask("/metrics").await.unwrap();
    assert_eq!(answer.status(), 200);
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    let scrape = Scrape::read(String::from_utf8(bytes.to_vec()).unwrap());
    assert_eq!(scrape.value("hapax_store_up"), 0.0);
    assert!(!scrape.families.contains_key("hapax_outbox_depth"), "what was never seen is not told");
    assert_eq!(ask("/api/v1/workflow-runs").await.unwrap().status(), 404, "nothing else is there");
}

/// Uses of run keys reach the store while the server runs, not only when it stops.
#[tokio::test]
async fn uses_of_run_keys_are_written_within_a_moment() {
    let server = TestServer::sqlite().await;
    let echo = server.echo().await;
    let body = json!({"definitionId": echo, "input": {"order": 1}, "idempotencyKey": "order-1"});
    for status in [201, 200, 200] {
        assert_eq!(server.post("/api/v1/workflow-runs", &body, &[]).await.status, status);
    }
    let place = KeyRef::Run {
        workspace: WorkspaceId::new("acme").unwrap(),
        key: IdempotencyKey::new("order-1").unwrap(),
    };
    let book = server.store.request_key_store().unwrap();
    let written = async {
        while book.find_key_usage(&place).await.unwrap() != (KeyUsage { replays: 2, conflicts: 0 }) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), written).await.expect("written without being asked");
}

/// CONTRACT §13: keys of operations, promises and signals are counted like run keys, in total and
/// by credential; children are runs.
#[tokio::test]
async fn replays_and_conflicts_are_counted_for_every_business_key() {
    let server = TestServer::sqlite().await;
    let document = json!({
        "name": "things", "module": "default", "entity": "thing", "status_types": ["open", "closed"],
        "steps": [{ "step_id": 1, "step_key": "close", "status": "open", "successful_state": "closed" }],
    });
    assert_eq!(server.post("/api/v1/entity-workflows", &document, &[]).await.status, 201);
    for id in ["a", "b"] {
        server.post("/api/v1/entities/thing", &json!({ "id": id, "status": "open" }), &[]).await;
    }
    let keyed = json!({ "idempotencyKey": "close-1" });
    for (id, status) in [("a", 200), ("a", 200), ("a", 200), ("b", 422)] {
        let answer = server.post(&format!("/api/v1/entities/thing/{id}/steps/close"), &keyed, &[]).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    server.post("/api/v1/promises", &json!({ "id": "p", "idempotencyKey": "p-1" }), &[]).await;
    for (value, status) in [(1, 200), (1, 200), (2, 409)] {
        let settle = server.post("/api/v1/promises/key:p-1/resolve", &json!({ "value": value }), &[]).await;
        assert_eq!(settle.status, status, "{}", settle.text());
    }
    let child = json!({ "name": "child", "version": 1, "steps": [{ "name": "go", "type": "signal", "signal": "go" }] });
    server.upload(&child).await;
    let parent = json!({
        "name": "parent", "version": 1,
        "steps": [
            { "name": "one", "type": "child", "workflow": "child" },
            { "name": "two", "type": "task", "task": "echo" },
        ],
    });
    let parent = server.upload(&parent).await;
    let run = server.start(&parent, json!({})).await;
    let children = |page: &serde_json::Value| page["items"].as_array().unwrap().len() == 1;
    let page = server.until_shown("/api/v1/workflow-runs?workflow=child&status=WAITING", children).await;
    let child = page["items"][0]["id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let sent = json!({ "name": "go", "signalId": "s-1" });
        server.post(&format!("/api/v1/workflow-runs/{child}/signals"), &sent, &[]).await;
    }
    server.end(&run).await;
    let scrape = Scrape::of(&server).await;
    let count = |kind: &str, event: &str| {
        scrape.value(&format!("hapax_{kind}_key_events_total{{event=\"{event}\"}}"))
    };
    let counts = |kind: &str| (count(kind, "new"), count(kind, "replayed"), count(kind, "conflicted"));
    assert_eq!(counts("operation"), (1.0, 2.0, 1.0));
    assert_eq!(counts("promise"), (2.0, 1.0, 1.0), "made and settled, settled again, settled otherwise");
    assert_eq!(counts("signal"), (1.0, 1.0, 0.0));
    assert_eq!(scrape.value("hapax_runs_created_total"), 2.0, "the child is a run");
    let own = scrape
        .text
        .lines()
        .find(|line| line.contains("workspace=\"acme\"") && line.contains("use=\"replayed\""));
    assert!(own.is_some_and(|line| line.ends_with(" 4")), "{own:?}");
}
