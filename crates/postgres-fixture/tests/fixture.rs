//! The fixture itself: servers that start, stop, and never outlive their test.

use std::time::{Duration, Instant};

use hapax_postgres_fixture::{Database, Server, ServerOptions, Shutdown};
use tokio_postgres::NoTls;

async fn ask(url: &str, question: &str) -> Result<String, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client.query_one(question, &[]).await?.get(0))
}

#[tokio::test]
async fn a_server_answers_over_socket_and_tcp_and_flushes_its_disk() {
    let server = ServerOptions::default().setting("work_mem", "5MB").start().unwrap();
    assert_eq!(ask(&server.url("postgres"), "SHOW work_mem").await.unwrap(), "5MB");
    assert_eq!(ask(&server.tcp_url("postgres"), "SHOW fsync").await.unwrap(), "on");
    let wrong = server.tcp_url("postgres").replace("postgres:", "postgres:x");
    assert!(ask(&wrong, "SHOW fsync").await.is_err(), "the password is asked for");
}

#[tokio::test]
async fn a_server_comes_back_with_its_data_however_it_went() {
    let server = Server::start().unwrap();
    let url = server.url("postgres");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE kept (word text); INSERT INTO kept VALUES ('here')").await.unwrap();
    server.restart(Shutdown::Fast).unwrap();
    assert_eq!(ask(&url, "SELECT word FROM kept").await.unwrap(), "here");
    server.restart(Shutdown::Immediate).unwrap();
    assert_eq!(ask(&url, "SELECT word FROM kept").await.unwrap(), "here");
    server.kill();
    assert!(ask(&url, "SELECT word FROM kept").await.is_err());
    server.start_again().unwrap();
    assert_eq!(ask(&url, "SELECT word FROM kept").await.unwrap(), "here");
}

#[test]
fn a_server_goes_with_its_test_and_leaves_nothing() {
    let server = Server::start().unwrap();
    let data = server.data_folder();
    assert!(data.join("postmaster.pid").exists());
    drop(server);
    let began = Instant::now();
    while data.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "{} is still there", data.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The only test here that uses templates: another one could take its spare copies.
#[tokio::test]
async fn copies_of_a_template_are_equal_and_apart_and_used_again_if_only_rows_changed() {
    let prepare = async |url: String| {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let words = "CREATE TABLE words (place bigint GENERATED ALWAYS AS IDENTITY, word text); INSERT INTO words (word) VALUES ('a');
            CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.others (word text)";
        client.batch_execute(words).await.unwrap();
    };
    let copy = async || Database::from_template(prepare).await.unwrap();
    let which = "SELECT oid::text FROM pg_database WHERE datname = current_database()";
    let content = "SELECT (SELECT string_agg(place || word, ' ') FROM words) || (SELECT count(*) FROM elsewhere.others)";
    let (one, other) = (copy().await, copy().await);
    let client = one.connect().await.unwrap();
    client
        .batch_execute("INSERT INTO words (word) VALUES ('b'); INSERT INTO elsewhere.others VALUES ('c')")
        .await
        .unwrap();
    assert_eq!(ask(&one.url(), content).await.unwrap(), "1a 2b1");
    assert_eq!(ask(&other.tcp_url(), content).await.unwrap(), "1a0");

    let (url, used) = (one.url(), ask(&one.url(), which).await.unwrap());
    drop((client, one));
    assert!(ask(&url, content).await.is_err(), "it goes with its test");
    let again = copy().await;
    assert_eq!(ask(&again.url(), which).await.unwrap(), used, "making another one takes longer");
    let next = "INSERT INTO words (word) VALUES ('d') RETURNING place || word";
    assert_eq!(ask(&again.url(), content).await.unwrap(), "1a0");
    assert_eq!(ask(&again.url(), next).await.unwrap(), "2d", "numbers begin where the template's do");

    let changed = [
        "ALTER TABLE words ADD COLUMN more text",
        "CREATE INDEX ON words (word)",
        "CREATE TABLE mine (word text)",
    ];
    let mut copy_to_change = again;
    for change in changed {
        let used = ask(&copy_to_change.url(), which).await.unwrap();
        copy_to_change.connect().await.unwrap().batch_execute(change).await.unwrap();
        drop(copy_to_change);
        copy_to_change = copy().await;
        assert_ne!(ask(&copy_to_change.url(), which).await.unwrap(), used, "{change}");
    }
    let empty = Database::empty().await.unwrap();
    assert!(ask(&empty.url(), content).await.is_err());
}

#[tokio::test]
async fn a_standby_has_what_was_acknowledged_and_takes_over() {
    let primary = Server::start().unwrap();
    let standby = primary.standby().unwrap();
    let (client, connection) = tokio_postgres::connect(&primary.url("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE kept (word text)").await.unwrap();
    let refused = ask(&standby.tcp_url("postgres"), "INSERT INTO kept VALUES ('x') RETURNING word").await;
    assert!(refused.is_err(), "a standby takes no writes");
    client.batch_execute("INSERT INTO kept VALUES ('here')").await.unwrap();
    primary.kill();
    standby.promote().unwrap();
    let word = "INSERT INTO kept SELECT word || ', too' FROM kept RETURNING word";
    assert_eq!(ask(&standby.tcp_url("postgres"), word).await.unwrap(), "here, too");
}

#[tokio::test]
async fn a_frozen_server_says_nothing_until_it_is_thawed() {
    let server = Server::start().unwrap();
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    server.freeze();
    let asked = client.query_one("SELECT 'here'", &[]);
    tokio::pin!(asked);
    assert!(tokio::time::timeout(Duration::from_millis(300), asked.as_mut()).await.is_err());
    server.thaw();
    assert_eq!(asked.await.unwrap().get::<_, String>(0), "here");
}
