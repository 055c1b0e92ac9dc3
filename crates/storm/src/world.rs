//! Everything that stands while the storm blows: the database, the proxies, the provider and the nodes.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hapax_postgres_fixture::{Server, ServerOptions};
use serde_json::{Value, json};

use crate::documents;
use crate::event_log::{About, EventLog};
use crate::http::{self, Answer, Request};
use crate::limits::{CLIENT_PAUSE, CLIENT_TIMEOUT, REQUEST_HELD, START_WITHIN};
use crate::nodes::{Node, NodeOptions};
use crate::provider::Provider;
use crate::proxy::Link;
use crate::webhook;

/// The database that the nodes share.
const DATABASE: &str = "postgres";
/// Entries of one page of a list.
const PAGE: usize = 200;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The check that failed, in a word or two.
    pub check: &'static str,
    /// The problem.
    pub what: String,
    /// The business operation it is about, if it is about one.
    pub op: Option<String>,
}

/// The document of the business objects as it was acknowledged last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityDocument {
    /// Number of the document. Every request to the provider names the document it began under.
    pub number: u64,
    /// `If-Match` value for replacing it.
    pub etag: String,
}

/// The world of one storm.
#[derive(Debug)]
pub struct World {
    pub began_at: Instant,
    pub program: PathBuf,
    pub database: Arc<Server>,
    pub nodes: Vec<Node>,
    pub database_links: Vec<Link>,
    pub provider: Provider,
    pub provider_link: Link,
    pub definitions: HashMap<String, String>,
    /// Path of the webhook source.
    pub source: String,
    pub webhook_secret: String,
    pub event_log: EventLog,
    /// The document of the business objects that is in force; held while it is replaced.
    pub entity_document: tokio::sync::Mutex<EntityDocument>,
    /// May do everything in the workspace.
    key: String,
    /// May read metrics.
    installation_key: String,
    violations: Mutex<Vec<Violation>>,
    ended: Mutex<Option<Instant>>,
}

impl World {
    /// Starts everything, and uploads the documents.
    pub async fn start(seed: u64, nodes: usize, program: PathBuf, folder: PathBuf) -> Result<World> {
        let began_at = Instant::now();
        let database = tokio::task::spawn_blocking(|| {
            ServerOptions::default().setting("max_connections", "300").start()
        });
        let database = database.await?.context("PostgreSQL cannot be started")?;
        let provider = Provider::start(seed, began_at).await?;
        let provider_link = Link::start(provider.address(), Some(REQUEST_HELD)).await?;
        let webhook_secret = webhook::secret(seed);
        let options = NodeOptions {
            program: program.clone(),
            folder: folder.clone(),
            provider: provider_link.address(),
            webhook_secret: webhook_secret.clone(),
        };
        let upstream = SocketAddr::from(([127, 0, 0, 1], database.port()));
        let mut database_links = Vec::new();
        let mut started = Vec::new();
        for index in 0..nodes {
            let link = Link::start(upstream, None).await?;
            let port = |port: u16| format!("127.0.0.1:{port}/");
            let store =
                database.tcp_url(DATABASE).replace(&port(database.port()), &port(link.address().port()));
            started.push(Node::new(index, store, options.clone()));
            database_links.push(link);
        }
        let mut world = World {
            began_at,
            program,
            database: Arc::new(database),
            nodes: started,
            database_links,
            provider,
            provider_link,
            definitions: HashMap::new(),
            source: String::new(),
            webhook_secret,
            event_log: EventLog::begin(began_at),
            entity_document: tokio::sync::Mutex::new(EntityDocument { number: 0, etag: String::new() }),
            key: String::new(),
            installation_key: String::new(),
            violations: Mutex::default(),
            ended: Mutex::default(),
        };
        world.set_up().await?;
        Ok(world)
    }

