//! A node that is killed in the middle of a request under a key, and another that takes the request over.

use crate::support;

use std::path::Path;
use std::time::Duration;

use hapax_api::client::{Client, RequestOptions};
use hapax_api::{Code, CreateRun, CreateRunBatch, CreatedRun, JsonObject, Priority};
use hapax_postgres_fixture::Database;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::dev::hapax;
use support::serve::Serve;

/// Longest time that anything in this test may take.
const PATIENCE: Duration = Duration::from_secs(120);
const LEASE_MS: i64 = 2_000;

fn serve(store: &str, key_file: &Path) -> Serve {
    let mut command = hapax();
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--lease", "2s"]);
    Serve::start(command.args(["--store", store, "--key-file"]).arg(key_file))
}

/// The JSON that a command prints.
fn call(url: &str, key: &str, arguments: &[&str]) -> Value {
    let mut command = hapax();
    let output = command.env("HAPAX_SERVER", url).env("HAPAX_API_KEY", key).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A batch of one run. A batch holds its key while it starts its runs; a single run is one write with its key.
fn order(definition: &str) -> CreateRunBatch {
    let run = CreateRun {
        workflow: None,
        definition_id: Some(definition.to_owned()),
        input: JsonObject::default(),
        idempotency_key: None,
        subject: None,
        delay: None,
        timeout: None,
        priority: Priority::Normal,
    };
    CreateRunBatch { runs: vec![run] }
}

fn options() -> RequestOptions {
    RequestOptions { idempotency_key: Some("order-7".into()), ..RequestOptions::default() }
}

/// Asks again as long as the answer says that the first request is still under way.
async fn until_answered(client: &Client, asked: &CreateRunBatch) -> CreatedRun {
    let began = std::time::Instant::now();
    loop {
        match client.create_runs(asked, options()).await {
            Ok(mut created) => return created.items.remove(0).created_run.expect("the run is created"),
            Err(refused) => {
                let code = refused.problem().map(|problem| problem.code);
                assert_eq!(code, Some(Code::RequestInProgress), "{refused}");
                assert!(began.elapsed() < PATIENCE, "it is never taken over");
            }
        }
    }
}

/// A dead node's keyed requests were answered with 409 for a minute, whatever its lease. Now the hold on a request is the lease, another node takes
/// the request over when it ends, and there is one run.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_killed_node_is_taken_over_when_its_lease_ends() {
    let (database, folder) = (Database::empty().await.unwrap(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("first.key");
    let first = serve(&database.tcp_url(), &key_file);
    let url = format!("http://{}", first.address());
    first.until_said("may set it up is in");
    let root = std::fs::read_to_string(&key_file).unwrap().trim().to_owned();
    call(&url, &root, &["admin", "workspaces", "create", "acme", "--json"]);
    let admin = ["admin", "credentials", "create", "ada", "--role", "admin", "--workspace", "acme", "--json"];
    let admin = call(&url, &root, &admin)["apiKey"].as_str().unwrap().to_owned();
    let document =
        json!({ "name": "noop", "version": 1, "steps": [{ "name": "rest", "type": "wait", "for": "1h" }] });
    let file = folder.path().join("noop.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let definition = call(&url, &admin, &["apply", file.to_str().unwrap(), "--json"]);
    let asked = order(definition["id"].as_str().unwrap());
    let second = serve(&database.tcp_url(), &folder.path().join("none.key"));
    let second_url = format!("http://{}", second.address());

    // The first node comes as far as the run itself, and waits there: the request has begun, and is not answered.
    let gate = database.connect().await.unwrap();
    gate.batch_execute("BEGIN; LOCK TABLE hapax.runs IN SHARE ROW EXCLUSIVE MODE").await.unwrap();
    let look = database.connect().await.unwrap();
    let (early, early_asked) = (Client::new(&url, &admin.clone().into()).unwrap(), asked.clone());
    let cut_off = tokio::spawn(async move { early.create_runs(&early_asked, options()).await });
    let waiting = "SELECT count(*) FROM pg_stat_activity AS a JOIN hapax.requests AS r ON r.key = 'order-7' AND r.status = 0
        WHERE a.wait_event_type = 'Lock' AND a.query LIKE '%hot path of starts%'";
    let began = std::time::Instant::now();
    while look.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(began.elapsed() < PATIENCE, "the first node never came as far as the run");
        tokio::task::yield_now().await;
    }
    first.signal(Signal::KILL);
    first.end();
    assert!(cut_off.await.unwrap().is_err(), "nobody answers");
    let held = "SELECT until - floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 FROM hapax.requests WHERE key = 'order-7'";
    let left: i64 = look.query_one(held, &[]).await.unwrap().get(0);
    assert!(left <= LEASE_MS, "it is held for {left} ms more");
    gate.batch_execute("COMMIT").await.unwrap();

    let client = Client::new(&second_url, &admin.clone().into()).unwrap();
    let created = until_answered(&client, &asked).await;
    let again = until_answered(&client, &asked).await;
    assert_eq!(again.run.id, created.run.id, "the answer is kept");
    // One line for each run: two would not be one value.
    let run = call(&second_url, &admin, &["runs", "list", "--json"]);
    assert_eq!(run["id"], json!(created.run.id));
}
