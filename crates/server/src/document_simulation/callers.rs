//! Callers that upload documents on one node, and callers that use them on another as soon as the
//! upload is acknowledged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_api::{Problem, Role};
use hapax_engine::Error;
use hapax_engine::model::{Actor, Name, Role as Rank, RunId, RunStatus, Version, WorkspaceId};
use hapax_engine::runtime::TransitionOutcome;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::fleet::{Fleet, SimulatedNode};
use super::simulated_server::{IGNORES_KEYS, MODULE, SimulatedNodes};
use super::watch::every_run;
use super::world::World;
use crate::entities::Uploading;
use crate::identity::{Acting, Identity};
use crate::uploaded::Uploaded;

const KIND: &str = "invoice";
const ENTITY_WORKFLOW: &str = "invoices";
/// First number of entity documents, so that they are not mistaken for definitions.
const FIRST_ENTITY_DOCUMENT: u64 = 1_000;
const MOST_TRIES: u32 = 3;

pub struct Callers {
    world: Arc<World>,
    fleet: Arc<Fleet>,
    office: Arc<SimulatedNodes>,
    /// Callers that are not finished.
    open: AtomicUsize,
    /// Runs that were acknowledged, with the version of their document.
    runs: Mutex<BTreeMap<RunId, u64>>,
    /// Entities whose payment was acknowledged to a caller.
    paid: Mutex<Vec<String>>,
}

impl Callers {
    pub fn launch(world: &Arc<World>, fleet: &Arc<Fleet>, office: &Arc<SimulatedNodes>) -> Arc<Self> {
        let (definitions, replacements) = world.roll(|dice| (dice.u64(1..=4), dice.u64(2..=6)));
        let callers = Arc::new(Callers {
            world: world.clone(),
            fleet: fleet.clone(),
            office: office.clone(),
            open: AtomicUsize::new(definitions as usize + 1),
            runs: Mutex::default(),
            paid: Mutex::default(),
        });
        for version in 1..=definitions {
            callers.clone().spawn(async move |this: Arc<Self>| this.define_and_start(version).await);
        }
        callers.clone().spawn(async move |this: Arc<Self>| this.replace_and_pay(replacements).await);
        callers
    }

