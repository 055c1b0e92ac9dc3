//! Secrets and payloads appear only where they belong. RELIABILITY 58.

use std::io::Write;
use std::sync::{Arc, Mutex};

use hapax_server::identity::INSTALLATION;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use super::RUNS;
use super::support::{Answer, Receiver, Role, TestServer};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Captured;

    fn make_writer(&'a self) -> Captured {
        self.clone()
    }
}

fn holds(bytes: &[u8], canary: &str) -> bool {
    bytes.windows(canary.len()).any(|window| window == canary.as_bytes())
}

/// No secret of a key is in the database, the logs at their most talkative, the metrics or an error; no payload is in logs, metrics or
/// errors.
#[tokio::test]
async fn secrets_and_payloads_are_only_where_they_belong() {
    const PAYLOAD: &str = "canary-payload-7f3a";
    let captured = Captured::default();
    // This process runs other tests too; their logs are not captured.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(captured.clone())
        .finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
    let server = TestServer::sqlite().await;
    let echo = server.echo().await;
    let operator = server.key("acme", Role::Operator).await;
    let mut said: Vec<Answer> = Vec::new();
    let body = |text: &str| json!({ "definitionId": echo, "input": { "card": text } }).to_string();
    for key in ["k1", "k1", "k2"] {
        let headers = [("idempotency-key", key)];
        let made = server.send("POST", RUNS, Some(body(PAYLOAD)), &operator, &headers).await;
        assert_eq!(made.status, 201);
        server.end(made.json()["run"]["id"].as_str().unwrap()).await;
    }
    // A secret that webhooks are signed with, before and after it is rotated.
    let receiver = Receiver::start().await;
    let subscription = json!({ "name": "told", "url": receiver.url(), "events": ["run.completed"] });
    let made = server.post("/api/v1/webhook-subscriptions", &subscription, &[]).await.json();
    let path = format!("/api/v1/webhook-subscriptions/{}", made["subscription"]["id"].as_str().unwrap());
    let rotated = server.post(&format!("{path}/rotate"), &json!({}), &[]).await.json();
    let signing = [&made, &rotated].map(|issued| issued["secret"].as_str().unwrap().to_owned());
    let made = server.send("POST", RUNS, Some(body(PAYLOAD)), &operator, &[]).await;
    server.end(made.json()["run"]["id"].as_str().unwrap()).await;
    let webhook = receiver.until(1).await.remove(0);
    assert!(signing.iter().all(|secret| webhook.is_signed_with(secret)));
    assert!(!holds(&webhook.body, PAYLOAD), "a webhook tells of a run, not what it works on");
    said.push(server.get(&path).await);
    said.push(server.get("/api/v1/webhook-deliveries").await);
    said.push(server.get("/api/v1/audit").await);
    // Errors contain neither.
    let conflict = [("idempotency-key", "k1")];
    let other = format!("{PAYLOAD}-other");
    said.push(server.send("POST", RUNS, Some(body(&other)), &operator, &conflict).await);
    said.push(server.send("POST", RUNS, Some(format!("{{\"{PAYLOAD}\":")), &operator, &[]).await);
    said.push(server.send("GET", "/api/v1/credentials", None, &operator, &[]).await);
    // A key may end in any letter, and bent it has to end in another.
    let (most, last) = operator.split_at(operator.len() - 1);
    let bent = format!("{most}{}", if last == "x" { "y" } else { "x" });
    let refused = server.send("GET", RUNS, None, &bent, &[]).await;
    assert_eq!(refused.status, 401, "{}", refused.text());
    said.push(refused);
    said.push(server.send("GET", &format!("{RUNS}/nothing"), None, &operator, &[]).await);
    // A settle token is in its own answer, and nowhere else.
    server.post("/api/v1/promises", &json!({ "id": "p" }), &[]).await;
    let token = server.post("/api/v1/promises/id:p/tokens", &json!({}), &[]).await.json();
    let token = token["token"].as_str().unwrap().to_owned();
    let link = format!("/settle/{token}");
    let paid = json!({ "value": PAYLOAD }).to_string();
    for (method, body) in [("GET", None), ("POST", Some(paid)), ("POST", Some("{\"value\":2}".to_owned()))] {
        said.push(server.send(method, &link, body, "", &[]).await);
    }
    let watcher = server.key(INSTALLATION, Role::Viewer).await;
    let metrics = server.send("GET", "/metrics", None, &watcher, &[]).await;
    assert_eq!(metrics.status, 200);
    let mut kept = Vec::new();
    for file in std::fs::read_dir(server.folder()).unwrap() {
        kept.extend(std::fs::read(file.unwrap().path()).unwrap());
    }
    let logged = captured.0.lock().unwrap().clone();
    assert!(holds(&kept, PAYLOAD), "the payload is in the database, so the scan sees what there is");
    assert!(holds(&logged, "TRACE"), "the logs are at their most talkative");
    assert!(holds(&logged, "effect ended key=run_"), "S2.37: an effect is logged with its key");
    for key in [&server.admin, &operator, &token].into_iter().chain(&signing) {
        let secret = &key[key.len() - 30..];
        assert!(!holds(&kept, secret), "a secret is in the database");
        assert!(!holds(&logged, secret), "a secret is in the logs");
        assert!(!holds(&metrics.bytes, secret), "a secret is in the metrics");
        for answer in &said {
            assert!(!holds(&answer.bytes, secret), "{}", answer.text());
        }
    }
    assert!(!holds(&metrics.bytes, PAYLOAD));
    for answer in said.iter().filter(|answer| answer.status != 400) {
        assert!(!holds(&answer.bytes, PAYLOAD), "{}", answer.text());
    }
    if let Some(at) = logged.windows(PAYLOAD.len()).position(|window| window == PAYLOAD.as_bytes()) {
        let around = &logged[at.saturating_sub(300)..(at + 100).min(logged.len())];
        panic!("a payload is in the logs: {}", String::from_utf8_lossy(around));
    }
}
