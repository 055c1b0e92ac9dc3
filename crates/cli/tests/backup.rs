//! `hapax admin backup` of a busy server, and `hapax admin restore` in its place: nothing is sent again before a person resumes it.

use crate::support;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use hapax_api::client::{Client, RequestOptions};
use hapax_api::{CreateRun, CreateRunBatch, JsonObject, Priority};
use rustix::process::Signal;
use serde_json::{Value, json};
use support::dev::hapax;
use support::provider::{Provider, Reply};
use support::serve::Serve;
use tokio::sync::watch;

/// Runs whose charge is under way at the backup.
const RUNS: usize = 20;
/// Where the provider is charged.
const CHARGE: &str = "/charge";
const PATIENCE: Duration = Duration::from_secs(120);

fn document(provider: SocketAddr) -> Value {
    json!({ "name": "order", "version": 1, "steps": [
        { "name": "charge", "type": "http", "method": "POST", "url": format!("http://{provider}{CHARGE}") },
    ] })
}

fn serve(store: &str, provider: SocketAddr, key_file: &Path) -> Serve {
    let mut command = hapax();
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--drain", "10s"]);
    Serve::start(
        command.args(["--store", store, "--allow", &provider.to_string(), "--key-file"]).arg(key_file),
    )
}

fn run(arguments: &[&str]) -> Output {
    hapax().args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The JSON lines that a command prints.
fn call(url: &str, key: &str, arguments: &[&str]) -> Vec<Value> {
    let mut command = hapax();
    let output = command.env("HAPAX_SERVER", url).env("HAPAX_API_KEY", key).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(Result::unwrap).collect()
}

fn order(definition: &str, key: &str) -> CreateRun {
    CreateRun {
        workflow: None,
        definition_id: Some(definition.to_owned()),
        input: JsonObject::default(),
        idempotency_key: Some(key.to_owned()),
        subject: None,
        delay: None,
        timeout: None,
        priority: Priority::Normal,
    }
}

/// Id of the run under a key, and whether it was made just now.
async fn create(client: &Client, definition: &str, key: &str) -> (String, bool) {
    let batch = CreateRunBatch { runs: vec![order(definition, key)] };
    let made = client.create_runs(&batch, RequestOptions::default()).await.unwrap();
    let made = made.items[0].created_run.as_ref().unwrap_or_else(|| panic!("{made:?}"));
    (made.run.id.to_string(), made.created)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_restored_sends_nothing_before_somebody_has_looked() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (store, backup) = (format!("sqlite:{}", at("hapax.db")), at("backup.db"));
    let provider = Provider::start(|_, _| Reply::OkWhenOpen).await;
    let key_file = folder.path().join("first.key");
    let server = serve(&store, provider.address, &key_file);
    let url = format!("http://{}", server.address());
    server.until_said("may set it up is in");
    let root = std::fs::read_to_string(&key_file).unwrap().trim().to_owned();
    call(&url, &root, &["admin", "workspaces", "create", "acme", "--json"]);
    let admin = ["admin", "credentials", "create", "ada", "--role", "admin", "--workspace", "acme", "--json"];
    let admin = call(&url, &root, &admin)[0]["apiKey"].as_str().unwrap().to_owned();
    std::fs::write(at("order.json"), document(provider.address).to_string()).unwrap();
    let definition = call(&url, &admin, &["apply", &at("order.json"), "--json"]);
    let definition = definition[0]["id"].as_str().unwrap().to_owned();
    let client = Client::new(&url, &admin.clone().into()).unwrap();
    let mut open = Vec::new();
    for number in 0..RUNS {
        open.push(create(&client, &definition, &format!("order-{number}")).await.0);
    }
    provider.until(CHARGE, RUNS).await;

    // Others go on writing while the copy is made.
    let (stop, stopped) = watch::channel(false);
    let load = tokio::spawn({
        let (client, definition) = (Client::new(&url, &admin.clone().into()).unwrap(), definition.clone());
        async move {
            let mut number = 0;
            while !*stopped.borrow() {
                create(&client, &definition, &format!("load-{number}")).await;
                number += 1;
            }
            number
        }
    });
    let written = tokio::task::block_in_place(|| {
        run(&["admin", "backup", "--store", &store, "--to", &backup, "--json"])
    });
    assert!(written.status.success(), "{}", said(&written));
    assert!(said(&written).contains("hapax admin restore"), "{}", said(&written));
    assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let again = tokio::task::block_in_place(|| run(&["admin", "backup", "--store", &store, "--to", &backup]));
    assert!(again.status.code() == Some(1) && said(&again).contains("is there already"), "{}", said(&again));
    stop.send_replace(true);
    let loaded = load.await.unwrap();

    // The world goes on: every order that was open at the backup is charged and done.
    provider.open();
    for run in &open {
        let ended = client.get_result(run, PATIENCE).await;
        assert!(ended.as_ref().is_ok_and(|ended| ended.output.is_some()), "{run}: {ended:?}");
    }
    create(&client, &definition, "after-the-backup").await;
    provider.until(CHARGE, RUNS + loaded + 1).await;

    let restore = ["admin", "restore", &backup, "--to", &store, "--force", "--json"];
    let refused = tokio::task::block_in_place(|| run(&restore));
    assert!(said(&refused).contains("is in use by process"), "{}", said(&refused));
    server.signal(Signal::TERM);
    server.end();
    let refused = run(&["admin", "restore", &backup, "--to", &store]);
    assert!(said(&refused).contains("--force"), "{}", said(&refused));
    let restored = run(&restore);
    assert!(restored.status.success(), "{}", said(&restored));
    assert!(said(&restored).contains("hapax runs resume"), "{}", said(&restored));
    let told: Value = serde_json::from_slice(&restored.stdout).unwrap();
    let paused = told["paused_runs"].as_u64().unwrap() as usize;
    assert!(paused >= RUNS && told["open_runs"] == told["paused_runs"], "{told}");
    assert!(Path::new(told["kept"].as_str().unwrap()).exists(), "{told}");
    let checked = run(&["admin", "fsck", "--store", &store]);
    assert!(checked.status.success(), "{}", said(&checked));

    // Runs that were under way come to rest without a request to the provider.
    let before = provider.requests(CHARGE);
    let server = serve(&store, provider.address, &folder.path().join("none.key"));
    let url = format!("http://{}", server.address());
    let client = Client::new(&url, &admin.clone().into()).unwrap();
    let began = Instant::now();
    loop {
        let moving = ["runs", "list", "--status", "PENDING,RUNNING,WAITING", "--json"];
        let moving = tokio::task::block_in_place(|| call(&url, &admin, &moving));
        if moving.is_empty() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{moving:?}");
    }
    assert_eq!(provider.requests(CHARGE), before, "nothing is sent before somebody has looked");
    let audit = tokio::task::block_in_place(|| call(&url, &admin, &["audit", "--json"]));
    let by_restore = audit.iter().filter(|entry| entry.to_string().contains("hapax admin restore")).count();
    assert!(by_restore >= RUNS, "{by_restore} entries");

    // Let go on, an order is charged under the key that the provider knows.
    let first = open[0].clone();
    tokio::task::block_in_place(|| call(&url, &admin, &["runs", "resume", &first, "--json"]));
    let ended = client.get_result(&first, PATIENCE).await;
    assert!(ended.as_ref().is_ok_and(|ended| ended.output.is_some()), "{ended:?}");
    assert_eq!(provider.tally(CHARGE).get(&format!("{first}:charge")), Some(&2));
    // A key that is in the backup still names its run; one that is younger is gone.
    assert_eq!(create(&client, &definition, "order-0").await, (first, false));
    assert!(create(&client, &definition, "after-the-backup").await.1);
    server.signal(Signal::TERM);
    server.end();
    let checked = run(&["admin", "fsck", "--store", &store]);
    assert!(checked.status.success(), "{}", said(&checked));
}

#[test]
fn a_store_with_tools_of_its_own_is_rejected_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.db").display().to_string();
    let refused = run(&["admin", "backup", "--store", "postgres://u@h/d", "--to", &file]);
    assert!(said(&refused).contains("pg_dump --format=custom --schema=hapax"), "{}", said(&refused));
    let refused = run(&["admin", "restore", &file, "--to", "postgres://u@h/d"]);
    assert!(said(&refused).contains("pg_restore"), "{}", said(&refused));
    let refused = run(&["admin", "backup", "--store", "memory:", "--to", &file]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    std::fs::write(&file, "no database").unwrap();
    let target = format!("sqlite:{}", folder.path().join("hapax.db").display());
    let refused = run(&["admin", "restore", &file, "--to", &target]);
    assert!(said(&refused).contains("not a SQLite database"), "{}", said(&refused));
    assert!(!folder.path().join("hapax.db").exists());
}
