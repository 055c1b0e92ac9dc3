//! Subscriptions and deliveries of webhooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::remote::support::{ECHO, TestServer};

/// A receiver that answers with whatever the number says.
async fn receiver() -> (String, Arc<AtomicU16>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let status = Arc::new(AtomicU16::new(204));
    let answers = status.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let status = answers.load(Ordering::SeqCst);
            tokio::spawn(async move {
                let mut read = Vec::new();
                // The body is one object, which ends with a brace.
                while !read.ends_with(b"}") && stream.read_buf(&mut read).await.is_ok_and(|count| count > 0) {
                }
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (url, status)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_made_tested_disabled_by_its_receiver_and_mended() {
    let server = TestServer::start().await;
    let (url, status) = receiver().await;
    server.hapax(&["webhooks", "subscriptions", "create", "billing", &url]).await.exits(2);
    server
        .hapax(&["webhooks", "subscriptions", "create", "billing", &url, "--event", "run.begun"])
        .await
        .exits(2);
    let make = [
        "webhooks",
        "subscriptions",
        "create",
        "billing",
        &url,
        "--event",
        "run.completed,run.failed",
        "--json",
    ];
    let made = server.hapax(&make).await.ok().json();
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"), "{made}");
    let id = made["subscription"]["id"].as_str().unwrap();
    server.hapax(&make).await.exits(6);
    let tested = server.hapax(&["webhooks", "subscriptions", "test", id]).await.ok().out;
    assert!(tested.starts_with("delivered: answered 204"), "{tested}");

    status.store(410, Ordering::SeqCst);
    let echo = server.upload(ECHO).await;
    server.hapax(&["start", &echo]).await.ok();
    let since = Instant::now();
    let dead = loop {
        let dead = server
            .hapax(&["webhooks", "deliveries", "list", "--status", "dead", "--subscription", id, "--json"])
            .await;
        let dead = dead.ok();
        if !dead.out.is_empty() {
            break dead.json();
        }
        assert!(since.elapsed() < Duration::from_secs(20));
    };
    let delivery = dead["id"].as_str().unwrap();
    assert_eq!(dead["failure"]["message"], "answered 410: the receiver wants no more");
    let listed = server.hapax(&["webhooks", "subscriptions", "list"]).await.ok().out;
    assert!(listed.contains("disabled") && listed.contains("410") && !listed.contains(secret), "{listed}");
    let redeliver = ["webhooks", "deliveries", "redeliver", delivery, "--reason", "it is back"];
    let refused = server.hapax(&redeliver).await.exits(6);
    assert!(refused.err.contains("subscription_disabled"), "{}", refused.err);

    status.store(200, Ordering::SeqCst);
    server.hapax(&["webhooks", "subscriptions", "enable", id, "--reason", "it is back"]).await.ok();
    let due = server.hapax(&redeliver).await.ok().out;
    assert!(due.contains("is due again"), "{due}");
    let since = Instant::now();
    while !server
        .hapax(&["webhooks", "deliveries", "list", "--status", "delivered"])
        .await
        .ok()
        .out
        .contains(delivery)
    {
        assert!(since.elapsed() < Duration::from_secs(20));
    }
    server.hapax(&["webhooks", "subscriptions", "rotate", id]).await.exits(2);
    let rotated = server.hapax(&["webhooks", "subscriptions", "rotate", id, "--yes"]).await.ok();
    assert!(rotated.err.contains("shown only once") && rotated.out.contains("whsec_"), "{}", rotated.err);
    let shown = server.hapax(&["webhooks", "subscriptions", "show", id]).await.ok().out;
    assert!(shown.contains("signs until"), "{shown}");
    server.hapax(&["webhooks", "subscriptions", "delete", id, "--yes"]).await.ok();
    assert!(!server.hapax(&["webhooks", "subscriptions", "list"]).await.ok().out.contains(id));
    server.hapax(&["webhooks", "subscriptions", "test", id]).await.exits(5);
}