    fn spawn<F>(self: Arc<Self>, work: impl FnOnce(Arc<Self>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        tokio::spawn(async move {
            work(self.clone()).await;
            self.open.fetch_sub(1, Ordering::Relaxed);
        });
    }

    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Any living node. A caller whose node dies in the middle never hears from it.
    async fn any(&self) -> SimulatedNode {
        loop {
            sleep(self.world.span(Duration::from_millis(200))).await;
            if let Some(member) = self.fleet.any() {
                return member;
            }
        }
    }

    /// Asks one node after the other until one gives a final answer.
    async fn ask<T, F>(&self, what: &str, ask: impl Fn(SimulatedNode) -> F) -> Option<(T, SimulatedNode)>
    where
        F: Future<Output = CallOutcome<T>>,
    {
        loop {
            let member = self.any().await;
            let patience = self.world.settings.lease_for * 3;
            let asked = tokio::select! {
                biased;
                () = member.node.death() => continue,
                asked = timeout(patience, ask(member.clone())) => asked,
            };
            match asked {
                Ok(CallOutcome::Answered(answer)) => return Some((answer, member)),
                Ok(CallOutcome::Refused(why)) => {
                    self.world.break_off(format!("{what} on {}: {why}", member.node.name));
                    return None;
                }
                Ok(CallOutcome::Later) | Err(_) => {}
            }
        }
    }

    /// Uploads a definition on one node; runs of it are started on others at once.
    async fn define_and_start(&self, version: u64) {
        let world = &self.world;
        sleep(world.span(world.settings.storm / 2)).await;
        let text = definition(version).to_string();
        let uploaded = self.ask("an upload", async |member| {
            let documents = self.office.node_documents(&member);
            self.office.note_upload(version, &member.node);
            outcome_of_problem(documents.definitions.upload(&acting(), Uploaded::json(text.clone())).await)
        });
        let Some(((uploaded, _), _)) = uploaded.await else { return };
        world.log("caller", &format!("definition {version} is acknowledged"));
        for nth in 0..3 {
            let op = format!("order-{version}-{nth}");
            let started = self.ask("a start", async |member| {
                let documents = self.office.node_documents(&member);
                let found = match outcome_of_problem(
                    documents.definitions.get(&WorkspaceId::default(), &uploaded.id).await,
                ) {
                    CallOutcome::Answered(found) => found,
                    CallOutcome::Refused(why) => return CallOutcome::Refused(why),
                    CallOutcome::Later => return CallOutcome::Later,
                };
                let start = member.engine.start(found.name(), &json!({ "op": op }));
                let started = start.version(found.version()).idempotency_key(op.clone()).await;
                outcome_of_error(started.map(|handle| handle.id()))
            });
            let Some((run, _)) = started.await else { return };
            self.runs.lock().unwrap().insert(run, version);
        }
    }

    /// Replaces the document of invoices repeatedly. After each acknowledged replacement, new
    /// invoices must be paid under it.
    async fn replace_and_pay(self: Arc<Self>, replacements: u64) {
        let world = self.world.clone();
        let mut expected: Option<Version> = None;
        for number in FIRST_ENTITY_DOCUMENT..FIRST_ENTITY_DOCUMENT + replacements {
            sleep(world.span(world.settings.storm / replacements as u32)).await;
            let uploaded = Uploaded::json(entity_document(number).to_string());
            let replaced = self.ask("a replacement", async |member| {
                let documents = self.office.node_documents(&member);
                let (workspace, by) = (WorkspaceId::default(), Actor::new("ada", Rank::Manager));
                let replaced =
                    documents.entities.replace(&workspace, ENTITY_WORKFLOW, &uploaded, expected, by);
                outcome_of_problem(replaced.await.map(|replaced| match replaced {
                    Uploading::Made(workflow) | Uploading::Found(workflow) => workflow.version(),
                }))
            });
            let Some((version, _)) = replaced.await else { return };
            world.log("caller", &format!("entity document {number} is acknowledged"));
            expected = Some(version);
            for nth in 0..3 {
                let invoice = format!("invoice-{number}-{nth}");
                self.office.expect_at_least(&invoice, number);
                self.open.fetch_add(1, Ordering::Relaxed);
                self.clone().spawn(async move |this: Arc<Self>| this.pay(&invoice).await);
            }
        }
    }

    /// Creates an invoice and pays it, each time on a random node.
    async fn pay(&self, invoice: &str) {
        let made = self.ask("an invoice", async |member| {
            outcome_of_error(member.engine.create_entity(KIND, invoice, "open", &json!({})).await.map(drop))
        });
        if made.await.is_none() {
            return;
        }
        for number in 0..MOST_TRIES {
            let key = format!("{invoice}-{number}");
            let taken = self.ask("a payment", async |member| {
                let step = member.engine.transition(KIND, invoice, "pay").idempotency_key(key.clone());
                match step.await {
                    Ok(TransitionOutcome::Done { .. }) => CallOutcome::Answered(true),
                    Ok(TransitionOutcome::Failed { .. } | TransitionOutcome::Rejected { .. }) => {
                        CallOutcome::Answered(false)
                    }
                    Ok(
                        TransitionOutcome::Pending { .. }
                        | TransitionOutcome::InDoubt { .. }
                        | TransitionOutcome::ClaimFailed { .. },
                    ) => CallOutcome::Later,
                    Ok(other) => CallOutcome::Refused(format!("{other:?}")),
                    Err(error) => outcome_of_error(Err(error)),
                }
            });
            match taken.await {
                None => return,
                Some((false, _)) => {}
                Some((true, _)) => return self.paid.lock().unwrap().push(invoice.to_string()),
            }
        }
    }

    /// Checks that each run used the document it was started with, and that every acknowledged
    /// payment happened.
    pub fn check(&self) -> Result<(), String> {
        let runs = every_run(&self.world.store);
        for (run, version) in self.runs.lock().unwrap().iter() {
            let view =
                runs.iter().find(|view| view.head.id() == *run).ok_or("an acknowledged run is gone")?;
            if view.head.status() != RunStatus::Completed {
                return Err(format!("{run} is {}: {:?}", view.head.status().as_str(), view.result));
            }
            let op: Value = view.input.to().map_err(|error| error.to_string())?;
            let op = op["op"].as_str().unwrap_or_default().to_string();
            let documents = self.office.documents_of(&op);
            if documents.is_empty() || documents.iter().any(|document| document != version) {
                return Err(format!(
                    "{op} is pinned to version {version}, and was carried out by {documents:?}"
                ));
            }
        }
        let paid = self.paid.lock().unwrap();
        match paid.iter().find(|invoice| self.office.documents_of(invoice).is_empty()) {
            Some(invoice) => Err(format!("{invoice} was told to be paid, and nothing was sent for it")),
            None => Ok(()),
        }
    }
}

/// Result of a request.
enum CallOutcome<T> {
    Answered(T),
    /// Ask again.
    Later,
    /// It should have succeeded.
    Refused(String),
}

fn outcome_of_problem<T>(answer: Result<T, Problem>) -> CallOutcome<T> {
    match answer {
        Ok(answer) => CallOutcome::Answered(answer),
        Err(problem) if problem.retryable => CallOutcome::Later,
        Err(problem) => CallOutcome::Refused(problem.to_string()),
    }
}

fn outcome_of_error<T>(answer: Result<T, Error>) -> CallOutcome<T> {
    match answer {
        Ok(answer) => CallOutcome::Answered(answer),
        Err(Error::Store(error)) if error.is_retryable() => CallOutcome::Later,
        Err(Error::ShuttingDown | Error::EntityBusy(_)) => CallOutcome::Later,
        Err(error) => CallOutcome::Refused(error.to_string()),
    }
}

fn acting() -> Acting {
    let identity = Identity {
        workspace: WorkspaceId::default(),
        credential: Name::new("credential", "ada").expect("a sound name"),
        name: "ada".into(),
        role: Role::Admin,
        requester: None,
        sees_payloads: true,
        may_offer: None,
        person: None,
        acts_for: None,
        ends_at: None,
    };
    Acting { identity: Arc::new(identity), address: None, trace_id: None }
}

fn request(kind: &str, op: &str, document: u64) -> Value {
    json!({
        "method": "POST", "url": format!("https://bank.example/{kind}"), "body": { "op": op, "document": document },
        "timeout": "1s",
    })
}

/// A charge at a provider that honours keys, and a claimed shipment at one that does not.
fn definition(version: u64) -> Value {
    let step = |kind: &str| {
        let mut step = request(kind, "{{ input.op }}", version);
        step["name"] = json!(kind);
        step["type"] = json!("http");
        step["retry"] = json!({ "maxAttempts": 1_000, "first": "100ms", "factor": 2, "cap": "1s" });
        step
    };
    let mut ship = step(IGNORES_KEYS);
    ship["effect"] = json!("claimed");
    ship["nonIdempotent"] = json!(true);
    ship["output"] = json!({ "shipped": "{{ response.body.id }}" });
    ship["probe"] = json!({
        "method": "GET", "url": "https://bank.example/lookup/{{ key }}", "happened": "response.status == 200",
        "didNotHappen": "response.status == 404", "output": { "shipped": "{{ response.body.id }}" }, "settle": "4s",
    });
    json!({ "name": "order", "version": version, "steps": [step("charge"), ship] })
}

/// NodeDocuments with an even number claim the invoice before they pay it; odd ones do not.
fn entity_document(number: u64) -> Value {
    let mut pay = json!({
        "step_id": 10, "step_key": "pay", "status": "open", "successful_state": "paid", "effect": "idempotent",
        "action": { "http": request("pay", "{{ entity.id }}", number) },
    });
    if number.is_multiple_of(2) {
        pay["claim_state"] = json!(["paying", "open"]);
    }
    json!({
        "name": ENTITY_WORKFLOW, "kind": "entity", "module": MODULE, "entity": KIND,
        "status_types": ["open", "paying", "paid"], "initial": "open", "steps": [pay],
    })
}
