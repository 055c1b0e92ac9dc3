//! gRPC itself: statuses, metadata, health, reflection, and requests that are not gRPC.

use serde_json::{Value, json};

use super::client::{Transport, ask, call, call_with_body};
use super::support::{Role, TestServer};

fn message(name: &str, json: &Value) -> Vec<u8> {
    hapax_grpc::message_from_json(name, &json.to_string()).unwrap()
}

fn shown(name: &str, bytes: &[u8]) -> Value {
    serde_json::from_str(&hapax_grpc::message_to_json(name, bytes).unwrap()).unwrap()
}

#[tokio::test]
async fn a_run_starts_once_under_its_key_and_its_result_keeps_its_bytes() {
    let server = TestServer::memory().await;
    server.echo().await;
    let bearer = format!("Bearer {}", server.admin);
    let headers = [
        ("authorization", bearer.as_str()),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ];
    let asked =
        r#"{"workflow":"echo","input":{"n": 18446744073709551615, "price":1.50},"idempotencyKey":"order-1"}"#;
    let asked = hapax_grpc::message_from_json("StartRunRequest", asked).unwrap();
    let first = call(&server, "/hapax.v1.Runs/StartRun", &asked, &headers).await;
    assert_eq!((first.status, first.http_status), (0, 200), "{first:?}");
    assert_eq!(first.metadata("x-trace-id"), "4bf92f3577b34da6a3ce929d0e0e4736");
    let started = shown("StartRunResponse", &first.message);
    assert_eq!(started["created"], true);
    let again = call(&server, "/hapax.v1.Runs/StartRun", &asked, &headers).await;
    let again = shown("StartRunResponse", &again.message);
    assert_eq!((&again["created"], &again["run"]["id"]), (&json!(false), &started["run"]["id"]));
    let wanted = message("GetRunResultRequest", &json!({ "id": started["run"]["id"], "waitSeconds": 20 }));
    let result = call(&server, "/hapax.v1.Runs/GetRunResult", &wanted, &headers).await;
    let text = hapax_grpc::message_to_json("GetRunResultResponse", &result.message).unwrap();
    assert!(text.contains(r#""status":"COMPLETED""#) && text.contains("18446744073709551615"), "{text}");
    let other = message(
        "StartRunRequest",
        &json!({ "workflow": "echo", "input": { "n": 2 }, "idempotencyKey": "order-1" }),
    );
    let refused = call(&server, "/hapax.v1.Runs/StartRun", &other, &headers).await;
    assert_eq!((refused.status, refused.metadata("code")), (9, "idempotency_key_conflict"));
    assert_eq!(refused.metadata("retryable"), "false");
}

/// A key in metadata names the request, as the header does. Both transports share the keys.
#[tokio::test]
async fn a_request_key_gets_the_same_answer_over_both_transports() {
    let server = TestServer::memory().await;
    server.echo().await;
    let body = json!({ "workflow": "echo", "input": {} });
    let headers = [("idempotency-key", "req-1")];
    let mut ids = Vec::new();
    for transport in [Transport::Grpc, Transport::Grpc, Transport::Grpc] {
        let answer =
            ask(&server, transport, "POST", "/api/v1/workflow-runs", Some(&body), &server.admin, &headers)
                .await;
        ids.push(answer.json()["run"]["id"].clone());
    }
    assert!(ids[0].is_string() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let runs = server.get("/api/v1/workflow-runs").await.json()["items"].as_array().unwrap().len();
    assert_eq!(runs, 1);
}

#[tokio::test]
async fn versions_lists_and_commands_work() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "wait", "version": 1, "steps": [{ "name": "go", "type": "signal", "signal": "go" }] });
    server.upload(&document).await;
    let started = ask(
        &server,
        Transport::Grpc,
        "POST",
        "/api/v1/workflow-runs",
        Some(&json!({ "workflow": "wait", "input": {} })),
        &server.admin,
        &[],
    )
    .await;
    let run = started.json()["run"].clone();
    let id = run["id"].as_str().unwrap();
    let listed = ask(
        &server,
        Transport::Grpc,
        "GET",
        "/api/v1/workflow-runs?workflow=wait&limit=5",
        None,
        &server.admin,
        &[],
    )
    .await;
    assert_eq!(listed.json()["items"][0]["id"], id);
    let path = format!("/api/v1/workflow-runs/{id}/cancel");
    let stale = json!({ "reason": "no", "ifVersion": 99 });
    let stale = ask(&server, Transport::Grpc, "POST", &path, Some(&stale), &server.admin, &[]).await;
    assert_eq!(stale.told(), (409, "CONCURRENCY_ERROR".into()));
    let cancelled =
        ask(&server, Transport::Grpc, "POST", &path, Some(&json!({ "reason": "no" })), &server.admin, &[])
            .await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    server.until(id, "CANCELLED").await;
    let shown = ask(
        &server,
        Transport::Grpc,
        "GET",
        &format!("/api/v1/workflow-runs/{id}"),
        None,
        &server.admin,
        &[],
    )
    .await;
    assert_eq!(shown.json()["run"]["status"], "CANCELLED");
}

