//! Server parts of each simulated node: its definitions and entity workflows, and a connection to
//! the provider.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hapax_documents::{HostServices, HttpAnswer, HttpCall, HttpCaller, HttpFault};
use hapax_engine::model::WorkspaceId;
use hapax_engine::store::Store;
use serde_json::{Value, json};

use super::fleet::SimulatedNode;
use super::node::Node;
use super::provider::RequestHandling;
use super::world::World;
use crate::catalog_watcher::{CatalogWatcher, keep_learning, learn_changes};
use crate::definitions::{DefinitionLimits, Definitions};
use crate::entities::Entities;
use crate::options::EntityTables;

pub const MODULE: &str = "sales";
/// The provider ignores the key of such a request, so each request is a new effect.
pub const IGNORES_KEYS: &str = "ship";

/// The documents that one node knows.
pub struct NodeDocuments {
    pub definitions: Arc<Definitions>,
    pub entities: Arc<Entities>,
}

/// The parts of all nodes, and the requests that the provider received under each document.
pub struct SimulatedNodes {
    world: Arc<World>,
    documents: Mutex<BTreeMap<String, Arc<NodeDocuments>>>,
    /// Requests that were sent: operation, document, and the node that sent it.
    sent: Mutex<Vec<(String, u64, String)>>,
    /// The oldest document that an operation may still use.
    least: Mutex<BTreeMap<String, u64>>,
    /// The node on which each definition was uploaded.
    uploaded_on: Mutex<BTreeMap<u64, String>>,
}

impl SimulatedNodes {
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(SimulatedNodes {
            world: world.clone(),
            documents: Mutex::default(),
            sent: Mutex::default(),
            least: Mutex::default(),
            uploaded_on: Mutex::default(),
        })
    }

    /// Opens the documents of a fresh node, as a server does at launch.
    pub fn open(self: &Arc<Self>, member: &SimulatedNode) {
        let line = FaultyHttp { office: self.clone(), node: member.node.clone() };
        let services = Arc::new(HostServices::new().http(Arc::new(line)));
        let (engine, store): (_, Arc<dyn Store>) = (member.engine.clone(), member.store.clone());
        let definitions =
            Definitions::new(engine.clone(), store.clone(), services.clone(), DefinitionLimits::default());
        let lease_for = self.world.settings.lease_for;
        engine.module(MODULE).janitor(lease_for, lease_for * 2).expect("a fresh engine has no janitor");
        let entities = Entities::new(engine, store, services, EntityTables::default());
        entities.receive_after_effects().expect("a fresh engine has no targets");
        tokio::spawn(learn(definitions.clone()));
        tokio::spawn(learn(entities.clone()));
        self.documents
            .lock()
            .unwrap()
            .insert(member.node.name.clone(), Arc::new(NodeDocuments { definitions, entities }));
    }

    pub fn node_documents(&self, member: &SimulatedNode) -> Arc<NodeDocuments> {
        self.documents.lock().unwrap()[&member.node.name].clone()
    }

    /// From now on, no operation on `op` may begin under an earlier document.
    pub fn expect_at_least(&self, op: &str, document: u64) {
        self.least.lock().unwrap().insert(op.to_string(), document);
    }

    pub fn note_upload(&self, document: u64, node: &Node) {
        self.uploaded_on.lock().unwrap().insert(document, node.name.clone());
    }

    /// Number of documents that were used.
    pub fn documents(&self) -> u64 {
        let sent = self.sent.lock().unwrap();
        let all: std::collections::BTreeSet<u64> = sent.iter().map(|(_, document, _)| *document).collect();
        all.len() as u64
    }

    /// Number of requests from nodes that read the definition from another node.
    pub fn loaded(&self) -> usize {
        let uploaded_on = self.uploaded_on.lock().unwrap();
        let by_another = |(_, document, node): &&(String, u64, String)| {
            uploaded_on.get(document).is_some_and(|uploader| uploader != node)
        };
        self.sent.lock().unwrap().iter().filter(by_another).count()
    }

    /// The documents that requests for `op` were made under.
    pub fn documents_of(&self, op: &str) -> Vec<u64> {
        let sent = self.sent.lock().unwrap();
        sent.iter().filter(|(of, ..)| of == op).map(|(_, document, _)| *document).collect()
    }

    /// Checks that no operation began under a replaced document.
    pub fn check(&self) -> Result<(), String> {
        let least = self.least.lock().unwrap();
        for (op, document, node) in self.sent.lock().unwrap().iter() {
            if let Some(least) = least.get(op).filter(|least| document < least) {
                return Err(format!(
                    "{node} acted for {op} under document {document}, though {least} was acknowledged before {op} was made"
                ));
            }
        }
        Ok(())
    }
}

