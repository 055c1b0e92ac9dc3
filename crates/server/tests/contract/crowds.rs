//! A thousand identical requests at once.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::support::{Answer, TestServer, client};
use super::{RUNS, charge, count_runs, is_replay, run_of};

const CLIENTS: usize = 10;
const REQUESTS_EACH: usize = 100;

/// All at once, as streams of a few HTTP/2 connections.
async fn send_at_once(server: &TestServer, body: &Value, headers: &[(&str, &str)]) -> Vec<Answer> {
    let clients: Vec<_> = (0..CLIENTS).map(|_| client().http2_prior_knowledge().build().unwrap()).collect();
    let body = body.to_string();
    let requests = (0..CLIENTS * REQUESTS_EACH).map(|place| {
        let (client, body) = (&clients[place % CLIENTS], body.clone());
        server.send_by(client, "POST", RUNS, Some(body), &server.admin, headers)
    });
    join_all(requests).await
}

/// S0.3, S0.38, S0.2, S0.5, S0.13; RELIABILITY 7, 9: one run, a thousand answers with its id, one of them says that it made it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_creates_under_one_business_key_make_one_run() {
    let server = TestServer::sqlite().await;
    let mut body = charge(&server.echo().await, 1);
    body["idempotencyKey"] = json!("order-1");
    let answers = send_at_once(&server, &body, &[]).await;
    assert_eq!(answers.len(), 1_000);
    let ids: BTreeSet<String> = answers.iter().map(run_of).collect();
    assert_eq!(ids.len(), 1);
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    let told = answers.iter().filter(|answer| answer.json()["created"] == json!(true)).count();
    assert_eq!((made, told), (1, 1));
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 201)));
    assert_eq!(count_runs(&server).await, 1);
}

/// S2.13, S2.33: under one request key all get the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_creates_under_one_request_key_get_one_answer() {
    let server = TestServer::sqlite().await;
    let body = charge(&server.echo().await, 1);
    let answers = send_at_once(&server, &body, &[("idempotency-key", "one")]).await;
    let bodies: BTreeSet<&[u8]> = answers.iter().map(|answer| answer.bytes.as_slice()).collect();
    assert_eq!((answers.len(), bodies.len()), (1_000, 1), "{}", answers[0].text());
    assert!(answers.iter().all(|answer| answer.status == 201));
    assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1, "one of them did it");
    assert_eq!(count_runs(&server).await, 1);
}
