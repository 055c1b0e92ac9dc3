//! Definitions that start themselves without end: how far they come, and how people end them.

use std::time::Duration;

use hapax_engine::EngineOptions;
use hapax_engine::model::RunStatus;
use hapax_engine::store::{ListRuns, Store};
use serde_json::{Value, json};

use super::RUNS;
use crate::support::{PATIENCE, Setup, StoreKind, TestServer};

/// Two documents that start each other, ten times at once, and abandon what they started. A document may not start itself.
async fn upload_bomb(server: &TestServer) -> String {
    let starts = |name: &str, version: u32, other: &str| {
        let branches: Vec<Value> = (0..10)
            .map(|n| json!([{ "name": format!("c{n}"), "type": "child", "workflow": other, "onClose": "abandon" }]))
            .collect();
        json!({ "name": name, "version": version, "steps": [{ "name": "all", "type": "parallel", "branches": branches }] })
    };
    let harmless = json!({ "name": "pong", "version": 1, "steps": [{ "name": "go", "type": "signal" }] });
    server.upload(&harmless).await;
    let ping = server.upload(&starts("ping", 1, "pong")).await;
    server.upload(&starts("pong", 2, "ping")).await;
    ping
}

/// How many runs there are, and how many of them are open.
async fn count(store: &dyn Store) -> (usize, usize) {
    let (mut all, mut open, mut before) = (0, 0, None);
    loop {
        let list = ListRuns {
            workspace: None,
            statuses: vec![],
            workflow: None,
            filter: Default::default(),
            before,
            limit: 1_000,
        };
        let page = store.list_runs(list).await.unwrap();
        all += page.runs.len();
        open += page.runs.iter().filter(|run| !run.head.status().is_closed()).count();
        before = page.next;
        if before.is_none() {
            return (all, open);
        }
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(3 * PATIENCE, looking).await.unwrap_or_else(|_| panic!("never happened: {what}"));
}

fn setup(max_descendants: u64) -> Setup {
    let engine = EngineOptions {
        poll_every: Duration::from_millis(100),
        lease_for: Duration::from_secs(1),
        max_descendants,
        children_per_second: 1_000_000,
        ..EngineOptions::default()
    };
    Setup { engine, ..Setup::default() }
}

/// One start made 485,362 runs in 12 s. Now it ends by itself at the limit of a family, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_of_documents_stays_within_the_limit_and_ends() {
    let server = TestServer::memory_with(setup(500)).await;
    let ping = upload_bomb(&server).await;
    let root = server.start(&ping, json!({})).await;
    until("the bomb has ended", async || count(&*server.store).await.1 == 0).await;
    let (all, _) = count(&*server.store).await;
    assert!(all <= 501, "{all} runs from one start");
    let list = ListRuns {
        workspace: None,
        statuses: vec![RunStatus::Failed],
        workflow: None,
        filter: Default::default(),
        before: None,
        limit: 1_000,
    };
    let failed = server.store.list_runs(list).await.unwrap().runs;
    assert!(!failed.is_empty());
    let run = failed
        .iter()
        .map(|run| &run.head)
        .find(|run| run.facts.depth() > 1)
        .expect("deep ones were refused")
        .id();
    let shown = server.get(&format!("{RUNS}/{run}")).await.json();
    assert_eq!(shown["run"]["failure"]["code"], "too_many_descendants", "{shown}");
    assert!(
        shown["run"]["failure"]["message"].as_str().unwrap().contains("--descendants"),
        "it says what to do"
    );
    assert_eq!(server.get(&format!("{RUNS}/{root}")).await.status, 200);
}

/// A cancelled root did not stop what it had abandoned, nor did a crash. A family that is cancelled ends, crash or not.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_root_with_its_descendants_ends_a_fork_bomb() {
    let mut endless = setup(u64::MAX);
    endless.engine.max_child_depth = u32::MAX;
    // It does not end by itself, and has some thousand members however long the test is about to cancel it.
    endless.engine.children_per_second = 50;
    let server = TestServer::memory_with(endless).await;
    let ping = upload_bomb(&server).await;
    let root = server.start(&ping, json!({})).await;
    until("it grows", async || count(&*server.store).await.0 > 300).await;
    let child = server.get(&format!("{RUNS}/{root}")).await.json();
    let child = child["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|step| step["childRunId"].as_str().map(str::to_owned));
    let wrong = format!("{RUNS}/{}/cancel", child.expect("a child"));
    let refused = server.post(&wrong, &json!({ "descendants": true }), &[]).await;
    assert_eq!((refused.status, refused.code()), (409, "not_a_root".into()), "{}", refused.text());
    assert_eq!(refused.json()["rootRunId"], json!(root));

    let asked = json!({ "descendants": true, "reason": "it starts itself without end" });
    let cancelled = server.post(&format!("{RUNS}/{root}/cancel"), &asked, &[]).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    let (at_cancel, _) = count(&*server.store).await;
    // The node dies with the sweep at its beginning. The next one goes on with it.
    server.engine.kill();
    let next = TestServer::over(server.store.clone(), StoreKind::Elsewhere, setup(u64::MAX)).await;
    until("all have ended", async || count(&*next.store).await.1 == 0).await;
    let (all, _) = count(&*next.store).await;
    assert!(all <= at_cancel, "{all} runs, {at_cancel} when it was cancelled");
    let audit = next.get("/api/v1/audit").await.text();
    assert!(audit.contains("cancel with descendants"), "{audit}");
}
