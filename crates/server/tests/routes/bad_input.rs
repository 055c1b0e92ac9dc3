//! The rows of RELIABILITY "HTTP" and "JSON" that need real routes.

use std::time::Duration;

use hapax_server::listen::ListenOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::RUNS;
use super::support::{Answer, Role, TestServer};

async fn send_text(server: &TestServer, body: &str) -> Answer {
    server.send("POST", RUNS, Some(body.to_owned()), &server.admin, &[]).await
}

/// Pagination: invalid limits, and cursors that are garbage or belong to another list, filter or
/// workspace.
#[tokio::test]
async fn a_page_is_asked_for_properly_or_not_at_all() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    for _ in 0..3 {
        let run = server.start(&echo, json!({})).await;
        server.end(&run).await;
    }
    for limit in ["0", "-1", "1000000000", "201", "", "ten", "1.5", "%D9%A3", "1&limit=2"] {
        let refused = server.get(&format!("{RUNS}?limit={limit}")).await;
        assert_eq!(refused.told(), (400, "invalid_request".into()), "{limit}");
    }
    assert_eq!(server.get(&format!("{RUNS}?unknown=1")).await.status, 400);
    let page = server.get(&format!("{RUNS}?limit=1&status=COMPLETED")).await.json();
    let cursor = page["nextCursor"].as_str().unwrap().to_owned();
    let next = server.get(&format!("{RUNS}?limit=2&status=COMPLETED&cursor={cursor}")).await;
    assert_eq!(next.json()["items"].as_array().unwrap().len(), 2, "another page size is fine");
    let mut bent = cursor.clone();
    bent.replace_range(3..4, if &cursor[3..4] == "A" { "B" } else { "A" });
    let long = "A".repeat(2_000);
    for (path, bad) in [
        (format!("{RUNS}?status=COMPLETED"), "garbage"),
        (format!("{RUNS}?status=COMPLETED"), bent.as_str()),
        (format!("{RUNS}?status=COMPLETED"), long.as_str()),
        (format!("{RUNS}?status=COMPLETED"), ""),
        (format!("{RUNS}?status=FAILED"), cursor.as_str()),
        (format!("{RUNS}?limit=1"), cursor.as_str()),
        ("/api/v1/doubts?limit=1".into(), cursor.as_str()),
        ("/api/v1/audit?limit=1".into(), cursor.as_str()),
        ("/api/v1/workflow-definitions?limit=1".into(), cursor.as_str()),
        ("/api/v1/credentials?limit=1".into(), cursor.as_str()),
    ] {
        let refused = server.get(&format!("{path}&cursor={bad}")).await;
        assert_eq!(refused.told(), (400, "invalid_cursor".into()), "{path} {bad}");
    }
    let stranger = server.key("globex", Role::Admin).await;
    let path = format!("{RUNS}?limit=1&status=COMPLETED&cursor={cursor}");
    let refused = server.send("GET", &path, None, &stranger, &[]).await;
    assert_eq!(refused.told(), (400, "invalid_cursor".into()));
}

/// Filters are literal text.
#[tokio::test]
async fn filters_are_literal_text() {
    let server = TestServer::sqlite().await;
    let run = server.start(&server.echo().await, json!({})).await;
    server.end(&run).await;
    for filter in [
        "%25",
        "*",
        ".*",
        "'%20OR%201=1--",
        "e_ho",
        "echo%00",
        "%7B%7D",
        "$..*",
        "echo%3B%20DROP%20TABLE%20runs",
    ] {
        let answer = server.get(&format!("{RUNS}?workflow={filter}")).await;
        match answer.status {
            200 => assert_eq!(answer.json()["items"], json!([]), "{filter}"),
            status => assert_eq!(status, 400, "{filter}: {}", answer.text()),
        }
    }
    for status in ["completed", "COMPLETED'", "", "COMPLETED,", "ALL", "%2A"] {
        assert_eq!(server.get(&format!("{RUNS}?status={status}")).await.status, 400, "{status}");
    }
    let found = server.get(&format!("{RUNS}?workflow=echo&status=COMPLETED,FAILED")).await.json();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
}