/// S4.31: `resolve_promise(ResolvePromiseRequest { identifier: "key:stripe:…", value })`.
#[tokio::test]
async fn a_promise_is_resolved_by_its_key_as_the_seed_does() {
    let server = TestServer::memory().await;
    let admin = server.admin.clone();
    let made = json!({ "id": "p1", "idempotencyKey": "stripe:ch_abc123", "timeout": "1h" });
    let made = ask(&server, Transport::Grpc, "POST", "/api/v1/promises", Some(&made), &admin, &[]).await;
    assert_eq!(made.json()["status"], "PENDING", "{}", made.text());
    let bearer = format!("Bearer {admin}");
    let headers = [("authorization", bearer.as_str())];
    let resolve = json!({ "identifier": "key:stripe:ch_abc123", "value": { "paid": 1 } });
    let path = "/hapax.v1.Promises/ResolvePromise";
    let resolved = call(&server, path, &message("ResolvePromiseRequest", &resolve), &headers).await;
    let resolved = shown("SettlePromiseResponse", &resolved.message);
    assert_eq!((&resolved["promise"]["id"], &resolved["alreadySettled"]), (&json!("p1"), &json!(false)));
    let other = json!({ "identifier": "id:p1", "value": 2 });
    let other = call(&server, path, &message("ResolvePromiseRequest", &other), &headers).await;
    assert_eq!((other.status, other.metadata("code")), (9, "promise_already_settled"));
    let early = json!({ "identifier": "key:stripe:later", "value": 3 });
    let early = call(&server, path, &message("ResolvePromiseRequest", &early), &headers).await;
    let early = shown("SettlePromiseResponse", &early.message);
    assert_eq!((&early["kept"], &early["idempotencyKey"]), (&json!(true), &json!("stripe:later")));
    let read = ask(&server, Transport::Grpc, "GET", "/api/v1/promises/id:p1", None, &admin, &[]).await;
    assert_eq!(read.json()["value"], json!({ "paid": 1 }));
}

#[tokio::test]
async fn an_entity_takes_a_step() {
    let server = TestServer::memory().await;
    let workflow = json!({
        "name": "invoice", "kind": "entity", "module": "billing", "entity": "invoice", "status_types": ["draft", "sent"],
        "steps": [{
            "step_id": 1, "step_key": "send", "status": "draft", "successful_state": "sent", "action": "echo", "effect": "idempotent",
        }],
    });
    let made = server.post("/api/v1/entity-workflows", &workflow, &[]).await;
    assert!(made.status < 300, "{}", made.text());
    let admin = server.admin.clone();
    let entity = json!({ "id": "INV-1", "status": "draft" });
    let entity =
        ask(&server, Transport::Grpc, "POST", "/api/v1/entities/invoice", Some(&entity), &admin, &[]).await;
    assert_eq!(entity.json()["created"], true, "{}", entity.text());
    let step = json!({ "input": { "to": "ada" }, "idempotencyKey": "send-1" });
    let path = "/api/v1/entities/invoice/INV-1/steps/send";
    let taken = ask(&server, Transport::Grpc, "POST", path, Some(&step), &admin, &[]).await;
    assert_eq!(
        (taken.status, &taken.json()["operation"]["status"]),
        (200, &json!("DONE")),
        "{}",
        taken.text()
    );
    let over_http = server.post(path, &step, &[]).await.json();
    assert_eq!(
        (&over_http["replayed"], &over_http["operation"]["id"]),
        (&json!(true), &taken.json()["operation"]["id"])
    );
    let read =
        ask(&server, Transport::Grpc, "GET", "/api/v1/entities/invoice/INV-1", None, &admin, &[]).await;
    assert_eq!(read.json()["entity"]["status"], "sent");
}

