//! Fault 11: half-open connections. Nothing is sent, nothing is closed, nothing comes through.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::WorkspaceId;
use hapax_engine::store::{StoreError, StoreResult};
use hapax_store_conformance::fixture::{ANN, signal_to};
use hapax_store_postgres::PostgresOptions;
use tokio::task::JoinSet;

use crate::fixture::{database, stage, until};
use crate::proxy::{Proxy, ProxyMode};

const PATIENCE: Duration = Duration::from_secs(30);
/// More than all connections of one store.
const FEW_CONNECTIONS: usize = 20;

/// The error of a call that must end by itself.
async fn told<T: std::fmt::Debug>(call: impl Future<Output = StoreResult<T>>) -> StoreError {
    let answer = tokio::time::timeout(PATIENCE, call).await.expect("every call ends");
    answer.expect_err("nothing can be answered through a dead wire")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wire_that_dies_without_a_word_is_given_up_and_replaced() {
    let database = database().await;
    let proxy = Proxy::start(&database.tcp_url()).await;
    let options = PostgresOptions::default().deadline(Duration::from_secs(1));
    let t = Arc::new(stage(proxy.url(), options).await);
    let run = t.driven().await;
    let again = t.write(&run).await.does("charge").advance();
    t.view(&run).await;

    proxy.set(ProxyMode::Swallow);
    let mut calls = JoinSet::new();
    for nth in 0..60 {
        let (t, run, again) = (t.clone(), run.clone(), again.clone());
        calls.spawn(async move {
            let here = WorkspaceId::default();
            match nth % 4 {
                0 => told(t.store.find_run(&here, run.id())).await,
                1 => told(t.store.start_run(t.order().new_run())).await,
                2 => told(t.store.send_signal(signal_to(&run, "go", Some("once")))).await,
                _ => told(t.store.commit_run(again)).await,
            }
        });
    }
    while let Some(error) = calls.join_next().await {
        let error = error.unwrap();
        let text = error.to_string();
        assert!(error.is_retryable(), "{text}");
        let is_clear = ["did not answer in time", "no connection to", "closed", "for its turn"];
        assert!(is_clear.iter().any(|words| text.contains(words)), "{text}");
    }
    let (_, at_most) = proxy.dead();
    assert!(
        (1..=FEW_CONNECTIONS).contains(&at_most),
        "{at_most} connections were held while nothing came through"
    );
    until("every dead connection is closed", PATIENCE, async || proxy.dead().0 == 0).await;

    proxy.set(ProxyMode::Pass);
    until("recovery", PATIENCE, async || t.store.start_run(t.order().new_run()).await.is_ok()).await;
    until("recovery", PATIENCE, async || t.store.commit_run(again.clone()).await.is_ok()).await;
    let here = WorkspaceId::default();
    until("recovery", PATIENCE, async || t.store.find_run(&here, run.id()).await.is_ok()).await;
    assert_eq!(t.view(&run).await.head.version, again.head.version);
    assert!(t.renew(ANN, &[&run]).await.is_empty());
    assert!(t.fsck().await.is_clean());
    t.store.close().await.unwrap();
}
