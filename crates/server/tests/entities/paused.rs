//! A node that is stopped between its claim and the request, for longer than its claim lasts. Another node takes over, and a provider counts what both sent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use async_trait::async_trait;
use hapax_documents::{HostServices, Secret, Secrets};
use hapax_engine::Failure;
use hapax_engine::model::WorkspaceId;
use hapax_server::ModuleOptions;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

use super::invoice_fixture::{make, told, upload};
use super::support::{PATIENCE, Provider, Setup, TestServer};

/// Names the database that the node belongs to.
const DATABASE: &str = "HAPAX_TEST_NODE_OF";
const REFUND: &str = "/api/v1/entities/refund/r-1";

/// A janitor with little patience, so that the test does not take minutes.
fn setup(secrets: Arc<dyn Secrets>) -> Setup {
    let (every, stale_after) = (Duration::from_millis(200), Duration::from_millis(1_500));
    let billing = ModuleOptions { every, stale_after, ..ModuleOptions::new("billing") };
    Setup { services: HostServices::new().secrets(secrets), modules: vec![billing], ..Setup::default() }
}

/// Gives the secret at once.
struct ImmediateSecrets;

#[async_trait]
impl Secrets for ImmediateSecrets {
    async fn get_secret(&self, _: &WorkspaceId, _: &str) -> Result<Secret, Failure> {
        Ok("s3cr3t".to_owned().into())
    }
}

/// Reports that the secret was requested, which is after the claim and before the request, and
/// returns it on command.
struct GatedSecrets;

#[async_trait]
impl Secrets for GatedSecrets {
    async fn get_secret(&self, _: &WorkspaceId, _: &str) -> Result<Secret, Failure> {
        println!("{}", json!({ "reached": "the last step before the request" }));
        let told = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await;
        told.map_err(Failure::unknown)??;
        Ok("s3cr3t".to_owned().into())
    }
}

/// Not a test: the node, in a process of its own, if its environment asks for it.
#[tokio::test(flavor = "multi_thread")]
async fn runs_as_a_node_if_the_environment_says_so() {
    let Ok(database) = std::env::var(DATABASE) else { return };
    let node = TestServer::joining(&database, setup(Arc::new(GatedSecrets))).await;
    println!("{}", json!({ "url": node.url }));
    // It is killed.
    std::future::pending::<()>().await;
}

/// The node, seen from outside.
struct Node {
    process: Child,
    told: ChildStdin,
    said: Receiver<Value>,
}

impl Node {
    fn start(database: &str) -> Node {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "entities::paused::runs_as_a_node_if_the_environment_says_so", "--nocapture"])
            .env(DATABASE, database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, said) = mpsc::channel();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test runner prints lines of its own, also before the node's output.
                let Some(at) = line.find('{') else { continue };
                let Ok(told) = serde_json::from_str(&line[at..]) else { continue };
                if say.send(told).is_err() {
                    return;
                }
            }
        });
        let told = process.stdin.take().unwrap();
        Node { process, told, said }
    }

    /// Waits for a line with this field.
    fn until_said(&self, field: &str) -> Value {
        loop {
            let said = self.said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{field} was not said"));
            if let Some(value) = said.get(field) {
                return value.clone();
            }
        }
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.told, "{word}").unwrap();
    }

    /// Stops it, and waits until it has stopped, because a signal takes effect only after a while.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let id = Pid::from_child(&self.process);
        let (_, status) = waitpid(Some(id), WaitOptions::UNTRACED).unwrap().expect("it stops");
        assert!(status.stopped(), "{status:?}");
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(id, signal).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A refund that must not be sent twice. The bank says of every key that it does not know it, so a
/// request that times out is sent again. A busy machine can keep the timeout.
fn document(bank: &Provider) -> Value {
    json!({
        "name": "refunds", "module": "billing", "entity": "refund", "status_types": ["ready", "sending", "sent"],
        "steps": [{
            "step_id": 1, "step_key": "send", "status": "ready", "successful_state": "sent", "claim_state": ["sending", "ready"],
            "effect": "non_idempotent",
            "action": { "http": {
                "method": "POST", "url": bank.url("/refund"), "headers": { "Authorization": "Bearer secret://bank" }, "timeout": "5s",
            } },
            "probe": {
                "method": "GET", "url": bank.url("/lookup"), "settle": "300ms",
                "happened": "response.status == 201", "didNotHappen": "response.status == 200",
            },
        }],
    })
}

/// CONTRACT §5, §8: a holder that slept past its deadline sends nothing. The provider sees one refund, and the ledger knows of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_after_its_claim_was_given_back_sends_nothing() {
    let bank = Provider::start().await;
    let server = TestServer::postgres_set_up(setup(Arc::new(ImmediateSecrets))).await;
    upload(&server, &document(&bank)).await;
    make(&server, "refund", "r-1", "ready").await;
    let mut node = Node::start(&server.database_url());
    let url = node.until_said("url").as_str().unwrap().to_owned();
    let send = format!("{REFUND}/steps/send");
    let (path, admin) = (format!("{url}{send}"), server.admin.clone());
    let asking = server.http.post(path).bearer_auth(admin).header("prefer", "wait=0");
    let begun: Value =
        asking.json(&json!({ "idempotencyKey": "first" })).send().await.unwrap().json().await.unwrap();
    let first = begun["operation"]["id"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    node.until_said("reached");
    node.stop();
    // It sees this when it wakes.
    node.tell("go on");

    // The claim expires, the operation becomes in doubt, and the bank says twice that it does not
    // know it.
    server.until_shown(REFUND, |shown| shown["entity"]["status"] == "ready").await;
    let sent = server.post(&send, &json!({ "idempotencyKey": "second" }), &[]).await;
    assert_eq!((sent.status, &sent.json()["entity"]["status"]), (200, &json!("sent")), "{}", sent.text());
    let refunds = || bank.asked().into_iter().filter(|asked| asked.path == "/refund").count();
    assert_eq!(refunds(), 1);

    node.signal(Signal::CONT);
    // After the woken node has noticed that it lost its operation, it sends nothing more for it.
    let operation = format!("/api/v1/operations/{first}");
    let woken =
        server.until_shown(&operation, |shown| told(&shown["history"]).contains(&"refused".into())).await;
    assert_eq!(woken["operation"]["status"], "REVERTED");
    assert_eq!(refunds(), 1, "{:?}", bank.asked());
    let ledger = server.get("/api/v1/ledger").await.json();
    let entry = &ledger["items"][0];
    assert_eq!(entry["effectKey"], sent.json()["operation"]["effectKey"], "{ledger}");
    assert_eq!((&entry["happened"], &entry["mayHaveHappened"]), (&json!(1), &json!(0)), "{entry}");
}