/// Malformed ids are "not found".
#[tokio::test]
async fn an_odd_id_is_not_there() {
    let server = TestServer::memory().await;
    let run = server.start(&server.echo().await, json!({})).await;
    let hex = run.strip_prefix("run_").unwrap();
    let odd = [
        format!("run_{}", hex.to_uppercase()),
        format!("RUN_{hex}"),
        hex.to_owned(),
        format!("run_{}", &hex[1..]),
        format!("run_{hex}0"),
        format!("run_%D9%A3{}", &hex[2..]),
        "1".into(),
        "null".into(),
        "%20".into(),
        "run_".into(),
        "a".repeat(3_000),
    ];
    for id in odd.iter().filter(|id| **id != run) {
        for path in [format!("{RUNS}/{id}"), format!("{RUNS}/{id}/events"), format!("{RUNS}/{id}/ledger")] {
            assert_eq!(server.get(&path).await.told(), (404, "not_found".into()), "{path}");
        }
        let cancel = server.post(&format!("{RUNS}/{id}/cancel"), &json!({}), &[]).await;
        assert_eq!(cancel.told(), (404, "not_found".into()), "{id}");
        assert_eq!(server.get(&format!("/api/v1/workflow-definitions/{id}")).await.status, 404, "{id}");
        assert_eq!(server.get(&format!("/api/v1/credentials/{id}")).await.status, 404, "{id}");
    }
    for path in [
        "/api//v1/workflow-runs",
        "/api/v1/workflow-runs/",
        "/api/v1/../v1/workflow-runs",
        "/API/v1/workflow-runs",
    ] {
        let answer = server.get(path).await;
        assert!(matches!(answer.status, 400 | 404) || path.contains(".."), "{path}: {}", answer.status);
    }
}