#[tokio::test]
async fn health_says_what_readiness_says() {
    let server = TestServer::memory().await;
    for (service, status) in [("", 0), ("hapax.v1.Workers", 0), ("nobody", 5)] {
        let length = u8::try_from(service.len()).unwrap();
        let asked =
            if service.is_empty() { Vec::new() } else { [&[0x0a, length], service.as_bytes()].concat() };
        let answer = call(&server, "/grpc.health.v1.Health/Check", &asked, &[]).await;
        assert_eq!(answer.status, status, "{service}");
        if status == 0 {
            assert_eq!(answer.message, [8, 1], "SERVING");
        }
    }
}

#[tokio::test]
async fn reflection_lists_the_services_and_describes_them() {
    let server = TestServer::memory().await;
    for path in [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        // list_services = 7
        let listed = call(&server, path, &[0x3a, 0x01, b'*'], &[]).await;
        assert_eq!(listed.status, 0, "{path}");
        let text = String::from_utf8_lossy(&listed.message).into_owned();
        for service in [
            "hapax.v1.Workers",
            "hapax.v1.Runs",
            "hapax.v1.Promises",
            "hapax.v1.Entities",
            "grpc.health.v1.Health",
        ] {
            assert!(text.contains(service), "{service} in {text:?}");
        }
        // file_containing_symbol = 4
        let symbol = "hapax.v1.SchedulePromise";
        let asked = [&[0x22, u8::try_from(symbol.len()).unwrap()], symbol.as_bytes()].concat();
        let described = call(&server, path, &asked, &[]).await;
        assert!(String::from_utf8_lossy(&described.message).contains("idempotency_key_ttl_seconds"));
    }
}

#[tokio::test]
async fn what_is_no_grpc_is_refused_in_a_way_that_its_sender_reads() {
    let server = TestServer::memory().await;
    let path = "/hapax.v1.Runs/StartRun";
    let plain = server.post(path, &json!({}), &[]).await;
    assert_eq!(plain.told(), (415, "unsupported_media_type".into()));
    let old = server.post(path, &json!({}), &[("content-type", "application/grpc")]).await;
    assert_eq!(old.told(), (400, "invalid_request".into()));
    assert_eq!(server.get(path).await.told(), (405, "method_not_allowed".into()));
    let unknown = call(&server, "/hapax.v1.Runs/Nothing", &[], &[]).await;
    assert_eq!((unknown.http_status, unknown.status), (404, u16::MAX), "a client makes UNIMPLEMENTED of it");
    for (body, status, code) in [
        (&b""[..], 3, "invalid_request"),
        (&[0, 0, 0, 0], 3, "invalid_request"),
        (&[0, 0, 0, 0, 9, 1], 3, "invalid_request"),
        (&[1, 0, 0, 0, 0], 3, "unsupported_media_type"),
        (&[7, 0, 0, 0, 0], 3, "invalid_request"),
        (&[0, 0, 0, 0, 2, 0xff, 0xff], 3, "invalid_request"),
        // Two messages in one call.
        (&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 3, "invalid_request"),
    ] {
        let refused = call_with_body(&server, path, body, &[]).await;
        assert_eq!(
            (refused.status, refused.metadata("code"), refused.http_status),
            (status, code, 200),
            "{body:?}"
        );
    }
}

#[tokio::test]
async fn a_call_is_counted_and_logged_by_its_method_and_its_real_status() {
    let server = TestServer::memory().await;
    let key = server.key("acme", Role::Viewer).await;
    let asked = json!({ "id": "run_unknown" });
    for _ in 0..3 {
        let bearer = format!("Bearer {key}");
        let answer = call(
            &server,
            "/hapax.v1.Runs/GetRun",
            &message("GetRunRequest", &asked),
            &[("authorization", &bearer)],
        )
        .await;
        assert_eq!((answer.status, answer.metadata("code")), (5, "not_found"));
    }
    let root = server.key("hapax-installation", Role::Viewer).await;
    let figures = server.send("GET", "/metrics", None, &root, &[]).await.text();
    let line = figures.lines().find(|line| {
        line.starts_with("hapax_http_requests_total")
            && line.contains("/hapax.v1.Runs/GetRun")
            && line.contains("4xx")
    });
    assert!(line.is_some_and(|line| line.ends_with(" 3")), "{line:?}");
}
