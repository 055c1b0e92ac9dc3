//! Requests that make no sense, and requests of the wrong caller: both transports refuse them with the same code.

use serde_json::{Value, json};

use super::client::{Transport, ask, call};
use super::support::{Role, TestServer};

const SESSIONS: &str = "/api/v1/worker-sessions";

/// One odd request: verb, path, body, key.
type InvalidRequest<'a> = (&'static str, String, Option<Value>, &'a str);

#[tokio::test]
async fn both_transports_refuse_with_the_same_code() {
    let server = TestServer::memory().await;
    server.echo().await;
    let worker = server.key("acme", Role::Worker).await;
    let viewer = server.key("acme", Role::Viewer).await;
    let stranger = server.key("other", Role::Worker).await;
    let opened = server
        .send("POST", SESSIONS, Some(json!({ "name": "w", "concurrency": 1 }).to_string()), &worker, &[])
        .await;
    let session = opened.json()["sessionId"].as_str().unwrap().to_owned();
    let of = |verb: &str| format!("{SESSIONS}/{session}/{verb}");
    let ended =
        server.post("/api/v1/workflow-runs", &json!({ "workflow": "echo", "input": {} }), &[]).await.json();
    let ended = ended["run"]["id"].as_str().unwrap().to_owned();
    server.until(&ended, "COMPLETED").await;
    let admin = server.admin.as_str();
    let many: Vec<Value> =
        (0..1_025).map(|_| json!({ "run": "r", "activation": "a", "items": [] })).collect();
    let names: Vec<String> = (0..1_001).map(|name| format!("task-{name}")).collect();
    let odd: Vec<(InvalidRequest<'_>, &str)> = vec![
        (("POST", SESSIONS.into(), Some(json!({ "name": "w", "concurrency": 1 })), ""), "unauthorized"),
        (
            ("POST", SESSIONS.into(), Some(json!({ "name": "w", "concurrency": 1 })), "hpx_wrong"),
            "unauthorized",
        ),
        (("POST", SESSIONS.into(), Some(json!({ "name": "w", "concurrency": 1 })), &viewer), "forbidden"),
        (
            ("POST", SESSIONS.into(), Some(json!({ "name": "", "concurrency": 1 })), &worker),
            "invalid_request",
        ),
        (
            ("POST", SESSIONS.into(), Some(json!({ "name": "w", "concurrency": 0 })), &worker),
            "invalid_request",
        ),
        (
            (
                "POST",
                SESSIONS.into(),
                Some(json!({ "name": "w", "concurrency": 1, "tasks": names })),
                &worker,
            ),
            "invalid_request",
        ),
        (
            (
                "POST",
                SESSIONS.into(),
                Some(json!({ "name": "w", "concurrency": 1, "workflows": [{ "name": "echo" }] })),
                &worker,
            ),
            "workflow_taken",
        ),
        (("POST", of("poll"), Some(json!({ "sequence": 1, "free": 1 })), &stranger), "session_unknown"),
        (
            ("POST", format!("{SESSIONS}/wks_0/poll"), Some(json!({ "sequence": 1, "free": 1 })), &worker),
            "session_unknown",
        ),
        (("POST", of("poll"), Some(json!({ "sequence": 0, "free": 1 })), &worker), "invalid_request"),
        (("POST", of("poll"), Some(json!({ "sequence": 1, "free": 10_001 })), &worker), "invalid_request"),
        (
            ("POST", of("commit"), Some(json!({ "sequence": 1, "free": 0, "runs": many })), &worker),
            "invalid_request",
        ),
        (("GET", format!("{SESSIONS}/{session}/runs/run_1/log?activation=a1"), None, &worker), "not_found"),
        (("DELETE", format!("{SESSIONS}/wks_0"), None, &worker), "session_unknown"),
        (
            (
                "POST",
                "/api/v1/workflow-runs".into(),
                Some(json!({ "workflow": "nobody", "input": {} })),
                admin,
            ),
            "definition_not_found",
        ),
        (
            (
                "POST",
                "/api/v1/workflow-runs".into(),
                Some(json!({ "workflow": "echo", "input": [1] })),
                admin,
            ),
            "invalid_request",
        ),
        (
            (
                "POST",
                "/api/v1/workflow-runs".into(),
                Some(json!({ "workflow": "echo", "delay": "soon" })),
                admin,
            ),
            "invalid_request",
        ),
        (
            (
                "POST",
                "/api/v1/workflow-runs".into(),
                Some(json!({ "workflow": "echo", "idempotencyKey": "é" })),
                admin,
            ),
            "invalid_idempotency_key",
        ),
        (("POST", "/api/v1/workflow-runs".into(), Some(json!({ "workflow": "echo" })), &viewer), "forbidden"),
        (("POST", "/api/v1/workflow-runs".into(), Some(json!({ "workflow": "echo" })), &worker), "forbidden"),
        (("GET", "/api/v1/workflow-runs?limit=1000".into(), None, admin), "invalid_request"),
        (("GET", "/api/v1/workflow-runs?cursor=x".into(), None, admin), "invalid_cursor"),
        (("GET", "/api/v1/workflow-runs/run_unknown".into(), None, admin), "not_found"),
        (
            ("POST", format!("/api/v1/workflow-runs/{ended}/signals"), Some(json!({ "name": "go" })), admin),
            "run_ended",
        ),
        (
            ("POST", format!("/api/v1/workflow-runs/{ended}/signals"), Some(json!({ "name": "n o" })), admin),
            "invalid_request",
        ),
        (("POST", format!("/api/v1/workflow-runs/{ended}/resume"), Some(json!({})), admin), "run_ended"),
        (
            ("POST", "/api/v1/promises/id:nobody/resolve".into(), Some(json!({ "value": 1 })), admin),
            "not_found",
        ),
        (
            ("POST", "/api/v1/promises/nobody/reject".into(), Some(json!({ "message": "no" })), admin),
            "invalid_request",
        ),
        (
            ("POST", "/api/v1/entities/nothing".into(), Some(json!({ "id": "1", "status": "new" })), admin),
            "not_found",
        ),
        (("POST", "/api/v1/entities/nothing/1/steps/go".into(), Some(json!({})), admin), "not_found"),
    ];
    let mut wrong = Vec::new();
    for ((verb, path, body, key), code) in odd {
        let over_http = ask(&server, Transport::Http, verb, &path, body.as_ref(), key, &[]).await;
        let over_grpc = ask(&server, Transport::Grpc, verb, &path, body.as_ref(), key, &[]).await;
        if over_http.code() != code || over_grpc.told() != over_http.told() {
            wrong.push(format!("{verb} {path}: {:?}, {:?}, not {code}", over_http.told(), over_grpc.told()));
        }
        let without_trace = |answer: &super::support::Answer| {
            let mut problem = answer.json();
            problem.as_object_mut().unwrap().remove("traceId");
            problem
        };
        if over_grpc.headers["code"] != code || without_trace(&over_grpc) != without_trace(&over_http) {
            wrong.push(format!("{verb} {path}: {} is not {}", over_grpc.text(), over_http.text()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn bytes_that_are_no_json_and_names_that_are_no_names_change_nothing() {
    let server = TestServer::memory().await;
    server.echo().await;
    let bearer = format!("Bearer {}", server.admin);
    let headers = [("authorization", bearer.as_str())];
    // Field 1 is the workflow, field 3 the input.
    let start = |input: &[u8]| {
        [&[0x0a, 4], &b"echo"[..], &[0x1a, u8::try_from(input.len()).unwrap()], input].concat()
    };
    for input in [
        &b"{"[..],
        b"{} {}",
        b"{},\"workflow\":\"other\"",
        b"\xff",
        b"{\"a\":1,\"a\":2}",
        b"{\"a\":\"\\u0000\"}",
        b"\xef\xbb\xbf{}",
    ] {
        let refused = call(&server, "/hapax.v1.Runs/StartRun", &start(input), &headers).await;
        assert_eq!((refused.status, refused.metadata("code")), (3, "invalid_json"), "{input:?}");
    }
    for id in ["", ".", "..", "a\0b"] {
        let asked = [&[0x0a, u8::try_from(id.len()).unwrap()], id.as_bytes()].concat();
        let refused = call(&server, "/hapax.v1.Runs/GetRun", &asked, &headers).await;
        assert_eq!((refused.status, refused.metadata("code")), (3, "invalid_request"), "{id:?}");
    }
    let id = "x".repeat(9_000);
    let asked = hapax_grpc::message_from_json("GetRunRequest", &json!({ "id": id }).to_string()).unwrap();
    let refused = call(&server, "/hapax.v1.Runs/GetRun", &asked, &headers).await;
    assert_eq!((refused.status, refused.metadata("code")), (8, "uri_too_long"));
    // A name that looks like a path stays one name.
    let asked =
        hapax_grpc::message_from_json("GetRunRequest", &json!({ "id": "../../credentials?x=1" }).to_string())
            .unwrap();
    let refused = call(&server, "/hapax.v1.Runs/GetRun", &asked, &headers).await;
    assert_eq!(refused.metadata("code"), "not_found");
    assert!(server.get("/api/v1/workflow-runs").await.json()["items"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_while_it_comes_in() {
    let server = TestServer::memory().await;
    let worker = server.key("acme", Role::Worker).await;
    let bearer = format!("Bearer {worker}");
    let huge = vec![0x7a; 9 * 1024 * 1024];
    let refused = call(&server, "/hapax.v1.Workers/Commit", &huge, &[("authorization", &bearer)]).await;
    assert_eq!((refused.status, refused.metadata("code")), (8, "payload_too_large"));
    // Below the limit of messages, above the limit of the route.
    let asked = json!({ "name": "x".repeat(3 * 1024 * 1024), "concurrency": 1 }).to_string();
    let asked = hapax_grpc::message_from_json("OpenSessionRequest", &asked).unwrap();
    let refused = call(&server, "/hapax.v1.Workers/OpenSession", &asked, &[("authorization", &bearer)]).await;
    assert_eq!((refused.status, refused.metadata("code")), (8, "payload_too_large"));
}
