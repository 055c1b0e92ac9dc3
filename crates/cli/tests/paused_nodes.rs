//! A node that is stopped for longer than its lease, another that takes over, and a provider that counts what both sent.

use crate::support;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hapax_api::client::{Client, RequestOptions};
use hapax_api::{CreateRun, CreateRunBatch, JsonObject, Priority};
use hapax_postgres_fixture::Database;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::dev::hapax;
use support::provider::{Provider, Received, Reply};
use support::serve::Serve;

/// Runs under way when the node is stopped. So many wires begin at once that some are claimed and not yet sent.
const RUNS: usize = 100;
const RESERVE: &str = "/reserve";
const WIRE: &str = "/wire";
/// Wires that the provider has seen when the node is stopped.
const SEEN_BEFORE_THE_PAUSE: usize = 5;
/// Longest time that anything in this test may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A bank that ignores keys: every request for a wire is a wire. It answers no reservation before its doors open.
fn bank(request: &Received, before: &[Received]) -> Reply {
    match request.path.as_str() {
        RESERVE => Reply::OkWhenOpen,
        WIRE => Reply::Ok,
        lookup => {
            let asked = lookup.trim_start_matches("/lookup/").replace("%3A", ":");
            match before.iter().any(|wire| wire.path == WIRE && wire.key == asked) {
                true => Reply::Ok,
                false => Reply::NotFound,
            }
        }
    }
}

/// A reservation that may be repeated, then a wire that must not be, and that the bank can be asked about.
fn document(bank: SocketAddr) -> Value {
    json!({ "name": "wire", "version": 1, "steps": [
        { "name": "reserve", "type": "http", "method": "POST", "url": format!("http://{bank}{RESERVE}") },
        { "name": "wire", "type": "http", "method": "POST", "url": format!("http://{bank}{WIRE}"),
          "effect": "claimed", "nonIdempotent": true, "timeout": "1s",
          "probe": { "method": "GET", "url": format!("http://{bank}/lookup/{{{{ key }}}}"), "settle": "2s",
                     "happened": "response.status == 200", "didNotHappen": "response.status == 404" } },
    ] })
}

fn serve(store: &str, bank: SocketAddr, key_file: &Path) -> Serve {
    let mut command = hapax();
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--lease", "2s", "--drain", "10s"]);
    Serve::start(command.args(["--store", store, "--allow", &bank.to_string(), "--key-file"]).arg(key_file))
}

/// The JSON that a command prints.
fn call(url: &str, key: &str, arguments: &[&str]) -> Value {
    let mut command = hapax();
    let output = command.env("HAPAX_SERVER", url).env("HAPAX_API_KEY", key).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn order(definition: &str, number: usize) -> CreateRun {
    CreateRun {
        workflow: None,
        definition_id: Some(definition.to_owned()),
        input: JsonObject::default(),
        idempotency_key: Some(format!("wire-{number}")),
        subject: None,
        delay: None,
        timeout: None,
        priority: Priority::Normal,
    }
}

/// A woken node sends nothing that another has taken over: one wire for each run at the bank, and the ledger says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_after_its_lease_ended_sends_nothing() {
    let (database, folder) = (Database::empty().await.unwrap(), tempfile::tempdir().unwrap());
    let bank = Provider::start(bank).await;
    let key_file = folder.path().join("first.key");
    let first = serve(&database.tcp_url(), bank.address, &key_file);
    let url = format!("http://{}", first.address());
    first.until_said("may set it up is in");
    let root = std::fs::read_to_string(&key_file).unwrap().trim().to_owned();
    call(&url, &root, &["admin", "workspaces", "create", "acme", "--json"]);
    let admin = ["admin", "credentials", "create", "ada", "--role", "admin", "--workspace", "acme", "--json"];
    let admin = call(&url, &root, &admin)["apiKey"].as_str().unwrap().to_owned();
    let file = folder.path().join("wire.json");
    std::fs::write(&file, document(bank.address).to_string()).unwrap();
    let definition = call(&url, &admin, &["apply", file.to_str().unwrap(), "--json"]);
    let definition = definition["id"].as_str().unwrap();

    let client = Client::new(&url, &admin.clone().into()).unwrap();
    let runs = (0..RUNS).map(|number| order(definition, number)).collect();
    let made = client.create_runs(&CreateRunBatch { runs }, RequestOptions::default()).await.unwrap();
    assert!(made.items.iter().all(|item| item.created_run.is_some()), "{made:?}");
    bank.until(RESERVE, RUNS).await;
    bank.open();
    bank.until(WIRE, SEEN_BEFORE_THE_PAUSE).await;
    first.signal(Signal::STOP);

    let second = serve(&database.tcp_url(), bank.address, &folder.path().join("none.key"));
    let url = format!("http://{}", second.address());
    let client = Client::new(&url, &admin.clone().into()).unwrap();
    for item in &made.items {
        let run = &item.created_run.as_ref().unwrap().run.id;
        let ended = client.get_result(run, PATIENCE).await;
        assert!(ended.as_ref().is_ok_and(|ended| ended.output.is_some()), "{run}: {ended:?}");
    }
    let before_it_wakes = bank.requests(WIRE);

    first.signal(Signal::CONT);
    first.signal(Signal::TERM);
    // Once it is gone it has sent all that it will ever send.
    let (_, said) = first.end();
    let after = bank.requests(WIRE);
    let twice: Vec<_> = bank.tally(WIRE).into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(
        twice.is_empty(),
        "{} wires before it woke, {after} after; twice: {twice:?}\n{said}",
        before_it_wakes
    );
    assert_eq!(after, RUNS);
    let summary = call(&url, &admin, &["ledger", "--summary", "--json"]);
    assert_eq!(summary["claimed"]["happenedTwice"], 0, "{summary}");
}
