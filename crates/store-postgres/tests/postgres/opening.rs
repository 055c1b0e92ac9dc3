//! Every failure of opening has its own error, and none of them shows the password.

use hapax_postgres_fixture::Database;
use hapax_store_postgres::{OpenError, PostgresOptions, PostgresStore};

use crate::fixture::database;

async fn refused(url: &str, options: PostgresOptions) -> OpenError {
    let error = PostgresStore::open(url, options).await.expect_err("it is refused");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("canary"), "the password is shown: {shown}");
    error
}

/// The same database with another password, database or query.
fn changed(url: &str, password: &str, database: Option<&str>, query: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    let (user, rest) = rest.split_once(':').unwrap();
    let (_, place) = rest.split_once('@').unwrap();
    let (host, own) = place.split_once('/').unwrap();
    format!("postgres://{user}:{password}@{host}/{}{query}", database.unwrap_or(own))
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_refused_without_being_shown() {
    for url in ["postgres://ann:canary@host:no/db", "postgres://", "postgres://h/db?canary=1", "canary"] {
        assert!(matches!(refused(url, PostgresOptions::default()).await, OpenError::BadUrl), "{url}");
    }
    let bad = PostgresOptions::default().schema("Robert'); DROP");
    assert!(matches!(refused("postgres://h/db", bad).await, OpenError::BadSchema(_)));
}

#[tokio::test]
async fn no_server_is_told_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let url = format!("postgres://ann:canary@127.0.0.1:{port}/orders");
    let error = refused(&url, PostgresOptions::default()).await;
    let OpenError::NoServer { place, .. } = &error else { panic!("{error}") };
    assert_eq!(*place, format!("127.0.0.1:{port}/orders"));
}

/// Fault 10: a server that accepts and stays silent.
#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://ann:canary@127.0.0.1:{port}/orders?connect_timeout=1");
    let error = refused(&url, PostgresOptions::default()).await;
    assert!(matches!(error, OpenError::NoServer { .. }), "{error}");
    // By the timeout in the address, not by the default.
    assert!(error.to_string().contains("did not answer within 1s"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_not_let_in() {
    let database = database().await;
    let url = changed(&database.tcp_url(), "canary", None, "");
    let error = refused(&url, PostgresOptions::default()).await;
    assert!(matches!(error, OpenError::NotLetIn { .. }), "{error}");
}

#[tokio::test]
async fn an_unknown_database_is_told() {
    let database = database().await;
    let url = database.url().replace(database.name(), "nowhere");
    let error = refused(&url, PostgresOptions::default()).await;
    assert!(matches!(error, OpenError::NoDatabase { .. }), "{error}");
}

/// Fault 18.
#[tokio::test]
async fn a_read_only_server_is_refused() {
    let database = database().await;
    let admin = database.connect().await.unwrap();
    let read_only = format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name());
    admin.batch_execute(&read_only).await.unwrap();
    let error = refused(&database.url(), PostgresOptions::default()).await;
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_is_to_be_spoken_to_in_secret_is_refused() {
    let database = database().await;
    let url = format!("{}?sslmode=require", database.tcp_url());
    let error = refused(&url, PostgresOptions::default()).await;
    assert!(matches!(error, OpenError::NoTls { .. } | OpenError::WithoutTls { .. }), "{error}");
}

/// Invariant 62.
#[tokio::test]
async fn tables_of_a_newer_program_are_refused() {
    let database = database().await;
    let admin = database.connect().await.unwrap();
    let newer = "INSERT INTO hapax.schema_versions (version, oldest_program) VALUES (99, 98)";
    admin.batch_execute(newer).await.unwrap();
    let error = refused(&database.url(), PostgresOptions::default()).await;
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn tables_that_are_not_there_are_made_only_if_wanted() {
    let database = Database::empty().await.unwrap();
    let error = refused(&database.url(), PostgresOptions::default().migrate(false)).await;
    assert!(matches!(error, OpenError::Older { found: 0, .. }), "{error}");
    PostgresStore::open(&database.url(), PostgresOptions::default()).await.unwrap();
    PostgresStore::open(&database.url(), PostgresOptions::default().migrate(false)).await.unwrap();
}

#[tokio::test]
async fn a_role_that_may_not_write_is_told_what_to_grant() {
    let database = Database::empty().await.unwrap();
    let admin = database.connect().await.unwrap();
    let role = format!("guest_of_{}", database.name());
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.unwrap();
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let error = refused(&url, PostgresOptions::default()).await;
    assert!(matches!(error, OpenError::NotAllowed { .. }), "{error}");
}

#[tokio::test]
async fn the_store_is_shown_without_its_password() {
    let database = database().await;
    let store = PostgresStore::open(&database.tcp_url(), PostgresOptions::default()).await.unwrap();
    let password = database.tcp_url().split([':', '@']).nth(2).unwrap().to_owned();
    assert!(password.len() > 20, "this is the password: {password}");
    assert!(!format!("{store:?} {}", store.place()).contains(&password));
}