    /// The first node makes the installation, then the others join.
    async fn set_up(&mut self) -> Result<()> {
        let first = &self.nodes[0];
        first.start()?;
        first.until_ready().await?;
        self.installation_key = loop {
            if let Some(key) = first.first_key() {
                break key;
            }
            ensure!(self.began_at.elapsed() < Duration::from_secs(60), "the first start shows no key");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let setup = |path: &str, body: &Value| {
            Request::post(path, body).header("Authorization", format!("Bearer {}", self.installation_key))
        };
        let url = first.url().context("the first node listens")?;
        let workspace = setup("/api/v1/workspaces", &json!({ "name": "storm" }));
        expect_success(&http::send(&url, &workspace, CLIENT_TIMEOUT).await?)?;
        let admin =
            setup("/api/v1/credentials?workspace=storm", &json!({ "name": "storm", "role": "admin" }));
        let issued = expect_success(&http::send(&url, &admin, CLIENT_TIMEOUT).await?)?;
        self.key = issued["apiKey"].as_str().context("the credential has a key")?.to_owned();
        for node in &self.nodes[1..] {
            node.start()?;
        }
        for node in &self.nodes {
            node.until_ready().await?;
        }
        let base = format!("http://{}", self.provider_link.address());
        for document in documents::workflows(&base) {
            let made = expect_success(
                &self.send(0, &Request::post("/api/v1/workflow-definitions", &document)).await?,
            )?;
            let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
            self.definitions.insert(text("name"), text("id"));
        }
        let entity = Request::post("/api/v1/entity-workflows", &documents::entity_workflow(&base, 0));
        let made = self.send(0, &entity).await?;
        expect_success(&made)?;
        self.entity_document.get_mut().etag = made.etag();
        let source = Request::post("/api/v1/webhook-sources", &documents::source());
        expect_success(&self.send(0, &source).await?)?;
        self.source = format!("/api/v1/webhooks/storm/{}", documents::SOURCE);
        self.until_source_is_known().await
    }

    /// Other nodes know a new source after about a second. Wait until each node accepts the signature.
    async fn until_source_is_known(&self) -> Result<()> {
        for node in 0..self.nodes.len() {
            let event = format!("evt-hello-{node}");
            let body = json!({ "type": "hello" });
            let is_known = async || {
                let hello = webhook::signed(&self.source, &self.webhook_secret, &event, &body);
                self.send(node, &hello).await.is_ok_and(|answer| answer.is_success())
            };
            while !is_known().await {
                ensure!(
                    self.began_at.elapsed() < START_WITHIN * 2,
                    "node {node} does not know the webhook source"
                );
                tokio::time::sleep(CLIENT_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Sends one request to one node, with the credential of the workspace.
    pub async fn send(&self, node: usize, request: &Request) -> Result<Answer> {
        let node = &self.nodes[node % self.nodes.len()];
        let url = node.url().context("the node does not listen")?;
        let request = request.clone().header("Authorization", format!("Bearer {}", self.key));
        http::send(&url, &request, CLIENT_TIMEOUT).await
    }

    /// Sends a request to one node after the other until `is_final` says that an answer settles it.
    pub async fn ask_until(
        &self,
        first: usize,
        request: &Request,
        is_final: impl Fn(&Answer) -> bool,
    ) -> Result<Answer> {
        let mut last = "nothing".to_owned();
        let note = |node: usize, what: String| {
            if let Some(op) = &request.op {
                let (node, asked) = (node % self.nodes.len(), request.tell());
                let what = format!("{asked} on node {node}: {what}");
                self.event_log.add(About::Op(op.clone()), "client", what);
            }
        };
        for node in first.. {
            let told = match self.send(node, request).await {
                Ok(answer) if is_final(&answer) => {
                    note(node, answer.brief());
                    return Ok(answer);
                }
                Ok(answer) => {
                    last = answer.text();
                    answer.brief()
                }
                Err(error) => {
                    last = format!("{error:#}");
                    last.clone()
                }
            };
            // Most of the time a node is away; a story needs that once.
            if node < first + self.nodes.len() {
                note(node, format!("{told}; asks again"));
            }
            if self.is_over() {
                break;
            }
            tokio::time::sleep(CLIENT_PAUSE).await;
        }
        bail!("{} {} got no final answer; the last was: {last}", request.method, request.path)
    }

    /// Puts the next document of the business objects in force; its number, once it is acknowledged.
    pub async fn replace_entity_document(&self, node: usize, op: &str) -> Result<Option<u64>> {
        let mut in_force = self.entity_document.lock().await;
        let number = in_force.number + 1;
        let base = format!("http://{}", self.provider_link.address());
        let path = format!("/api/v1/entity-workflows/{}", documents::ENTITY_WORKFLOW);
        let request = Request::put(path, &documents::entity_workflow(&base, number))
            .header("If-Match", in_force.etag.clone())
            .about(op);
        let answer = self.ask(node, &request).await?;
        if !answer.is_success() {
            self.report("documents are replaced", Some(op), answer.text());
            return Ok(None);
        }
        *in_force = EntityDocument { number, etag: answer.etag() };
        Ok(Some(number))
    }

    /// Like [`World::ask_until`]; success, and refusals that will not change, are final.
    pub async fn ask(&self, first: usize, request: &Request) -> Result<Answer> {
        self.ask_until(first, request, is_final).await
    }

    /// Every item of a list.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut cursor = None::<String>;
        loop {
            let joint = if path.contains('?') { '&' } else { '?' };
            let after = cursor.as_deref().map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
            let answer = self.ask(0, &Request::get(format!("{path}{joint}limit={PAGE}{after}"))).await?;
            let page = expect_success(&answer)?;
            items.extend(page["items"].as_array().cloned().unwrap_or_default());
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return Ok(items);
            }
        }
    }

    /// The metrics of each node.
    pub async fn metrics(&self) -> Result<Vec<BTreeMap<String, f64>>> {
        let mut all = Vec::new();
        for node in &self.nodes {
            let url = node.url().context("the node does not listen")?;
            let request =
                Request::get("/metrics").header("Authorization", format!("Bearer {}", self.installation_key));
            let answer = http::send(&url, &request, CLIENT_TIMEOUT).await?;
            ensure!(answer.is_success(), "metrics: {}", answer.text());
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            let read = |line: &str| {
                let (name, value) = line.rsplit_once(' ')?;
                Some((name.to_owned(), value.parse().ok()?))
            };
            all.push(samples.filter_map(read).collect());
        }
        Ok(all)
    }

    /// The store without a proxy, for checks.
    pub fn store(&self) -> String {
        self.database.tcp_url(DATABASE)
    }

    pub fn report(&self, check: &'static str, op: Option<&str>, what: impl Into<String>) {
        let violation = Violation { check, what: what.into(), op: op.map(str::to_owned) };
        if let Some(op) = op {
            self.event_log.add(About::Op(op.to_owned()), "VIOLATED", check);
        }
        self.violations.lock().expect("nobody panics here").push(violation);
    }

    pub fn violations(&self) -> Vec<Violation> {
        self.violations.lock().expect("nobody panics here").clone()
    }

    /// Reports on a node, a link or the database.
    pub fn note(&self, who: impl Into<String>, what: impl Into<String>) {
        self.event_log.add(About::All, who, what);
    }

    /// From this instant on clients give up instead of asking again.
    pub fn end_at(&self, at: Instant) {
        *self.ended.lock().expect("nobody panics here") = Some(at);
    }

    pub fn is_over(&self) -> bool {
        self.ended.lock().expect("nobody panics here").is_some_and(|at| Instant::now() >= at)
    }
}

/// Success, or a refusal that will not change.
pub fn is_final(answer: &Answer) -> bool {
    let may_change = || answer.json()["retryable"] == Value::Bool(true);
    answer.is_success() || ((400..500).contains(&answer.status) && !may_change())
}

fn expect_success(answer: &Answer) -> Result<Value> {
    ensure!(answer.is_success(), "{}", answer.text());
    Ok(answer.json())
}