/// Reads all documents, then their changes, for as long as the node lives.
async fn learn<L: CatalogWatcher>(learner: Arc<L>) {
    let this = Arc::downgrade(&learner);
    drop(learner);
    loop {
        let Some(learner) = this.upgrade() else { return };
        if learn_changes(&*learner).await.is_ok() {
            break;
        }
        drop(learner);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    keep_learning(this, || {}).await;
}

/// Connection of one node to the provider.
struct FaultyHttp {
    office: Arc<SimulatedNodes>,
    node: Arc<Node>,
}

fn answer(status: u16, body: &Value) -> Result<HttpAnswer, HttpFault> {
    let headers = vec![("content-type".to_string(), "application/json".to_string())];
    Ok(HttpAnswer { status, headers, body: body.to_string().into_bytes() })
}

fn lost() -> HttpFault {
    HttpFault::Unknown { why: "the connection was lost".into() }
}

#[async_trait]
impl HttpCaller for FaultyHttp {
    async fn call(&self, _: &WorkspaceId, call: HttpCall) -> Result<HttpAnswer, HttpFault> {
        let (world, node) = (&self.office.world, &self.node);
        world.may_pause(node).await;
        if call.method == "GET" {
            return self.look_up(&call).await;
        }
        let header = |name: &str| call.headers.iter().find(|(of, _)| of.eq_ignore_ascii_case(name));
        let key = header("Idempotency-Key").map_or("", |(_, key)| key.trim_matches('"')).to_string();
        let body: Value =
            serde_json::from_slice(call.body.as_deref().unwrap_or_default()).unwrap_or_default();
        let op = body["op"].as_str().unwrap_or_default().to_string();
        let document = body["document"].as_u64().unwrap_or(0);
        let kind = call.url.rsplit('/').next().unwrap_or_default().to_string();
        // A step of a run sends the fence of its lease; an entity action sends its attempt number.
        let fence = header("Hapax-Fence").and_then(|(_, number)| number.parse().ok());
        let number = fence.filter(|_| !key.starts_with("run_"));
        let _inside = world.provider.enter_action(world, &key, number, kind != IGNORES_KEYS);
        world.may_pause(node).await;
        // The server's sender also checks this before each write.
        if !call.hold.is_held() {
            return Err(HttpFault::NoLongerHeld);
        }
        let shown = format!("{kind} of {op} under document {document}");
        world.log(&node.name, &format!("sends {shown}"));
        self.office.sent.lock().unwrap().push((op, document, node.name.clone()));
        let (status, happens) = world.roll(|dice| match dice.u32(0..12) {
            0 => (Some(503), false),
            1 => (None, false),
            2 => (None, true),
            3 => (Some(500), true),
            _ => (Some(200), true),
        });
        let (status, happens) = if world.is_calm() { (Some(200), true) } else { (status, happens) };
        let longest = if world.chance(5) { Duration::from_millis(900) } else { Duration::from_millis(30) };
        let treatment =
            RequestHandling { happens, works_for: world.span(longest), answers_after: world.span(longest) };
        let given = json!({ "id": key, "document": document });
        let answered = world.work_on(&key, &shown, treatment, given.clone());
        match tokio::time::timeout(call.timeout, answered).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(lost()),
        }
        world.may_pause(node).await;
        match status {
            Some(200) => answer(200, &given),
            Some(status) => answer(status, &json!({ "error": "not now" })),
            None => Err(lost()),
        }
    }
}

impl FaultyHttp {
    /// Answers a probe with the effects so far.
    async fn look_up(&self, call: &HttpCall) -> Result<HttpAnswer, HttpFault> {
        let key = call.url.rsplit('/').next().unwrap_or_default().replace("%3A", ":");
        let found = self.office.world.provider.look_up(&key);
        self.office.world.may_pause(&self.node).await;
        match found {
            Some(given) => answer(200, &given),
            None => answer(404, &json!({ "error": "no such effect" })),
        }
    }
}
