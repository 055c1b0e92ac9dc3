//! A node that is stopped for longer than its lease, another that takes over, and a provider that counts what both sent.

use crate::support;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_api::client::{Client, Terms};
use hapax_api::{CreateRun, CreateRunBatch, JsonObject, Priority};
use hapax_postgres_fixture::Database;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::dev::hapax;
use support::serve::Serve;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Runs under way when the node is stopped. So many wires begin at once that some are claimed and not yet sent.
const RUNS: usize = 100;
/// Wires that the provider has seen when the node is stopped.
const SEEN_BEFORE_THE_PAUSE: usize = 5;
/// Longest time that anything in this test may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A bank that ignores keys: every request for a wire is a wire. It answers no reservation before its doors open.
#[derive(Clone)]
struct Bank {
    address: SocketAddr,
    /// Effect keys of the wires, in the order in which they came.
    wires: Arc<Mutex<Vec<String>>>,
    reservations: watch::Sender<usize>,
    count: watch::Sender<usize>,
    is_open: watch::Sender<bool>,
}

impl Bank {
    async fn start() -> Bank {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let bank = Bank {
            address: listener.local_addr().unwrap(),
            wires: Arc::default(),
            reservations: watch::Sender::new(0),
            count: watch::Sender::new(0),
            is_open: watch::Sender::new(false),
        };
        let accepting = bank.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let bank = accepting.clone();
                tokio::spawn(async move { bank.serve(stream).await });
            }
        });
        bank
    }

    async fn serve(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some((path, key)) = read_request(&mut stream).await {
            let status = match path.as_str() {
                "/reserve" => {
                    self.reservations.send_modify(|count| *count += 1);
                    let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
                    "200 OK"
                }
                "/wire" => {
                    self.wires.lock().unwrap().push(key);
                    self.count.send_modify(|count| *count += 1);
                    "200 OK"
                }
                lookup => {
                    let asked = lookup.trim_start_matches("/lookup/").replace("%3A", ":");
                    match self.wires.lock().unwrap().contains(&asked) {
                        true => "200 OK",
                        false => "404 Not Found",
                    }
                }
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
            );
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// How often each key was wired.
    fn tally(&self) -> HashMap<String, usize> {
        let mut tally = HashMap::new();
        for key in self.wires.lock().unwrap().iter() {
            *tally.entry(key.clone()).or_default() += 1;
        }
        tally
    }
}

/// The path and the effect key of the next request.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let (mut path, mut key, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if path.is_empty() {
            path = line.split(' ').nth(1)?.to_owned();
        } else if let Some((name, value)) = line.split_once(": ") {
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => key = value.trim_matches('"').to_owned(),
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((path, key))
}

async fn until(counter: &watch::Sender<usize>, least: usize, what: &str) {
    let mut changes = counter.subscribe();
    let reached = tokio::time::timeout(PATIENCE, changes.wait_for(|count| *count >= least)).await.is_ok();
    assert!(reached, "{what}: {} of {least}", *counter.borrow());
}

/// A reservation that may be repeated, then a wire that must not be, and that the bank can be asked about.
fn document(bank: SocketAddr) -> Value {
    json!({ "name": "wire", "version": 1, "steps": [
        { "name": "reserve", "type": "http", "method": "POST", "url": format!("http://{bank}/reserve") },
        { "name": "wire", "type": "http", "method": "POST", "url": format!("http://{bank}/wire"),
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
    let bank = Bank::start().await;
    let key_file = folder.path().join("first.key");
    let first = serve(&database.tcp_url(), bank.address, &key_file);
    let url = format!("http://{}", first.address());
    first.until_said("may set it up is in");
    let root = std::fs::read_to_string(&key_file).unwrap().trim().to_owned();
    call(&url, &root, &["workspaces", "create", "acme", "--json"]);
    let admin = ["credentials", "create", "ada", "--role", "admin", "--workspace", "acme", "--json"];
    let admin = call(&url, &root, &admin)["apiKey"].as_str().unwrap().to_owned();
    let file = folder.path().join("wire.json");
    std::fs::write(&file, document(bank.address).to_string()).unwrap();
    let definition = call(&url, &admin, &["definitions", "upload", file.to_str().unwrap(), "--json"]);
    let definition = definition["id"].as_str().unwrap();

    let client = Client::new(&url, &admin.clone().into()).unwrap();
    let runs = (0..RUNS).map(|number| order(definition, number)).collect();
    let made = client.create_runs(&CreateRunBatch { runs }, Terms::default()).await.unwrap();
    assert!(made.items.iter().all(|item| item.created_run.is_some()), "{made:?}");
    until(&bank.reservations, RUNS, "reservations").await;
    bank.is_open.send_replace(true);
    until(&bank.count, SEEN_BEFORE_THE_PAUSE, "wires before the pause").await;
    first.signal(Signal::STOP);

    let second = serve(&database.tcp_url(), bank.address, &folder.path().join("none.key"));
    let url = format!("http://{}", second.address());
    let client = Client::new(&url, &admin.clone().into()).unwrap();
    for item in &made.items {
        let run = &item.created_run.as_ref().unwrap().run.id;
        let ended = client.get_result(run, PATIENCE).await;
        assert!(ended.as_ref().is_ok_and(|ended| ended.output.is_some()), "{run}: {ended:?}");
    }
    let before_it_wakes = bank.wires.lock().unwrap().len();

    first.signal(Signal::CONT);
    first.signal(Signal::TERM);
    // Once it is gone it has sent all that it will ever send.
    let (_, said) = first.end();
    let after = bank.wires.lock().unwrap().len();
    let twice: Vec<_> = bank.tally().into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(
        twice.is_empty(),
        "{} wires before it woke, {after} after; twice: {twice:?}\n{said}",
        before_it_wakes
    );
    assert_eq!(after, RUNS);
    let summary = call(&url, &admin, &["ledger", "--summary", "--json"]);
    assert_eq!(summary["claimed"]["happenedTwice"], 0, "{summary}");
}
