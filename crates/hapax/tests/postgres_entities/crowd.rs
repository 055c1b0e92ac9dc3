//! 500 calls from three processes on one entity: one enters the action, and the others get the id
//! of its operation.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use hapax::{
    Action, ActionAnswer, ClaimTo, CodeOnlyHost, Engine, EntityStep, EntityStorage, EntityWorkflow, Hapax,
    TableRef, TransitionOutcome,
};
use hapax_postgres_fixture::Database;
use serde_json::{Value, json};

use crate::postgres_entities::process::{Process, lines, say};

const SHARES: [usize; 3] = [167, 167, 166];
/// How long the parent waits for a word: never reached unless something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn workflow(home: EntityStorage) -> EntityWorkflow {
    let statuses = ["approved", "closing", "closed"];
    let claim = ClaimTo::new("closing", "approved").unwrap();
    let close = EntityStep::new(20, "close", &["approved"], "closed").unwrap();
    let close = close.doing(Action::handler("CloseBillingActionUseCase").unwrap()).claiming(claim);
    let workflow = EntityWorkflow::new("invoices", "billing", "invoice", &statuses).unwrap();
    EntityWorkflow { home, steps: vec![close], ..workflow }
}

async fn open(url: &str, home: EntityStorage) -> Engine {
    let hapax = Hapax::open(url).await.unwrap().into_engine().unwrap();
    hapax.register_entity_workflow(workflow(home), std::sync::Arc::new(CodeOnlyHost)).await.unwrap();
    hapax.module("billing").janitor(hapax::minutes(2), hapax::minutes(5)).unwrap();
    hapax
}

fn home_named(name: &str) -> EntityStorage {
    match name {
        "" => EntityStorage::BuiltIn,
        table => EntityStorage::UserTable(TableRef::new(table).unwrap()),
    }
}

/// One process of three; without its environment it is no test of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_process() {
    let Ok(url) = std::env::var("HAPAX_CALLER_URL") else { return };
    let home = home_named(&std::env::var("HAPAX_CALLER_TABLE").unwrap());
    let calls: usize = std::env::var("HAPAX_CALLER_CALLS").unwrap().parse().unwrap();
    let bodies = PathBuf::from(std::env::var_os("HAPAX_CALLER_BODIES").unwrap());
    let mut told = lines();
    let hapax = open(&url, home).await;
    let finish = told.clone();
    hapax
        .register_action("CloseBillingActionUseCase", move |call| {
            let mut file = OpenOptions::new().append(true).create(true).open(&bodies).unwrap();
            file.write_all(format!("{}\n", call.operation).as_bytes()).unwrap();
            let mut finish = finish.clone();
            async move {
                // The others should lose while it is in progress.
                let _ = finish.wait_for(|word| word == "finish").await;
                ActionAnswer::done(json!({ "closed": true }))
            }
        })
        .unwrap();
    say(&json!({ "said": "ready" }));
    told.wait_for(|word| word == "go").await.unwrap();
    let asking: Vec<_> = (0..calls)
        .map(|_| {
            let hapax = hapax.clone();
            tokio::spawn(async move {
                let outcome = match hapax.transition("invoice", "INV-7", "close").await.unwrap() {
                    TransitionOutcome::Done { operation, recorded: false, .. } => {
                        ("done", Some(operation.id))
                    }
                    TransitionOutcome::ClaimFailed { existing } => {
                        ("claim_failed", existing.map(|held| held.id))
                    }
                    other => panic!("{other:?}"),
                };
                say(&json!({ "said": outcome.0, "operation": outcome.1.map(|id| id.to_string()) }));
            })
        })
        .collect();
    for asked in asking {
        asked.await.unwrap();
    }
    told.wait_for(|word| word == "finish").await.unwrap();
    hapax.shutdown(Duration::from_secs(10)).await.unwrap();
}

async fn of_three_processes_one_call_enters(table: &str) {
    let database = Database::empty().await.unwrap();
    let admin = database.connect().await.unwrap();
    let invoices =
        "CREATE TABLE invoices (id text PRIMARY KEY, status text NOT NULL, version bigint NOT NULL,
            updated_at timestamptz NOT NULL);
        INSERT INTO invoices VALUES ('INV-7', 'approved', 1, now())";
    admin.batch_execute(invoices).await.unwrap();
    let hapax = open(&database.url(), home_named(table)).await;
    if table.is_empty() {
        let _ = hapax.create_entity("invoice", "INV-7", "approved", &json!({})).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let bodies = folder.path().join("bodies");
    let (hear, heard) = mpsc::channel();
    let mut processes = SHARES.map(|calls| {
        let environment = [
            ("HAPAX_CALLER_URL", &*database.url()),
            ("HAPAX_CALLER_TABLE", table),
            ("HAPAX_CALLER_CALLS", &*calls.to_string()),
            ("HAPAX_CALLER_BODIES", bodies.to_str().unwrap()),
        ];
        Process::spawn("postgres_entities::crowd::caller_process", &environment, hear.clone())
    });
    let next = || -> Value { heard.recv_timeout(PATIENCE).expect("somebody speaks") };
    for _ in &processes {
        assert_eq!(next()["said"], "ready");
    }
    processes.iter_mut().for_each(|process| process.tell("go"));
    let lost: Vec<Value> = (0..499).map(|_| next()).collect();
    // Not earlier, so that each of them lost against an operation that was under way.
    processes.iter_mut().for_each(|process| process.tell("finish"));
    let won = next();
    assert_eq!(won["said"], "done", "{won}");
    let told = json!({ "said": "claim_failed", "operation": won["operation"] });
    assert!(won["operation"].is_string());
    assert!(lost.iter().all(|lost| *lost == told), "{won}: {lost:?}");
    let entered = std::fs::read_to_string(&bodies).unwrap();
    assert_eq!(entered.lines().collect::<Vec<_>>(), [won["operation"].as_str().unwrap()]);
    processes.iter_mut().for_each(Process::ends_well);
    let shown = hapax.get_entity("invoice", "INV-7", None).await.unwrap();
    // Once when it was claimed, and once when it was closed.
    assert_eq!((shown.entity.status.as_str(), shown.entity.version.get()), ("closed", 3));
    hapax.shutdown(Duration::from_secs(10)).await.unwrap();
}

/// S1.3, S1.24 to S1.28, S1.56.
#[tokio::test(flavor = "multi_thread")]
async fn of_500_calls_from_three_processes_one_enters_the_action_in_a_table_of_the_users() {
    of_three_processes_one_call_enters("invoices").await;
}

/// S1.3, S1.24 to S1.28, S1.56.
#[tokio::test(flavor = "multi_thread")]
async fn of_500_calls_from_three_processes_one_enters_the_action_in_the_table_of_hapax() {
    of_three_processes_one_call_enters("").await;
}
