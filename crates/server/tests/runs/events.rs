//! The history of a run, page by page and live.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

use super::support::{PATIENCE, TestServer};
use super::{RUNS, waits};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    id: Option<u64>,
    kind: String,
    data: Value,
}

/// Reads server-sent events as they come.
struct Stream {
    response: reqwest::Response,
    text: String,
    events: VecDeque<Event>,
    /// Value for `Last-Event-ID`.
    seen: u64,
}

impl Stream {
    async fn open(server: &TestServer, run: &str, after: Option<u64>) -> Self {
        let mut request = server.http.get(format!("{}{RUNS}/{run}/events/stream", server.url));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = request.bearer_auth(&server.admin).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream { response, text: String::new(), events: VecDeque::new(), seen: after.unwrap_or(0) }
    }

    /// The next event; `None` if the stream has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                self.seen = event.id.unwrap_or(self.seen);
                return Some(event);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("something comes");
            self.text.push_str(std::str::from_utf8(&chunk.unwrap()?).unwrap());
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(name))?;
                    Some(line.trim_start_matches(':').trim().to_owned())
                };
                if let (Some(kind), Some(data)) = (field("event"), field("data")) {
                    let data = serde_json::from_str(&data).unwrap();
                    let id = field("id").map(|id| id.parse().unwrap());
                    self.events.push_back(Event { id, kind, data });
                }
                self.text = rest.to_owned();
            }
        }
    }
}

/// S0.22, RELIABILITY 26: one event per version, without gaps, on as many pages as it takes.
#[tokio::test]
async fn the_history_has_one_event_per_version() {
    let server = TestServer::sqlite().await;
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    server.until(&run, "WAITING").await;
    server.post(&format!("{RUNS}/{run}/pause"), &json!({}), &[]).await;
    server.post(&format!("{RUNS}/{run}/resume"), &json!({}), &[]).await;
    server.post(&format!("{RUNS}/{run}/signals"), &json!({ "name": "go" }), &[]).await;
    let ended = server.end(&run).await;
    let mut events = Vec::new();
    let mut path = format!("{RUNS}/{run}/events?limit=2");
    loop {
        let page = server.get(&path).await.json();
        events.extend(page["items"].as_array().unwrap().clone());
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("{RUNS}/{run}/events?limit=2&cursor={cursor}");
    }
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"started"), Some(&"completed")), "{kinds:?}");
    for kind in ["waited", "paused", "resumed"] {
        assert!(kinds.contains(&kind), "{kind} is not in {kinds:?}");
    }
    let versions: Vec<u64> = events.iter().map(|event| event["version"].as_u64().unwrap()).collect();
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
    assert_eq!(versions.last(), ended["run"]["version"].as_u64().as_ref());
}

/// A live stream sends events as they happen, ends with the run, and continues where another
/// stopped.
#[tokio::test]
async fn a_stream_follows_a_run_to_its_end() {
    let server = TestServer::sqlite().await;
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    server.until(&run, "WAITING").await;
    let mut stream = Stream::open(&server, &run, None).await;
    let first = stream.next().await.unwrap();
    assert_eq!((first.kind.as_str(), &first.data["kind"]), ("run", &json!("started")));
    // All earlier events are sent without waiting for new ones.
    let version = server.get(&format!("{RUNS}/{run}")).await.json()["run"]["version"].as_u64().unwrap();
    while stream.seen < version {
        stream.next().await.unwrap();
    }
    server.post(&format!("{RUNS}/{run}/signals"), &json!({ "name": "go", "value": { "n": 1 } }), &[]).await;
    let mut rest = Vec::new();
    while let Some(event) = stream.next().await {
        rest.push(event);
    }
    let last = rest.last().unwrap();
    assert_eq!((last.kind.as_str(), &last.data["status"]), ("end", &json!("COMPLETED")));
    assert_eq!(last.data["output"], json!({ "n": 1 }));
    assert!(rest.iter().any(|event| event.kind == "step" && event.data["id"] == "go"), "{rest:?}");
    // Another stream goes on after what the first one had seen.
    let mut resumed = Stream::open(&server, &run, Some(version)).await;
    let mut again = Vec::new();
    while let Some(event) = resumed.next().await {
        again.push(event);
    }
    let of_runs =
        |events: &[Event]| events.iter().filter(|event| event.kind == "run").cloned().collect::<Vec<_>>();
    assert_eq!(of_runs(&again), of_runs(&rest));
    assert_eq!(again.last(), rest.last());
    // A stream that has seen everything gets the end.
    let mut late = Stream::open(&server, &run, last.id).await;
    assert_eq!(late.next().await.unwrap().kind, "end");
    assert!(late.next().await.is_none());
}

