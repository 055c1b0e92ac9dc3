//! Webhook sources and their events.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::remote::support::TestServer;

const SOURCE: &str = "name: bells\nsignature: { scheme: none, allowUnsigned: true }\neventId: { pointer: /id }\nactions:\n  - settle: { key: \"bell:{{ body.bell }}\", value: 1 }\n";

/// Sends a webhook as a provider would.
async fn send(url: &str, path: &str, body: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_applied_sent_to_looked_at_and_disabled() {
    let server = TestServer::start().await;
    let file = server.folder.path().join("bells.yaml");
    std::fs::write(&file, SOURCE).unwrap();
    let file = file.display().to_string();
    let valid = server.hapax(&["validate", &file]).await.ok().out;
    assert!(valid.contains("webhook source bells is valid"), "{valid}");
    let made = server.hapax(&["apply", &file, "--json"]).await.ok().json();
    let path = made["path"].as_str().unwrap().to_owned();
    let again = server.hapax(&["apply", &file]).await.ok();
    assert!(again.out.contains("unchanged"), "{again:?}");
    assert!(again.err.contains("warning at /signature"), "{again:?}");
    let answer = send(&server.url, &path, "{\"id\":\"e1\",\"bell\":7}").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let listed =
        server.hapax(&["webhooks", "events", "list", "--status", "unmatched", "--json"]).await.ok().json();
    assert_eq!((&listed["eventId"], &listed["source"]), (&"e1".into(), &"bells".into()));
    let shown = server.hapax(&["webhooks", "events", "show", "bells", "e1", "--json"]).await.ok().json();
    assert_eq!(shown["rawBody"], "{\"id\":\"e1\",\"bell\":7}");
    std::fs::write(&file, SOURCE.replace("bell:", "chime:")).unwrap();
    let replaced = server.hapax(&["apply", &file]).await.ok().out;
    assert!(replaced.starts_with("webhook source bells replaced (version 2)"), "{replaced}");
    let processed =
        server.hapax(&["webhooks", "events", "reprocess", "bells", "e1", "--json"]).await.ok().json();
    assert_eq!((&processed["attempts"], &processed["status"]), (&2.into(), &"unmatched".into()));
    let many = ["webhooks", "events", "reprocess-many", "--status", "unmatched"];
    server.hapax(&many).await.exits(2);
    server.hapax(&[&many[..], &["--limit", "5"]].concat()).await.ok();
    let disabled = server
        .hapax(&["webhooks", "sources", "disable", "bells", "--reason", "noise", "--json"])
        .await
        .ok()
        .json();
    assert_eq!((&disabled["status"], &disabled["reason"]), (&"disabled".into(), &"noise".into()));
    server.hapax(&["webhooks", "sources", "delete", "bells"]).await.exits(2);
    let deleted = server.hapax(&["webhooks", "sources", "delete", "bells", "--yes"]).await.ok().out;
    assert_eq!(deleted, "bells is deleted\n");
    server.hapax(&["webhooks", "sources", "show", "bells"]).await.exits(5);
    let made = server.hapax(&["apply", &file, "--json"]).await.ok().json();
    assert_eq!((&made["path"], &made["version"]), (&path.as_str().into(), &5.into()));
    server.hapax(&["webhooks", "sources", "show", "nobody"]).await.exits(5);
}
