//! Push workers: functions that the test plays, request by request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hapax_engine::clock::ManualClock;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::support::{PATIENCE, TestServer};

const PUSH_WORKERS: &str = "/api/v1/push-workers";

/// A request to the function, which waits for its answer.
struct Pushed {
    id: String,
    timestamp: i64,
    signature: String,
    text: String,
    reply: oneshot::Sender<(u16, String)>,
}

impl Pushed {
    fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn message(&self) -> Value {
        self.body()["messages"][0].clone()
    }

    fn answer(self, status: u16, body: &Value) {
        self.reply.send((status, body.to_string())).unwrap();
    }
}

/// A function.
struct Function {
    url: String,
    requests: mpsc::UnboundedReceiver<Pushed>,
}

impl Function {
    async fn start() -> Self {
        let (tell, requests) = mpsc::unbounded_channel();
        let app = Router::new().fallback(take).with_state(tell);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/function", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Function { url, requests }
    }

    async fn asked(&mut self) -> Pushed {
        timeout(PATIENCE, self.requests.recv()).await.expect("the server sends a request").unwrap()
    }

    /// The next request, while the time moves on.
    async fn asked_later(&mut self, clock: &ManualClock) -> Pushed {
        let moving = async {
            loop {
                clock.advance(Duration::from_millis(500));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            asked = self.asked() => asked,
            () = moving => unreachable!("it never ends"),
        }
    }

    /// The activation of the next run, answered with a step.
    async fn begin(&mut self, step: Value) -> Value {
        let first = self.asked().await;
        let activate = first.message();
        assert_eq!((&activate["type"], &first.body()["turns"]), (&json!("activate"), &json!([])));
        first.answer(200, &json!({ "items": [step] }));
        activate
    }
}

async fn take(State(tell): State<mpsc::UnboundedSender<Pushed>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let text = |name: &str| head.headers[name].to_str().unwrap().to_owned();
    let (id, timestamp, signature) =
        (text("webhook-id"), text("webhook-timestamp"), text("webhook-signature"));
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let (reply, replied) = oneshot::channel();
    let pushed = Pushed {
        id,
        timestamp: timestamp.parse().unwrap(),
        signature,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
        reply,
    };
    let _ = tell.send(pushed);
    match replied.await {
        Ok((status, body)) => (http::StatusCode::from_u16(status).unwrap(), body).into_response(),
        Err(_) => std::future::pending().await,
    }
}

/// Registers the function for `order` and the task `mail`; answers its secret.
async fn register(server: &TestServer, function: &Function) -> String {
    let asked = json!({
        "name": "function", "url": function.url, "workflows": [{ "name": "order" }], "tasks": ["mail"], "timeout": "1s",
    });
    let made = server.post(PUSH_WORKERS, &asked, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["secret"].as_str().unwrap().to_owned()
}

async fn start(server: &TestServer) -> String {
    let started =
        server.post("/api/v1/workflow-runs", &json!({ "workflow": "order", "input": { "n": 1 } }), &[]).await;
    started.json()["run"]["id"].as_str().unwrap_or_else(|| panic!("{}", started.text())).to_owned()
}

async fn timed() -> (TestServer, Arc<ManualClock>) {
    TestServer::timed().await
}

#[tokio::test]
async fn a_function_gets_signed_messages_with_all_that_was_said_before() {
    let server = TestServer::memory().await;
    let mut function = Function::start().await;
    let secret = register(&server, &function).await;
    let run = start(&server).await;
    let step = json!({ "op": 1, "do": "step", "name": "charge" });
    let activate = function.begin(step.clone()).await;
    assert_eq!((&activate["run"], &activate["input"]), (&json!(run), &json!({ "n": 1 })));

    let second = function.asked().await;
    let webhook = Webhook::new(&secret).unwrap();
    let signed = webhook.sign(&second.id, second.timestamp, second.text.as_bytes()).unwrap();
    assert_eq!(second.signature, signed);
    let body = second.body();
    assert_eq!(body["turns"], json!([{ "messages": [activate], "items": [step] }]));
    let attempt = &body["messages"][0];
    assert_eq!((&attempt["type"], &attempt["key"]), (&json!("attempt"), &json!(format!("{run}:charge"))));
    assert!(
        body["holdFor"].as_str().is_some() && body["notAfter"].as_str().is_some_and(|at| at.ends_with('Z'))
    );
    let outcome = json!({ "outcome": 1, "attempt": 1, "output": "ch_1" });
    second.answer(
        200,
        &json!({ "items": [outcome, { "took": 1 }, { "op": 2, "do": "signal", "name": "go" }] }),
    );

    let sent = server
        .post(&format!("/api/v1/workflow-runs/{run}/signals"), &json!({ "name": "go", "value": 7 }), &[])
        .await;
    assert_eq!(sent.status, 200);
    let third = function.asked().await;
    assert_eq!(third.body()["turns"].as_array().unwrap().len(), 2);
    assert_eq!((&third.message()["type"], &third.message()["output"]), (&json!("resolved"), &json!(7)));
    third.answer(200, &json!({ "items": [{ "took": 2 }, { "return": { "paid": 7 } }] }));
    let ended = server.until(&run, "COMPLETED").await;
    assert_eq!(ended["run"]["output"], json!({ "paid": 7 }));
}

#[tokio::test]
async fn a_task_of_a_document_is_pushed() {
    let server = TestServer::memory().await;
    let mut function = Function::start().await;
    register(&server, &function).await;
    let step = json!({ "name": "send", "type": "task", "task": "mail", "input": { "to": "ada" } });
    server.upload(&json!({ "name": "mails", "version": 1, "steps": [step] })).await;
    let started =
        server.post("/api/v1/workflow-runs", &json!({ "workflow": "mails", "input": {} }), &[]).await;
    let run = started.json()["run"]["id"].as_str().unwrap().to_owned();
    let pushed = function.asked().await;
    let call = pushed.message();
    assert_eq!(
        (&call["type"], &call["name"], &call["input"]["to"]),
        (&json!("task"), &json!("mail"), &json!("ada"))
    );
    pushed.answer(200, &json!({ "results": [{ "call": call["call"], "output": { "sent": true } }] }));
    server.until(&run, "COMPLETED").await;
}

/// Nothing was begun, so it is no attempt more, and the function may recognise the request.
#[tokio::test]
async fn what_was_refused_before_any_code_ran_is_sent_again_under_the_same_id() {
    let (server, clock) = timed().await;
    let mut function = Function::start().await;
    register(&server, &function).await;
    start(&server).await;
    function.begin(json!({ "op": 1, "do": "step", "name": "wire", "claimed": true })).await;
    let refused = function.asked().await;
    let (id, message) = (refused.id.clone(), refused.message());
    refused.answer(429, &json!({}));
    let again = function.asked_later(&clock).await;
    assert_eq!((&again.id, again.message()), (&id, message));
    again.answer(200, &json!({ "items": [{ "outcome": 1, "attempt": 1, "output": "W1" }] }));
    let resolved = function.asked_later(&clock).await;
    assert_eq!(
        (&resolved.message()["type"], &resolved.message()["output"]),
        (&json!("resolved"), &json!("W1"))
    );
}

/// The function may begin the effect until its hold ends. A ruling or a probe before that would come too early.
#[tokio::test]
async fn a_claimed_effect_of_a_silent_function_comes_into_doubt_when_its_hold_is_over() {
    let (server, clock) = timed().await;
    let mut function = Function::start().await;
    register(&server, &function).await;
    let run = start(&server).await;
    function.begin(json!({ "op": 1, "do": "step", "name": "wire", "claimed": true })).await;
    let silent = function.asked().await;
    // Its time limit, which is no time of the engine.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(server.get("/api/v1/doubts").await.json()["items"], json!([]), "it may still begin it");
    for _ in 0..40 {
        clock.advance(Duration::from_millis(500));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let doubts = server.until_shown("/api/v1/doubts", |shown| shown["items"][0].is_object()).await;
    assert_eq!(doubts["items"][0]["effectKey"], format!("{run}:wire"));
    drop(silent);
}

#[tokio::test]
async fn an_idempotent_effect_with_an_unknown_outcome_is_tried_again_under_its_key() {
    let (server, clock) = timed().await;
    let mut function = Function::start().await;
    register(&server, &function).await;
    start(&server).await;
    function.begin(json!({ "op": 1, "do": "step", "name": "charge", "retry": { "first": "1ms" } })).await;
    let first = function.asked().await;
    let key = first.message()["key"].clone();
    first.answer(200, &json!("no items"));
    let second = function.asked_later(&clock).await;
    assert_eq!((&second.message()["key"], &second.message()["attempt"]), (&key, &json!(2)));
    let turns = second.body()["turns"].as_array().unwrap().clone();
    assert_eq!(turns[1]["items"][0]["failure"]["class"], "unknown", "{turns:?}");
    // An answer without the outcome of its attempt is no proof either.
    second.answer(200, &json!({ "items": [] }));
    let third = function.asked_later(&clock).await;
    assert_eq!((&third.message()["key"], &third.message()["attempt"]), (&key, &json!(3)));
}

/// The code is deterministic, so what has no effect is simply played again.
#[tokio::test]
async fn an_activation_that_failed_is_sent_again() {
    let (server, clock) = timed().await;
    let mut function = Function::start().await;
    register(&server, &function).await;
    let run = start(&server).await;
    for _ in 0..3 {
        let failed = function.asked_later(&clock).await;
        assert_eq!(failed.message()["type"], "activate");
        failed.answer(500, &json!({}));
    }
    let activate = function.asked_later(&clock).await;
    activate.answer(200, &json!({ "items": [{ "return": 1 }] }));
    server.until(&run, "COMPLETED").await;
}

#[tokio::test]
async fn a_deleted_push_worker_gets_no_more_work_and_its_name_is_free() {
    let server = TestServer::memory().await;
    let mut function = Function::start().await;
    register(&server, &function).await;
    let listed = server.get(PUSH_WORKERS).await.json();
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    assert!(!listed.to_string().contains("whsec_"), "the secret is shown once");
    let taken = json!({ "name": "function", "url": function.url, "tasks": ["other"] });
    assert_eq!(server.post(PUSH_WORKERS, &taken, &[]).await.told(), (409, "name_taken".into()));
    let path = format!("{PUSH_WORKERS}/{id}");
    assert_eq!(server.delete(&path, &[]).await.status, 200);
    assert_eq!(server.delete(&path, &[]).await.told(), (404, "not_found".into()));
    let is_gone = |shown: &Value| shown["items"] == json!([]);
    server.until_shown("/api/v1/worker-sessions", is_gone).await;
    let run = start(&server).await;
    // A new one takes the run.
    register(&server, &function).await;
    let activate = function.asked().await;
    assert_eq!(activate.message()["run"], json!(run));
    activate.answer(200, &json!({ "items": [{ "return": null }] }));
    server.until(&run, "COMPLETED").await;
}

#[tokio::test]
async fn a_push_worker_that_makes_no_sense_is_refused_and_nothing_is_kept() {
    let server = TestServer::memory().await;
    let good = json!({ "name": "f", "url": "https://functions.example/", "tasks": ["t"] });
    for (change, path, code) in [
        (json!({ "tasks": [] }), "/workflows", "invalid_request"),
        (json!({ "name": "" }), "/name", "invalid_request"),
        (json!({ "tasks": ["no name"] }), "/tasks/0", "invalid_request"),
        (json!({ "timeout": "0s" }), "/timeout", "invalid_request"),
        (json!({ "timeout": "1h" }), "/timeout", "invalid_request"),
        (json!({ "concurrency": 0 }), "/concurrency", "invalid_request"),
        (json!({ "concurrency": 257 }), "/concurrency", "invalid_request"),
        (json!({ "url": "ftp://functions.example/" }), "/url", "invalid_request"),
        (json!({ "url": "http://10.0.0.1/" }), "/url", "address_not_allowed"),
    ] {
        let mut asked = good.clone();
        asked.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = server.post(PUSH_WORKERS, &asked, &[]).await;
        assert_eq!((refused.code().as_str(), &refused.json()["path"]), (code, &json!(path)), "{asked}");
    }
    assert_eq!(server.get(PUSH_WORKERS).await.json()["items"], json!([]));
    let other = server.key("other", super::support::Role::Admin).await;
    let made = server.post(PUSH_WORKERS, &good, &[]).await.json();
    let path = format!("{PUSH_WORKERS}/{}", made["pushWorker"]["id"].as_str().unwrap());
    let stranger = server.send("DELETE", &path, None, &other, &[]).await;
    assert_eq!(stranger.told(), (404, "not_found".into()));
}