/// A history longer than one page of the store is sent in full.
#[tokio::test]
async fn a_stream_sends_a_long_history_in_full() {
    let server = TestServer::memory().await;
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    server.until(&run, "WAITING").await;
    let path = format!("{RUNS}/{run}");
    for what in ["pause", "resume"].into_iter().cycle().take(560) {
        server.post(&format!("{path}/{what}"), &json!({}), &[]).await;
    }
    server.post(&format!("{path}/signals"), &json!({ "name": "go" }), &[]).await;
    let ended = server.end(&run).await;
    let version = ended["run"]["version"].as_u64().unwrap();
    assert!(version > 1_000, "{version}");
    let mut stream = Stream::open(&server, &run, None).await;
    let mut versions = Vec::new();
    let mut last = None;
    while let Some(event) = stream.next().await {
        if event.kind == "run" {
            versions.push(event.data["version"].as_u64().unwrap());
        }
        last = Some(event);
    }
    let listed = server.engine.workspace(hapax_engine::model::WorkspaceId::new("acme").unwrap());
    let mut expected = Vec::new();
    loop {
        let after = hapax_engine::model::Version::new(expected.last().copied().unwrap_or(0));
        let page = listed.list_events(run.parse().unwrap(), after).await.unwrap();
        if page.is_empty() {
            break;
        }
        expected.extend(page.iter().map(|event| event.version.get()));
    }
    assert!(expected.len() > 1_000, "{}", expected.len());
    assert_eq!(versions, expected);
    assert_eq!(last.unwrap().kind, "end");
}

/// A stream does not keep the server from stopping.
#[tokio::test]
async fn a_stream_ends_when_the_server_stops() {
    let server = TestServer::memory().await;
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    let mut stream = Stream::open(&server, &run, None).await;
    stream.next().await.unwrap();
    server.stop();
    let drained =
        tokio::time::timeout(Duration::from_secs(5), async { while stream.next().await.is_some() {} }).await;
    assert!(drained.is_ok());
}

/// Live streams once outlived the revocation of their credential. Now it takes effect at once, also
/// for a stream without events; so does a rotation without overlap.
#[tokio::test]
async fn a_stream_ends_when_its_key_is_no_longer_good() {
    let server = TestServer::memory().await;
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    server.until(&run, "WAITING").await;
    for verb in ["revoke", "rotate"] {
        let body = json!({ "name": "follower", "role": "viewer" });
        let made = server.post("/api/v1/credentials", &body, &[]).await.json();
        let (id, key) = (made["credential"]["id"].as_str().unwrap(), made["apiKey"].as_str().unwrap());
        let url = format!("{}{RUNS}/{run}/events/stream", server.url);
        let response = server.http.get(url).bearer_auth(key).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut stream = Stream { response, text: String::new(), events: VecDeque::new(), seen: 0 };
        assert!(stream.next().await.is_some(), "it tells what happened so far");
        let changed = server.post(&format!("/api/v1/credentials/{id}/{verb}"), &json!({}), &[]).await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        let since = std::time::Instant::now();
        while stream.next().await.is_some() {}
        assert!(since.elapsed() < Duration::from_secs(1), "{verb}: {:?}", since.elapsed());
    }
}
