//! The client against a scripted server: requests that it retries, and their keys.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hapax_api::client::{Client, ClientError, Followed, Paging, RequestOptions};
use hapax_api::{Code, CreateCredential, CreateRun, Problem, Role, SendSignal};
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers each request with the next line of its script, and records the request.
struct Scripted {
    client: Client,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// Starts the server. An empty response cuts the connection; the last one repeats.
    async fn new(script: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = seen.clone();
        tokio::spawn(async move {
            let mut script = VecDeque::from(script);
            while let Ok((mut socket, _)) = listener.accept().await {
                let request = read(&mut socket).await;
                kept.lock().unwrap().push(request);
                let answer = if script.len() > 1 { script.pop_front() } else { script.front().cloned() };
                let _ = socket.write_all(answer.unwrap_or_default().as_bytes()).await;
                let _ = socket.shutdown().await;
            }
        });
        let client =
            Client::new(&url, &SecretString::from("hpx_test")).unwrap().patience(Duration::from_secs(60));
        Scripted { client, seen }
    }

    /// The value of a header in each request.
    fn sent(&self, header: &str) -> Vec<Option<String>> {
        let value = |request: &String| {
            let lines = request.lines().filter_map(|line| line.split_once(": "));
            lines
                .filter(|(name, _)| name.eq_ignore_ascii_case(header))
                .map(|(_, value)| value.to_owned())
                .next()
        };
        self.seen.lock().unwrap().iter().map(value).collect()
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// One request, head and body.
async fn read(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4_096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
                return text;
            }
        }
        match socket.read(&mut chunk).await {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn refusal(code: Code, after: Option<u64>) -> String {
    let mut problem = Problem::new(code, "not now");
    problem.retry_after = after.map(|seconds| Duration::from_secs(seconds).into());
    answer(&format!("{} No", problem.status), &serde_json::to_string(&problem).unwrap())
}

fn sent() -> String {
    answer("200 OK", r#"{"runId":"run_1","stored":true}"#)
}

fn signal() -> SendSignal {
    SendSignal { name: "go".into(), value: None, signal_id: None }
}

const CUT: String = String::new();

/// CONTRACT: a retry under the same key converges on one result.
#[tokio::test]
async fn a_change_whose_answer_was_lost_is_sent_again_under_the_same_key() {
    let script =
        vec![CUT, refusal(Code::StoreUnavailable, None), refusal(Code::RequestInProgress, Some(0)), sent()];
    let server = Scripted::new(script).await;
    let answered = server.client.signal_run("run_1", &signal(), RequestOptions::default()).await.unwrap();
    assert!(answered.stored);
    let keys = server.sent("idempotency-key");
    assert_eq!(keys.len(), 4);
    assert!(
        keys[0].as_ref().is_some_and(|key| key.len() == 32) && keys.iter().all(|key| *key == keys[0]),
        "{keys:?}"
    );
    server.client.signal_run("run_1", &signal(), RequestOptions::default()).await.unwrap();
    assert_ne!(server.sent("idempotency-key")[4], keys[0], "another call is another request");
    let options = RequestOptions { idempotency_key: Some("mine".into()), if_version: Some(7) };
    server.client.signal_run("run_1", &signal(), options).await.unwrap();
    assert_eq!(server.sent("idempotency-key")[5].as_deref(), Some("mine"));
    assert_eq!(server.sent("if-match")[5].as_deref(), Some("\"7\""));
    assert_eq!(server.sent("authorization")[5].as_deref(), Some("Bearer hpx_test"));
}

#[tokio::test]
async fn what_will_not_pass_is_not_sent_again() {
    for code in [
        Code::RunEnded,
        Code::IdempotencyKeyConflict,
        Code::NotFound,
        Code::Unauthorized,
        Code::Internal,
        Code::RateLimited,
    ] {
        let server = Scripted::new(vec![refusal(code, None)]).await;
        let refused =
            server.client.signal_run("run_1", &signal(), RequestOptions::default()).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().code, code);
        assert_eq!(server.count(), 1, "{code}");
    }
}

#[tokio::test]
async fn what_answers_with_a_secret_is_sent_once() {
    let server = Scripted::new(vec![CUT]).await;
    let asked = CreateCredential {
        name: "ci".into(),
        role: Role::Viewer,
        requester: None,
        expires_in: None,
        networks: vec!["10.8.0.0/16".into()],
        hides_payloads: true,
        may_offer: None,
    };
    let cut = server.client.create_credential(None, &asked).await.unwrap_err();
    assert!(matches!(cut, ClientError::Unreachable { was_sent: true, .. }), "{cut:?}");
    assert_eq!((server.count(), server.sent("idempotency-key")), (1, vec![None]));
}

#[tokio::test]
async fn patience_ends_and_a_server_that_is_not_there_is_not_waited_for() {
    let server = Scripted::new(vec![refusal(Code::ShuttingDown, None)]).await;
    let client = server.client.clone().patience(Duration::from_secs(2));
    let refused = client.list_runs(&Default::default(), &Paging::default()).await.unwrap_err();
    assert_eq!(refused.status(), Some(503));
    // The shortest pauses are 50, 100, 200, 400 and 800 ms. The next one would end after two
    // seconds, long before other clients give up. The test counts requests instead of measuring
    // time, because a slow machine tries less often and never more.
    assert!((2..=6).contains(&server.count()), "{}", server.count());
    // If the server asks for a longer wait than the time left, the client gives up at once.
    let server = Scripted::new(vec![refusal(Code::ShuttingDown, Some(3_600))]).await;
    server.client.list_runs(&Default::default(), &Paging::default()).await.unwrap_err();
    assert_eq!(server.count(), 1);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client =
        Client::new(&url, &SecretString::from("hpx_test")).unwrap().patience(Duration::from_secs(60));
    let began = Instant::now();
    let absent = client.get_health().await.unwrap_err();
    assert!(matches!(absent, ClientError::Unreachable { was_sent: false, .. }), "{absent:?}");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let elsewhere =
        "HTTP/1.1 307 Moved\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n".to_owned();
    let server = Scripted::new(vec![elsewhere]).await;
    let asked: CreateRun = serde_json::from_str(r#"{"definitionId":"d"}"#).unwrap();
    let refused = server.client.create_run(&asked, RequestOptions::default()).await.unwrap_err();
    assert!(
        matches!(&refused, ClientError::Redirected { status: 307, location } if location.contains("elsewhere")),
        "{refused:?}"
    );
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_code_of_a_newer_server_is_told_in_its_words() {
    let body = r#"{"type":"/errors/new","title":"New","status":409,"detail":"a new reason","code":"new","retryable":false}"#;
    let server = Scripted::new(vec![answer("409 Conflict", body)]).await;
    let refused = server.client.get_run("run_1").await.unwrap_err();
    assert_eq!(refused.status(), Some(409));
    assert!(refused.to_string().contains("a new reason"), "{refused}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_goes_on_where_it_was() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let event = |version: u64, kind: &str| {
        let data =
            format!(r#"{{"version":{version},"at":"2026-01-01T00:00:00Z","fence":1,"kind":"{kind}"}}"#);
        format!("event: run\nid: {version}\ndata: {data}\n\n")
    };
    let run = r#"{"id":"run_1","workspaceId":"w","status":"COMPLETED","workflow":"o@1","version":4,"generation":0,"input":{},"priority":"normal","createdAt":"2026-01-01T00:00:00Z","changedAt":"2026-01-01T00:00:00Z"}"#;
    let first = format!("{head}{}{}event: run\nid: 9\ndata: half", event(1, "started"), event(2, "claimed"));
    let last = format!("{head}: alive\n\n{}event: end\nid: 4\ndata: {run}\n\n", event(3, "completed"));
    let server = Scripted::new(vec![first, CUT, refusal(Code::ShuttingDown, None), last]).await;
    let mut follower = server.client.follow_run("run_1").unwrap();
    let mut versions = Vec::new();
    let end = loop {
        match follower.next().await.unwrap().unwrap() {
            Followed::Run(event) => versions.push(event.version),
            Followed::Step(_) => unreachable!("no step is told of"),
            Followed::End(run) => break run,
        }
    };
    assert_eq!((versions, end.id.as_str()), (vec![1, 2, 3], "run_1"));
    assert_eq!(follower.next().await.unwrap(), None);
    let seen = server.sent("last-event-id");
    assert_eq!(seen, [None, Some("2".into()), Some("2".into()), Some("2".into())]);
}

#[tokio::test]
async fn a_run_that_is_not_there_cannot_be_followed() {
    let server = Scripted::new(vec![refusal(Code::NotFound, None)]).await;
    let refused = server.client.follow_run("run_1").unwrap().next().await.unwrap_err();
    assert_eq!(refused.status(), Some(404));
    assert!(server.client.follow_run("..").is_err());
}
