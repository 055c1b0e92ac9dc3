//! Behind PgBouncer: in session mode it works like the server itself; in other modes it is rejected
//! before anything is changed.

use std::time::Duration;

use hapax_engine::fsck::fsck;
use hapax_engine::model::WorkspaceId;
use hapax_engine::store::{SignalOutcome, Store};
use hapax_postgres_fixture::{FixtureError, PgBouncer, Server};
use hapax_store_conformance::fixture::{ANN, signal_to};
use hapax_store_postgres::tokio_postgres::{self, Client, NoTls};
use hapax_store_postgres::{OpenError, PostgresOptions, PostgresStore, find_schema, migrate};

use crate::fixture::stage;

/// A PgBouncer in front of `server`; prints a warning where it is not installed.
fn bouncer(server: &Server, lines: &str) -> Option<PgBouncer> {
    match PgBouncer::start(server, lines) {
        Ok(bouncer) => Some(bouncer),
        Err(error @ FixtureError::NoBouncer) => {
            eprintln!("SKIPPED, nothing was tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn count(server: &Server, question: &str) -> i64 {
    connect(&server.url("postgres")).await.query_one(question, &[]).await.unwrap().get(0)
}

const ANY_TABLES: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'hapax'";

/// The default configuration, and the usual one for programs that send settings.
const STARTS: [&str; 2] = ["", "ignore_startup_parameters = options,extra_float_digits"];

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_does_not_keep_sessions_is_refused_before_anything_is_changed() {
    let server = Server::start().unwrap();
    for mode in ["transaction", "statement"] {
        for start in STARTS {
            let Some(bouncer) = bouncer(&server, &format!("pool_mode = {mode}\n{start}")) else { return };
            let (url, options) = (bouncer.url("postgres"), PostgresOptions::default());
            for refused in [find_schema(&url, &options).await.err(), migrate(&url, &options).await.err()] {
                assert!(
                    matches!(refused, Some(OpenError::SessionsNotKept { .. })),
                    "{mode} {start}: {refused:?}"
                );
            }
            let error = PostgresStore::open(&url, options).await.expect_err("it is refused");
            let is_it = matches!(error, OpenError::SessionsNotKept { .. });
            assert!(is_it && !error.is_transient(), "{mode} {start}: {error}");
            let told = error.to_string();
            assert!(told.contains("pool_mode = session") && told.contains("PostgreSQL itself"), "{told}");
            // The checks left no setting behind for other clients.
            let next = connect(&bouncer.url("postgres")).await;
            let left = "SELECT current_setting('hapax.schema', true), current_setting('enable_seqscan')";
            let answers = next.simple_query(left).await.unwrap();
            let row = answers.iter().find_map(|answer| match answer {
                tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            });
            assert_eq!(row.map(|row| (row.get(0), row.get(1))), Some((None, Some("on"))));
        }
    }
    assert_eq!(count(&server, ANY_TABLES).await, 0);
}

/// Other clients use the pooler as well, so two queries may use different connections.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_is_busy_with_others_is_found_out_as_well() {
    let server = Server::start().unwrap();
    for order in ["server_round_robin = 0", "server_round_robin = 1"] {
        let Some(bouncer) = bouncer(&server, &format!("pool_mode = transaction\n{order}")) else { return };
        let mut others = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let url = bouncer.url("postgres");
            others.spawn(async move {
                let client = connect(&url).await;
                loop {
                    client.simple_query("SELECT pg_sleep(0.001)").await.unwrap();
                }
            });
        }
        for _ in 0..10 {
            let error = PostgresStore::open(&bouncer.url("postgres"), PostgresOptions::default()).await;
            let error = error.expect_err("it is refused");
            assert!(matches!(error, OpenError::SessionsNotKept { .. }), "{order}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_keeps_sessions_is_as_good_as_the_server() {
    let server = Server::start().unwrap();
    for start in STARTS {
        let lines = format!("pool_mode = session\ndefault_pool_size = 60\n{start}");
        let Some(bouncer) = bouncer(&server, &lines) else { return };
        let t = stage(&bouncer.url("postgres"), PostgresOptions::default()).await;
        let run = t.driven().await;
        t.write(&run).await.does("charge").advance();
        let sent = t.store.send_signal(signal_to(&run, "go", None)).await.unwrap();
        assert!(matches!(sent, SignalOutcome::Stored { .. }), "{sent:?}");
        assert!(t.renew(ANN, &[&run]).await.is_empty());
        t.view(&run).await;
        assert!(t.store.find_run(&WorkspaceId::default(), run.id()).await.unwrap().is_some());
        // Two nodes hear each other through it.
        let other = PostgresStore::open(&bouncer.url("postgres"), PostgresOptions::default()).await.unwrap();
        let mut hints = other.hints().unwrap();
        tokio::time::timeout(Duration::from_secs(10), hints.changed()).await.unwrap().unwrap();
        assert!(fsck(&*t.store).await.unwrap().is_clean());
        other.close().await.unwrap();
        t.store.close().await.unwrap();
        assert_eq!(count(&server, ANY_TABLES).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_with_too_few_connections_is_told_so() {
    let server = Server::start().unwrap();
    let Some(bouncer) = bouncer(&server, "pool_mode = session\ndefault_pool_size = 1") else { return };
    let url = format!("{}?connect_timeout=1", bouncer.url("postgres"));
    let error = PostgresStore::open(&url, PostgresOptions::default()).await.expect_err("it is refused");
    assert!(matches!(error, OpenError::FewConnections { .. }), "{error}");
    assert!(error.to_string().contains("default_pool_size"), "{error}");
}
