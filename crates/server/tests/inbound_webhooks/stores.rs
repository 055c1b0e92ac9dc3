//! The same on stores that outlive a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::shop::{STRIPE_SOURCE, events, order, order_workflow, payment, send, services, told, upload};
use super::signing::{SECRETS, STRIPE, stripe};
use super::support::TestServer;

async fn an_order_is_paid_once(server: &TestServer, packed: &Arc<AtomicUsize>) {
    order_workflow(&server.engine, packed);
    let path = upload(server, STRIPE_SOURCE).await;
    let paid = |event: &str, charge: &str| stripe(&payment(event, charge), STRIPE, server.store.now());
    assert_eq!(told(&send(server, &path, &paid("evt_2", "ch_2")).await), (200, "unmatched".into()));
    let reprocess = "/api/v1/webhook-events/stripe-payments/evt_2/reprocess";
    let waits = server.post(reprocess, &serde_json::json!({}), &[]).await;
    assert_eq!(waits.json()["status"], "unmatched", "it still waits for its promise: {}", waits.text());
    let (first, second) = (order(&server.engine, "ch_1").await, order(&server.engine, "ch_2").await);
    let answers = futures_util::future::join_all(
        (0..10).map(|_| async { send(server, &path, &paid("evt_1", "ch_1")).await }),
    )
    .await;
    let applied = answers.iter().filter(|answer| answer.json()["status"] == "applied").count();
    assert_eq!(applied, 1, "{answers:?}");
    assert_eq!(first.result::<u64>().await.unwrap(), 4200);
    assert_eq!(second.result::<u64>().await.unwrap(), 4200);
    assert_eq!(packed.load(Ordering::SeqCst), 2);
    let listed = events(server).await;
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(listed[0]["duplicates"], 9);
    let again = server.post(reprocess, &serde_json::json!({}), &[]).await;
    assert_eq!(again.json()["status"], "applied", "what was kept has settled its promise: {}", again.text());
}

#[tokio::test]
async fn on_sqlite_an_order_is_paid_once() {
    let packed = Arc::default();
    let server = TestServer::sqlite_with(services(&packed)).await;
    an_order_is_paid_once(&server, &packed).await;
}

#[tokio::test]
async fn on_postgres_an_order_is_paid_once() {
    let packed = Arc::default();
    let server = TestServer::postgres_with(services(&packed)).await;
    an_order_is_paid_once(&server, &packed).await;
}

/// A provider of a new source sends at once, to any node.
#[tokio::test]
async fn a_source_made_on_one_node_is_believed_on_another_at_once() {
    let packed = Arc::default();
    let first = TestServer::postgres_with(services(&packed)).await;
    let second = first.another_node_with(services(&packed)).await;
    let path = upload(&first, STRIPE_SOURCE).await;
    let paid = stripe(&payment("evt_1", "ch_1"), STRIPE, first.store.now());
    let answer = send(&second, &path, &paid).await;
    assert_eq!(told(&answer), (200, "unmatched".into()), "{}", answer.text());
}

/// A source with a new secret accepts it on every node at once: a cached source is compared with
/// the store before a webhook is rejected.
#[tokio::test]
async fn a_source_replaced_on_one_node_believes_its_new_secret_on_another_at_once() {
    let packed = Arc::default();
    let first = TestServer::postgres_with(services(&packed)).await;
    let second = first.another_node_with(services(&packed)).await;
    let path = upload(&first, STRIPE_SOURCE).await;
    let signed = |event: &str, secret: &str| stripe(&payment(event, event), secret, first.store.now());
    assert_eq!(told(&send(&second, &path, &signed("evt_1", STRIPE)).await), (200, "unmatched".into()));
    let yaml_type = [("content-type", "application/yaml")];
    let secrets = r#"["secret://stripe-webhook", "secret://stripe-webhook-old"]"#;
    let rotated = STRIPE_SOURCE.replace(secrets, r#"["secret://github-webhook"]"#);
    assert_ne!(rotated, STRIPE_SOURCE);
    let replaced = first
        .send("PUT", "/api/v1/webhook-sources/stripe-payments", Some(rotated), &first.admin, &yaml_type)
        .await;
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    let answer = send(&second, &path, &signed("evt_2", secret_of("github-webhook"))).await;
    assert_eq!(told(&answer), (200, "unmatched".into()), "{}", answer.text());
    let old = send(&second, &path, &signed("evt_3", STRIPE)).await;
    assert_eq!(old.status, 401, "{}", old.text());
}

fn secret_of(name: &str) -> &'static str {
    SECRETS.iter().find(|(known, _)| *known == name).expect("a secret of the shop").1
}
