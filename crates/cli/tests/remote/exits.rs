//! RELIABILITY, CLI: a server that is down, elsewhere, busy, or no server at all: each has its exit code.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::remote::support::{Ran, TestServer, command, run};

/// A listener that answers each connection with `answer` and closes it.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = socket.read(&mut [0; 4_096]).await;
                let _ = socket.write_all(answer.as_bytes()).await;
                let _ = socket.shutdown().await;
            });
        }
    });
    url
}

async fn list_at(url: &str) -> Ran {
    let mut command = command(&["runs", "list", "--server", url, "--retry-for", "0s"]);
    command.env("HAPAX_API_KEY", "hpx_canary");
    let ran = run(command).await;
    assert!(ran.out.is_empty() && !ran.err.is_empty() && !ran.err.contains("canary"), "{ran:?}");
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_trouble_has_its_exit_code() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let down = list_at(&format!("http://127.0.0.1:{port}")).await.exits(3);
    assert!(down.err.contains("cannot be reached"), "{}", down.err);

    for (answer, code, says) in [
        ("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", 4, "401"),
        ("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n", 7, "429"),
        ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", 7, "503"),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n",
            8,
            "elsewhere.example",
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", 8, "not one of a Hapax server"),
        ("SSH-2.0-OpenSSH_9.6\r\n", 8, "does not speak HTTP"),
        ("", 3, "connection was cut"),
    ] {
        let ran = list_at(&answering(answer).await).await.exits(code);
        assert!(ran.err.contains(says), "{answer:?}: {}", ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_has_its_exit_codes_too() {
    let server = TestServer::start().await;
    let tls = list_at(&server.url.replace("http://", "https://")).await.exits(8);
    assert!(tls.err.contains("secure connection"), "{}", tls.err);
    list_at(&server.url).await.exits(4);
    let absent = server.hapax(&["runs", "show", "run_00000000000000000000000000000000"]).await.exits(5);
    assert!(absent.err.contains("not_found"), "{}", absent.err);
    server.hapax(&["start", "no-such-definition"]).await.exits(5);
    for odd in ["../../healthz", "%2e%2e", "a?b#c", "é"] {
        server.hapax(&["runs", "show", odd]).await.exits(5);
    }
    server.hapax(&["runs", "show", ".."]).await.exits(2);
}

/// The suite judges our own server.
#[tokio::test(flavor = "multi_thread")]
async fn our_server_keeps_the_contract_that_conformance_asks_for() {
    let server = TestServer::start().await;
    let echo = server.upload(crate::remote::support::ECHO).await;
    let config = serde_json::json!({
        "request": {
            "path": "/api/v1/workflow-runs",
            "headers": {"authorization": format!("Bearer {}", server.admin)},
            "body": {"definitionId": echo, "input": {"reference": "conformance-{{unique}}"}},
        },
        "otherBody": {"definitionId": echo, "input": {"reference": "another-{{unique}}"}},
        "badBody": {"definitionId": echo, "input": "much"},
    });
    let file = server.file("conformance.json", &config.to_string());
    let judge = ["conformance", "idempotency", "--url", &server.url, "--config", &file];
    let judged = server.hapax(&[&judge[..], &["--json"]].concat()).await;
    let passed = judged.out.lines().filter(|line| line.contains("\"outcome\":\"passed\"")).count();
    assert!(passed > 5, "{judged:#?}");
    server
        .hapax(&["conformance", "idempotency", "--url", "http://127.0.0.1:1", "--config", &file])
        .await
        .exits(1);
    let broken = server.file("broken.json", "{\"requests\": 1}");
    let refused = server
        .hapax(&["conformance", "idempotency", "--url", &server.url, "--config", &broken])
        .await
        .exits(1);
    assert!(refused.err.contains("broken.json"), "{}", refused.err);
}
