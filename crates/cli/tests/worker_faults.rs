//! Workers beside servers that are real processes: every call goes to a random node, connections are cut, and nodes and
//! workers are killed in the middle of their work.

#[path = "worker_faults/proxy.rs"]
mod proxy;
#[path = "worker_faults/worker.rs"]
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_api::client::{Client, Paging, RequestOptions};
use hapax_api::{CreateRun, JsonObject, Priority, RawJson, Resolution, ResolveDoubt, RunStatus};
use hapax_postgres_fixture::Database;
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::sleep;

use crate::support::dev::hapax;
use crate::support::serve::Serve;
use proxy::Proxy;
use worker::{Provider, Worker};

/// Longest time that anything in these tests may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// An address of this machine that nobody listens on now.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn serve(store: &str, address: &str, lease: &str, key_file: &Path) -> Serve {
    let mut command = hapax();
    command.args([
        "serve",
        "--listen",
        address,
        "--advertise-url",
        &format!("http://{address}"),
        "--log",
        "error",
    ]);
    let server = Serve::start(command.args(["--lease", lease, "--store", store, "--key-file"]).arg(key_file));
    assert_eq!(server.address(), address);
    server
}

/// The JSON that a command prints.
fn call(url: &str, key: &str, arguments: &[&str]) -> Value {
    let mut command = hapax();
    let output = command.env("HAPAX_SERVER", url).env("HAPAX_API_KEY", key).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Keys of an admin and of a worker.
fn keys(url: &str, key_file: &Path) -> (String, String) {
    let root = std::fs::read_to_string(key_file).unwrap().trim().to_owned();
    call(url, &root, &["admin", "workspaces", "create", "acme", "--json"]);
    let key = |role: &str, more: &[&str]| {
        let mut arguments =
            vec!["admin", "credentials", "create", role, "--role", role, "--workspace", "acme", "--json"];
        arguments.extend(more);
        call(url, &root, &arguments)["apiKey"].as_str().unwrap().to_owned()
    };
    (key("admin", &[]), key("worker", &["--workflow", "ord*"]))
}

async fn start(client: &Client, number: usize) -> String {
    let asked = CreateRun {
        workflow: Some("order".into()),
        definition_id: None,
        input: JsonObject::default(),
        idempotency_key: None,
        subject: None,
        delay: None,
        timeout: None,
        priority: Priority::Normal,
    };
    let options =
        RequestOptions { idempotency_key: Some(format!("order-{number}")), ..RequestOptions::default() };
    client.create_run(&asked, options).await.unwrap().run.id
}

/// Waits until all runs have ended. Rules on doubts by the books of the provider.
async fn until_completed(client: &Client, provider: &Provider, runs: &[String]) -> u32 {
    let (since, mut ruled) = (Instant::now(), 0);
    for run in runs {
        loop {
            let shown = client.get_run(run).await.unwrap().run;
            match shown.status {
                RunStatus::Completed => break,
                RunStatus::Pending | RunStatus::Running | RunStatus::Waiting => {}
                other => panic!("{run} is {other:?}"),
            }
            assert!(since.elapsed() < PATIENCE, "{run} does not end: {shown:?}");
            for doubt in client.list_doubts(&Paging::default()).await.unwrap().items {
                // The worker may be about to tell. A person asks the provider.
                sleep(Duration::from_millis(300)).await;
                let happened = provider.count(&doubt.effect_key) > 0;
                let resolution = if happened { Resolution::Happened } else { Resolution::DidNotHappen };
                let output = happened.then(|| RawJson::from_value(&doubt.effect_key).unwrap());
                let (reason, version) = ("the books say so".into(), doubt.version);
                let asked = ResolveDoubt { resolution, output, reason, version, by: None };
                if client
                    .resolve_doubt(&doubt.run_id, &doubt.step_id, &asked, RequestOptions::default())
                    .await
                    .is_ok()
                {
                    ruled += 1;
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    ruled
}

/// Two nodes on one PostgreSQL, behind a proxy that sends every call to a random one, cuts, delays and repeats. One node is
/// killed in the middle of everything, and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn workers_go_on_over_two_nodes_while_calls_are_cut_and_a_node_is_killed() {
    let (database, folder) = (Database::empty().await.unwrap(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("first.key");
    let addresses = [free_address(), free_address()];
    let store = database.tcp_url();
    let first = serve(&store, &addresses[0], "3s", &key_file);
    let second = serve(&store, &addresses[1], "3s", &folder.path().join("none.key"));
    let url = format!("http://{}", addresses[1]);
    let (admin, worker_key) = keys(&url, &key_file);
    let client = Client::new(&url, &admin.into()).unwrap();
    let proxy = Proxy::start(addresses.to_vec(), 7).await;
    let provider = Arc::new(Provider::new(Duration::from_millis(40)));
    let mut workers = tokio::task::JoinSet::new();
    for slot in ["a", "b"] {
        workers.spawn(Worker::new(&proxy.url, &worker_key, &provider, Some(slot), 8).run());
    }
    let since = Instant::now();
    while client.list_worker_sessions(&Paging::default()).await.unwrap().items.len() < 2 {
        assert!(since.elapsed() < PATIENCE);
        sleep(Duration::from_millis(50)).await;
    }
    proxy.set_faults(true);
    let mut runs = Vec::new();
    for number in 0..80 {
        runs.push(start(&client, number).await);
        if number == 40 {
            first.signal(Signal::KILL);
        }
    }
    first.end();
    let first = serve(&store, &addresses[0], "3s", &key_file);
    while provider.effects() < 60 {
        assert!(since.elapsed() < PATIENCE, "only {} effects", provider.effects());
        sleep(Duration::from_millis(20)).await;
    }
    proxy.set_faults(false);
    let ruled = until_completed(&client, &provider, &runs).await;
    for run in &runs {
        assert_eq!(provider.count(&format!("{run}:wire")), 1, "{run}");
        assert!(provider.count(&format!("{run}:note")) > 0, "{run}");
    }
    let (cut, repeated) = proxy.faults();
    assert!(cut > 0 && repeated > 0, "{cut} cut, {repeated} repeated");
    eprintln!(
        "{} runs in {:?}: {cut} calls cut, {repeated} repeated, {ruled} doubts ruled on",
        runs.len(),
        since.elapsed()
    );
    workers.shutdown().await;
    drop((first, second));
}

/// The worker is killed while it is inside 256 steps. Its successor has the same instance.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_and_restarted_goes_on_with_all_its_runs_at_its_first_poll() {
    const IN_FLIGHT: usize = 256;
    let folder = tempfile::tempdir().unwrap();
    let (key_file, address) = (folder.path().join("first.key"), free_address());
    let store = format!("sqlite:{}", folder.path().join("hapax.db").display());
    let server = serve(&store, &address, "30s", &key_file);
    let url = format!("http://{address}");
    let (admin, worker_key) = keys(&url, &key_file);
    let client = Client::new(&url, &admin.into()).unwrap();
    // The first one never ends what it begins.
    let stuck = Arc::new(Provider::new(PATIENCE));
    let older = Worker::new(&url, &worker_key, &stuck, Some("slot"), IN_FLIGHT as u32);
    let killed = tokio::spawn(older.clone().run());
    while client.list_worker_sessions(&Paging::default()).await.unwrap().items.is_empty() {
        sleep(Duration::from_millis(20)).await;
    }
    let mut runs = Vec::new();
    for number in 0..IN_FLIGHT {
        runs.push(start(&client, number).await);
    }
    let since = Instant::now();
    while older.attempts() < IN_FLIGHT {
        assert!(since.elapsed() < PATIENCE, "{} of {IN_FLIGHT} are in flight", older.attempts());
        sleep(Duration::from_millis(10)).await;
    }
    killed.abort();
    let _ = killed.await;
    let provider = Arc::new(Provider::default());
    let newer = Worker::new(&url, &worker_key, &provider, Some("slot"), IN_FLIGHT as u32);
    let began = Instant::now();
    let going_on = tokio::spawn(newer.clone().run());
    while newer.attempts() < IN_FLIGHT {
        assert!(began.elapsed() < PATIENCE, "{} of {IN_FLIGHT} go on", newer.attempts());
        sleep(Duration::from_millis(1)).await;
    }
    let took = began.elapsed();
    eprintln!("{IN_FLIGHT} runs in flight go on {took:?} after the restarted worker opened its session");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(until_completed(&client, &provider, &runs).await, 0, "no claimed effect was in flight");
    for run in &runs {
        assert_eq!((provider.count(&format!("{run}:note")), provider.count(&format!("{run}:wire"))), (1, 1));
    }
    going_on.abort();
    drop(server);
}

/// The file has one owner, so nobody waits for the leases of the process that was killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_sqlite_that_is_killed_and_restarted_goes_on_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (key_file, address) = (folder.path().join("first.key"), free_address());
    let store = format!("sqlite:{}", folder.path().join("hapax.db").display());
    let server = serve(&store, &address, "30s", &key_file);
    let url = format!("http://{address}");
    let (admin, worker_key) = keys(&url, &key_file);
    let client = Client::new(&url, &admin.into()).unwrap();
    let provider = Arc::new(Provider::closed());
    let worker = Worker::new(&url, &worker_key, &provider, None, 64);
    let working = tokio::spawn(worker.clone().run());
    while client.list_worker_sessions(&Paging::default()).await.unwrap().items.is_empty() {
        sleep(Duration::from_millis(20)).await;
    }
    let mut runs = Vec::new();
    for number in 0..32 {
        runs.push(start(&client, number).await);
    }
    while worker.attempts() < 32 {
        sleep(Duration::from_millis(5)).await;
    }
    server.signal(Signal::KILL);
    server.end();
    // No claimed step was in flight: one would wait for the lease, because its worker may still be inside it.
    provider.open();
    let server = serve(&store, &address, "30s", &key_file);
    let began = Instant::now();
    let ruled = until_completed(&client, &provider, &runs).await;
    let took = began.elapsed();
    eprintln!("32 runs ended {took:?} after the restart, {ruled} doubts ruled on");
    assert!(took < Duration::from_secs(20), "somebody waited for a lease of 30 s: {took:?}");
    for run in &runs {
        assert_eq!(provider.count(&format!("{run}:wire")), 1, "{run}");
    }
    working.abort();
    drop(server);
}