/// HEAD is a GET without a body; OPTIONS and other origins get no permission.
#[tokio::test]
async fn other_origins_are_given_no_permission() {
    let server = TestServer::memory().await;
    let head = server.send("HEAD", RUNS, None, &server.admin, &[]).await;
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    assert_eq!(server.send("HEAD", RUNS, None, "", &[]).await.status, 401);
    for origin in ["https://evil.example", "null"] {
        let asks = [("origin", origin), ("access-control-request-method", "POST")];
        for method in ["OPTIONS", "GET", "POST"] {
            let answer = server.send(method, RUNS, None, &server.admin, &asks).await;
            assert_eq!(answer.header("access-control-allow-origin"), None, "{method}");
            assert_eq!(answer.header("access-control-allow-credentials"), None, "{method}");
            if method == "OPTIONS" {
                assert_eq!(answer.told(), (405, "method_not_allowed".into()));
                assert!(answer.header("allow").is_some_and(|allow| allow.contains("POST")));
            }
        }
    }
    for method in ["PUT", "PATCH", "DELETE", "BREW", "TRACE"] {
        let answer = server.send(method, RUNS, None, &server.admin, &[]).await;
        assert_eq!(answer.told(), (405, "method_not_allowed".into()), "{method}");
    }
    let answer = server.send("GET", RUNS, None, &server.admin, &[("accept", "text/html")]).await;
    assert_eq!(answer.told(), (406, "not_acceptable".into()));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

/// JSON that breaks a rule is refused, and nothing is made of it.
#[tokio::test]
async fn json_is_read_strictly() {
    let server = TestServer::memory().await;
    let id = server.echo().await;
    let with = |input: &str| format!(r#"{{"definitionId":"{id}","input":{input}}}"#);
    let deep = |depth: usize| with(&format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth)));
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(250_000));
    let bad = [
        String::new(),
        "null".into(),
        "1".into(),
        "[]".into(),
        "{}".into(),
        format!("{}x", with("{}")),
        with("{} // comment"),
        with(r#"{"a":1,}"#),
        with(r#"{"a":1,"a":2}"#),
        with(r#"{"a":{"b":1,"b":1}}"#),
        with(r#"{"a":"\u0000"}"#),
        with(r#"{"\u0000":1}"#),
        with(r#"{"a":"\ud800"}"#),
        with(r#"{"a":NaN}"#),
        with(r#"{"a":1e400}"#),
        with(&format!(r#"{{"a":{}}}"#, "9".repeat(10_000))),
        with("[]"),
        with("null"),
        with("\"x\""),
        deep(64),
        deep(100_000),
        with(&many),
        with(&format!(r#"{{"{}":1}}"#, "k".repeat(65_536))),
        format!("\u{feff}{}", with("{}")),
        format!(r#"{{"definitionId":"{id}","workspaceId":"globex"}}"#),
        r#"{"definitionId":""}"#.to_owned(),
        format!(r#"{{"definitionId":"{id}","delay":"-1s"}}"#),
        format!(r#"{{"definitionId":"{id}","delay":5}}"#),
        format!(r#"{{"definitionId":"{id}","timeout":"99999999999999999999d"}}"#),
        format!(r#"{{"definitionId":"{id}","priority":"urgent"}}"#),
        format!(r#"{{"definitionId":"{id}","subject":""}}"#),
        format!(r#"{{"definitionId":"{id}","subject":"{}"}}"#, "s".repeat(256)),
    ];
    for body in &bad {
        let refused = send_text(&server, body).await;
        let shown: String = body.chars().take(80).collect();
        assert!(matches!(refused.status, 400 | 404 | 413), "{shown}: {} {}", refused.status, refused.text());
        assert!(refused.text().len() < 2_000, "{shown}");
        assert_eq!(refused.header("content-type"), Some("application/problem+json"), "{shown}");
    }
    let mut request = server.http.post(format!("{}{RUNS}", server.url)).bearer_auth(&server.admin);
    request =
        request.header("content-type", "application/json").body(b"{\"definitionId\":\"\xff\"}".to_vec());
    assert_eq!(request.send().await.unwrap().status(), 400, "not UTF-8");
    let large = with(&format!(r#"{{"a":"{}"}}"#, "x".repeat(3 * 1024 * 1024)));
    assert_eq!(send_text(&server, &large).await.told(), (413, "payload_too_large".into()));
    for kind in [
        "text/plain",
        "application/json; charset=utf-16",
        "application/json5",
        "application/x-www-form-urlencoded",
    ] {
        let refused =
            server.send("POST", RUNS, Some(with("{}")), &server.admin, &[("content-type", kind)]).await;
        assert_eq!(refused.told(), (415, "unsupported_media_type".into()), "{kind}");
    }
    let gzip =
        server.send("POST", RUNS, Some(with("{}")), &server.admin, &[("content-encoding", "gzip")]).await;
    assert_eq!(gzip.told(), (415, "unsupported_media_type".into()));
    assert_eq!(server.get(RUNS).await.json()["items"], json!([]), "nothing was made of any of it");
}

/// Odd but valid values come back unchanged, on every store.
#[tokio::test]
async fn odd_values_come_back_as_they_were_sent() {
    let input = r#"{"__proto__":1,"constructor":{"":"x"},"nfd":"e\u0301","nfc":"\u00e9","rtl":"\u200fa","big":18446744073709551615,"low":-9223372036854775808,"float":0.1,"exp":1e-7,"zero":-0.0,"emoji":"\ud83d\ude00"}"#;
    for server in [TestServer::memory().await, TestServer::sqlite().await, TestServer::postgres().await] {
        let id = server.echo().await;
        let made = send_text(&server, &format!(r#"{{"definitionId":"{id}","input":{input}}}"#)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let run = made.json()["run"]["id"].as_str().unwrap().to_owned();
        let ended = server.end(&run).await;
        let sent: Value = serde_json::from_str(input).unwrap();
        assert_eq!(ended["run"]["input"], sent);
        assert_eq!(ended["run"]["output"]["said"], sent);
    }
}

/// Live streams are limited per credential, and a closed one frees its permit.
#[tokio::test]
async fn a_credential_may_keep_so_many_streams_open() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "waits", "version": 1, "steps": [{ "name": "go", "type": "signal" }] });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    let open = async || {
        let request = server.http.get(format!("{}{RUNS}/{run}/events/stream", server.url));
        request.bearer_auth(&server.admin).send().await.unwrap()
    };
    let mut streams = Vec::new();
    for _ in 0..hapax_server::limits::MAX_STREAMS_PER_CREDENTIAL {
        let stream = open().await;
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    let refused = server.get(&format!("{RUNS}/{run}/events/stream")).await;
    assert_eq!(refused.told(), (429, "too_many_streams".into()));
    assert!(refused.header("retry-after").is_some());
    let colleague = server.key("acme", Role::Viewer).await;
    let request = server.http.get(format!("{}{RUNS}/{run}/events/stream", server.url));
    assert_eq!(request.bearer_auth(colleague).send().await.unwrap().status(), 200);
    streams.clear();
    let since = std::time::Instant::now();
    while open().await.status() != 200 {
        assert!(since.elapsed() < super::support::PATIENCE, "the seats are still taken");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let bad = [("last-event-id", "many")];
    let path = format!("{RUNS}/{run}/events/stream");
    assert_eq!(server.send("GET", &path, None, &server.admin, &bad).await.status, 400);
}

/// Bodies of the other routes are read as strictly.
#[tokio::test]
async fn every_body_is_read_strictly() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let run = server.start(&echo, json!({})).await;
    for (path, body) in [
        (format!("{RUNS}/{run}/cancel"), json!({ "reson": "typo" })),
        (format!("{RUNS}/{run}/cancel"), json!([])),
        (format!("{RUNS}/{run}/cancel"), json!(["a reason"])),
        (format!("{RUNS}/{run}/cancel"), json!(null)),
        (RUNS.into(), json!([echo, {}])),
        (format!("{RUNS}/batch"), json!({ "runs": [[echo, {}]] })),
        (format!("{RUNS}/batch"), json!([[{ "definitionId": echo }]])),
        (format!("{RUNS}/{run}/retry"), json!({ "from": "say" })),
        (format!("{RUNS}/{run}/signals"), json!({ "value": 1 })),
        (format!("{RUNS}/{run}/signals"), json!({ "name": "" })),
        (format!("{RUNS}/{run}/signals"), json!({ "name": "two words" })),
        (format!("{RUNS}/{run}/signals"), json!({ "name": "x".repeat(200) })),
        (format!("{RUNS}/{run}/signals"), json!({ "name": "a", "signalId": "" })),
        (
            format!("{RUNS}/{run}/signals"),
            json!({ "name": "approval.sign-off", "value": { "decision": "approve" } }),
        ),
        (format!("{RUNS}/{run}/notes"), json!({ "text": "" })),
        (format!("{RUNS}/{run}/notes"), json!({ "text": "x".repeat(5_000) })),
        (format!("{RUNS}/batch"), json!({ "runs": [] })),
        (format!("{RUNS}/batch"), json!({ "runs": vec![json!({ "definitionId": "d" }); 101] })),
        ("/api/v1/keys/run/k/release".into(), json!({ "reason": 1 })),
        (
            format!("/api/v1/doubts/{run}/say/resolve"),
            json!({ "resolution": "maybe", "reason": "x", "version": 1 }),
        ),
        (
            format!("/api/v1/doubts/{run}/say/resolve"),
            json!({ "resolution": "happened", "reason": "x", "version": 1 }),
        ),
    ] {
        let refused = server.post(&path, &body, &[]).await;
        assert_eq!(refused.status, 400, "{path} {body}: {}", refused.text());
        assert!(refused.json()["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    }
}

/// Reasons and names have a maximum length on every route that stores them; a longer one changes
/// nothing.
#[tokio::test]
async fn reasons_and_names_have_a_length_wherever_they_are_kept() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "waits", "version": 1, "steps": [{ "name": "go", "type": "signal" }] });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    let before = server.until(&run, "WAITING").await;
    let credential =
        server.post("/api/v1/credentials", &json!({ "name": "c", "role": "viewer" }), &[]).await.json();
    let credential = credential["credential"]["id"].as_str().unwrap().to_owned();
    let endless = "x".repeat(4_097);
    let paths = [
        format!("{RUNS}/{run}/cancel"),
        format!("{RUNS}/{run}/pause"),
        format!("{RUNS}/{run}/resume"),
        format!("{RUNS}/{run}/retry"),
        format!("/api/v1/credentials/{credential}/revoke"),
    ];
    for path in paths {
        for reason in [endless.as_str(), "  "] {
            let refused = server.post(&path, &json!({ "reason": reason }), &[]).await;
            assert_eq!(refused.told(), (400, "invalid_request".into()), "{path}: {}", refused.text());
            assert_eq!(refused.json()["path"], "/reason", "{path}");
        }
    }
    let refused = server.post(&format!("{RUNS}/{run}/notes"), &json!({ "text": endless }), &[]).await;
    assert_eq!((refused.status, &refused.json()["path"]), (400, &json!("/text")));
    assert_eq!(server.get(&format!("{RUNS}/{run}")).await.json(), before);
    let shown = server.get(&format!("/api/v1/credentials/{credential}")).await.json();
    assert!(shown["revokedAt"].is_null(), "{shown}");
    let longest = json!({ "reason": "ß".repeat(4_096) });
    assert_eq!(server.post(&format!("{RUNS}/{run}/cancel"), &longest, &[]).await.status, 200);
}

/// RELIABILITY, HTTP: a slow, broken or oversized body gets the same error on every kind of route,
/// with and without a key.
#[tokio::test]
async fn an_incomplete_body_gets_the_same_error_with_and_without_a_key() {
    let server = TestServer::memory().await;
    let impatient =
        ListenOptions { body_read_timeout: Duration::from_millis(200), ..ListenOptions::default() };
    let server = server.also_listening(impatient).await;
    let bodies = [
        ("content-length: 100\r\n\r\n{\"a\"", "408", "request_timeout"),
        ("transfer-encoding: chunked\r\n\r\nzz\r\n", "400", "invalid_request"),
        ("content-length: 3000000\r\n\r\n{", "413", "payload_too_large"),
    ];
    for path in [RUNS, "/api/v1/workflow-definitions"] {
        for (body, status, code) in bodies {
            let mut told = Vec::new();
            for key in ["", "idempotency-key: k\r\n"] {
                let head = format!(
                    "POST {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
                     content-type: application/json\r\n{key}",
                    server.admin
                );
                let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer).await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} {key}{body}: {answer}");
                assert!(answer.contains(code), "{path} {key}{body}: {answer}");
                told.push(answer.contains("maxBytes"));
            }
            assert_eq!(told[0], told[1], "{path} {body}");
        }
    }
    assert_eq!(server.get("/api/v1/keys/request/k").await.status, 404, "nothing began");
    // The size limit is the same with and without a key.
    let run = json!({ "definitionId": server.echo().await, "input": { "pad": "x".repeat(2_097_000) } });
    let large = format!("{run}{}", " ".repeat(60_000));
    let made = server.send("POST", RUNS, Some(large), &server.admin, &[("idempotency-key", "large")]).await;
    assert_eq!(made.status, 201, "{}", made.text());
}
