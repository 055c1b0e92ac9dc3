//! Five hundred who close one invoice at once.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::json;

use super::invoice_fixture::{CLOSE, INVOICE, with_invoice};
use super::support::{TestServer, client};

const CALLS: usize = 500;
const CLIENTS: usize = 5;

/// S1.20, G1.5, S1.3, S1.6, S1.25, S1.26, S1.27, S1.56, S1.60: one action runs; the other callers
/// get the id of its operation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_five_hundred_concurrent_closes_one_enters_the_action() {
    let (server, gate) = with_invoice(TestServer::sqlite().await).await;
    let clients: Vec<_> = (0..CLIENTS).map(|_| client().http2_prior_knowledge().build().unwrap()).collect();
    let calls = (0..CALLS).map(|place| {
        let (server, client) = (&server, &clients[place % CLIENTS]);
        let key = format!("call-{place}");
        async move {
            let headers = [("idempotency-key", key.as_str()), ("prefer", "wait=0")];
            server.send_by(client, "POST", CLOSE, Some("{}".into()), &server.admin, &headers).await
        }
    });
    let answers = join_all(calls).await;
    let winners: Vec<_> = answers.iter().filter(|answer| answer.status == 202).collect();
    assert_eq!(winners.len(), 1, "{}", answers[0].text());
    let winner = winners[0].json()["operation"]["id"].clone();
    let lost: Vec<_> = answers.iter().filter(|answer| answer.status != 202).collect();
    assert_eq!(lost.len(), CALLS - 1);
    let told: BTreeSet<_> = lost.iter().map(|answer| answer.told()).collect();
    assert_eq!(told, BTreeSet::from([(409, "claim_failed".to_owned())]));
    assert!(lost.iter().all(|answer| answer.json()["operation"]["id"] == winner));
    gate.arrived().await;
    gate.let_through(CALLS);
    let closed = server.until_shown(INVOICE, |shown| shown["entity"]["status"] == "closed").await;
    assert_eq!(closed["pendingOperation"], json!(null));
    assert_eq!(gate.entered(), 1);
    let operations = server.get(&format!("{INVOICE}/operations")).await.json();
    assert_eq!(operations["items"].as_array().unwrap().len(), 1);
    let watcher = server.key(hapax_server::identity::INSTALLATION, super::support::Role::Viewer).await;
    let metrics = server.send("GET", "/metrics", None, &watcher, &[]).await.text();
    let figure = format!("hapax_claims_lost_total {}", CALLS - 1);
    assert!(metrics.contains(&figure) && metrics.contains("hapax_operations_total 1\n"), "{metrics}");
}
