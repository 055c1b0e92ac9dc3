//! A server of our own, on a real port over a real store.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

mod described;
mod identity_provider;
mod planned_inbound_events;
mod planned_store;
mod provider;
mod receiver;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hapax_documents::HostServices;
use hapax_engine::clock::{Clock, ManualClock, SystemClock};
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{Actor, Role as Rank, WorkspaceId};
use hapax_engine::runtime::{ActionAnswer, StepCall};
use hapax_engine::store::Store;
use hapax_engine::{Engine, EngineOptions};
use hapax_http_idempotency::Policy;
use hapax_outgoing::{Outgoing, Rules};
use hapax_postgres_fixture::Database;
use hapax_server::directory::NewCredential;
use hapax_server::drain::{Drain, drain};
use hapax_server::http_caller::GuardedCaller;
use hapax_server::limits::{MAX_DEFINITIONS, MAX_DEFINITIONS_PER_WORKSPACE};
use hapax_server::listen::ListenOptions;
use hapax_server::sealing::SealingKey;
use hapax_server::{
    ActionOrigins, EntityTables, LaunchError, ModuleOptions, NodeUrl, PeopleOptions, QuotaOptions, Server,
    ServerOptions,
};
use hapax_store_postgres::{PostgresOptions, PostgresStore};
use hapax_store_sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};

pub use hapax_api::Role;
pub use identity_provider::IdentityProvider;
pub use planned_store::{HUGE_EVENTS, HUGE_STEPS, PlannedStore};
pub use provider::Provider;
pub use receiver::{Received, Receiver};

/// Nothing may take longer; a test that would hang fails instead.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Store of a test server.
pub enum StoreKind {
    Memory,
    Sqlite(tempfile::TempDir),
    Postgres(Database),
    /// Another server of the test owns it.
    Elsewhere,
}

/// A server and its clients.
pub struct TestServer {
    pub server: Server,
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub address: SocketAddr,
    pub url: String,
    pub http: reqwest::Client,
    /// A key of the role admin in the workspace `acme`.
    pub admin: String,
    drain: Drain,
    kept: StoreKind,
}

/// A response.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Status and code.
    pub fn told(&self) -> (u16, String) {
        (self.status, self.code())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Builder of a client. Its TLS provider is installed here, because the default depends on the
/// other crates in the build.
pub fn client() -> reqwest::ClientBuilder {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

/// How a test server is set up.
pub struct Setup {
    pub services: HostServices,
    pub rules: Rules,
    pub keys: Policy,
    /// Clock of the engine.
    pub clock: Arc<dyn Clock>,
    /// How it drives.
    pub engine: EngineOptions,
    /// Of one credential.
    pub requests_per_second: Option<NonZeroU32>,
    pub quotas: QuotaOptions,
    pub max_definitions_per_workspace: usize,
    pub sealing_keys: Vec<SealingKey>,
    /// Modules beside the one that is always there.
    pub modules: Vec<ModuleOptions>,
    pub entity_tables: EntityTables,
    /// Can other nodes reach it?
    pub is_advertised: bool,
    pub action_origins: ActionOrigins,
    /// Identity providers; their public address is filled in.
    pub people: Option<PeopleOptions>,
    pub longest_credential_life: Option<Duration>,
}

impl Default for Setup {
    fn default() -> Self {
        let rules = Rules { allow_loopback: true, ..Rules::default() };
        let clock = Arc::new(SystemClock::new());
        Setup {
            services: HostServices::new(),
            rules,
            keys: Policy::default(),
            clock,
            engine: EngineOptions { poll_every: Duration::from_millis(100), ..EngineOptions::default() },
            requests_per_second: None,
            quotas: QuotaOptions::default(),
            max_definitions_per_workspace: MAX_DEFINITIONS_PER_WORKSPACE,
            sealing_keys: Vec::new(),
            modules: vec![ModuleOptions::new("billing")],
            entity_tables: EntityTables::default(),
            is_advertised: false,
            action_origins: ActionOrigins::default(),
            people: None,
            longest_credential_life: None,
        }
    }
}

impl TestServer {
    /// On the memory store.
    pub async fn memory() -> Self {
        Self::memory_with(Setup::default()).await
    }

    /// On the memory store, set up by the test.
    pub async fn memory_with(setup: Setup) -> Self {
        Self::over(Arc::new(MemoryStore::new(setup.clock.clone())), StoreKind::Memory, setup).await
    }

    /// On the memory store, at a time that the test moves on.
    pub async fn timed() -> (Self, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        (Self::memory_with(Setup { clock: clock.clone(), ..Setup::default() }).await, clock)
    }

    /// On a memory store whose time the test moves.
    pub async fn memory_at(clock: Arc<dyn Clock>) -> Self {
        Self::over(Arc::new(MemoryStore::new(clock)), StoreKind::Memory, Setup::default()).await
    }

    /// On a memory store that fails and waits as the test says.
    pub async fn planned() -> (Self, Arc<PlannedStore>) {
        Self::planned_with(Setup::default()).await
    }

    /// On such a store, set up by the test.
    pub async fn planned_with(setup: Setup) -> (Self, Arc<PlannedStore>) {
        let store = PlannedStore::over(Arc::new(MemoryStore::new(setup.clock.clone())));
        (Self::over(store.clone(), StoreKind::Memory, setup).await, store)
    }

    /// On a SQLite file.
    pub async fn sqlite() -> Self {
        Self::sqlite_with(HostServices::new()).await
    }

    /// On a SQLite file, with the test's own host services.
    pub async fn sqlite_with(services: HostServices) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::open(folder.path().join("hapax.db"), SqliteOptions::default()).await.unwrap();
        Self::over(Arc::new(store), StoreKind::Sqlite(folder), Setup { services, ..Setup::default() }).await
    }

    /// On a PostgreSQL database.
    pub async fn postgres() -> Self {
        Self::postgres_with(HostServices::new()).await
    }

    /// On a PostgreSQL database, with the test's own host services.
    pub async fn postgres_with(services: HostServices) -> Self {
        let database = Database::empty().await.unwrap();
        let store = PostgresStore::open(&database.url(), PostgresOptions::default()).await.unwrap();
        Self::over(Arc::new(store), StoreKind::Postgres(database), Setup { services, ..Setup::default() })
            .await
    }

    /// On a PostgreSQL database, set up by the test.
    pub async fn postgres_set_up(setup: Setup) -> Self {
        let database = Database::empty().await.unwrap();
        let store = PostgresStore::open(&database.url(), PostgresOptions::default()).await.unwrap();
        Self::over(Arc::new(store), StoreKind::Postgres(database), setup).await
    }

    /// A node of an existing PostgreSQL database.
    pub async fn joining(database: &str, setup: Setup) -> Self {
        let store = PostgresStore::open(database, PostgresOptions::default()).await.unwrap();
        Self::launch(Arc::new(store), StoreKind::Elsewhere, setup).await
    }

    /// Where the PostgreSQL database is.
    pub fn database_url(&self) -> String {
        let StoreKind::Postgres(database) = &self.kept else { panic!("only PostgreSQL has an address") };
        database.url()
    }

    /// Another node over the same PostgreSQL database, with the same keys.
    pub async fn another_node(&self) -> Self {
        self.another_node_with(HostServices::new()).await
    }

    /// The same, with the test's own host services.
    pub async fn another_node_with(&self, services: HostServices) -> Self {
        let StoreKind::Postgres(database) = &self.kept else { panic!("only PostgreSQL is shared") };
        let store = PostgresStore::open(&database.url(), PostgresOptions::default()).await.unwrap();
        let setup = Setup { services, ..Setup::default() };
        let mut node = Self::launch(Arc::new(store), StoreKind::Elsewhere, setup).await;
        node.admin = self.admin.clone();
        node
    }

    /// Over a store, with the host services of `setup` and `echo` and `fail` beside them.
    pub async fn over(store: Arc<dyn Store>, kept: StoreKind, setup: Setup) -> Self {
        let mut server = Self::launch(store, kept, setup).await;
        server.admin = server.key("acme", Role::Admin).await;
        server
    }

    /// Why a server over this store does not start.
    pub async fn try_launch(store: Arc<dyn Store>, setup: Setup) -> Result<Server, LaunchError> {
        let (engine, services, options, _) = Self::parts(store, setup, None);
        Server::launch(engine, services, options).await
    }

    fn parts(
        store: Arc<dyn Store>,
        setup: Setup,
        advertise_url: Option<NodeUrl>,
    ) -> (Engine, HostServices, ServerOptions, Drain) {
        let engine = Engine::launch(store.clone(), setup.clock, setup.engine).unwrap();
        let outgoing = Outgoing::new(setup.rules).unwrap();
        let services = setup
            .services
            .task("echo", |call| async move { Ok(call.input) })
            .task("fail", |_| async { Err(hapax_engine::Failure::permanent("it always fails")) })
            .http(Arc::new(GuardedCaller::new(outgoing.clone())));
        engine
            .register_action(
                "echo",
                |call: StepCall| async move { ActionAnswer::done(call.input::<Value>()?) },
            )
            .unwrap();
        let (drain, draining) = drain();
        let options = ServerOptions {
            keys: setup.keys,
            draining,
            grace: Duration::from_secs(5),
            outgoing: outgoing.into(),
            requests_per_second: setup.requests_per_second,
            tls: None,
            quotas: setup.quotas,
            max_definitions: MAX_DEFINITIONS,
            max_definitions_per_workspace: setup.max_definitions_per_workspace,
            people: setup.people,
            longest_credential_life: setup.longest_credential_life,
            console: true,
            advertise_url,
            settings: vec![("store".into(), "memory".into())],
            action_origins: setup.action_origins,
            sealing_keys: setup.sealing_keys,
            modules: setup.modules,
            entity_tables: setup.entity_tables,
        };
        (engine, services, options, drain)
    }

    /// The same server, asked through another listener.
    pub async fn also_listening(&self, options: ListenOptions) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = self.server.clone();
        tokio::spawn(async move { serving.serve(listener, options).await });
        TestServer {
            server: self.server.clone(),
            engine: self.engine.clone(),
            store: self.store.clone(),
            address,
            url: format!("http://{address}"),
            http: self.http.clone(),
            admin: self.admin.clone(),
            drain: drain().0,
            kept: StoreKind::Elsewhere,
        }
    }

    async fn launch(store: Arc<dyn Store>, kept: StoreKind, mut setup: Setup) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        if let Some(people) = &mut setup.people {
            people.public_url = format!("http://{address}");
        }
        let advertise_url = setup.is_advertised.then(|| NodeUrl::new(&format!("http://{address}")).unwrap());
        let (engine, services, options, drain) = Self::parts(store.clone(), setup, advertise_url);
        let server = Server::launch(engine.clone(), services, options).await.unwrap();
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener, ListenOptions::default()).await });
        let http = client().pool_max_idle_per_host(64).build().unwrap();
        let url = format!("http://{address}");
        TestServer { server, engine, store, address, url, http, admin: String::new(), drain, kept }
    }

    /// A key of this role in this workspace, made if it is not there.
    pub async fn key(&self, workspace: &str, role: Role) -> String {
        let workspace = WorkspaceId::new(workspace).unwrap();
        let by = Actor::new("test", Rank::Manager);
        self.server.directory().ensure_workspace(&workspace, None, by.clone()).await.unwrap();
        let new = NewCredential::new(format!("{} of {workspace}", role.as_str()), role);
        let (_, key) = self.server.directory().create_credential(&workspace, new, by).await.unwrap();
        key.reveal().to_owned()
    }

    /// A key of this role in `acme` that asks as this requester.
    pub async fn key_for(&self, requester: &str, role: Role) -> String {
        let by = Actor::new("test", Rank::Manager);
        let new = NewCredential {
            requester: Some(requester.into()),
            ..NewCredential::new(format!("{requester}'s"), role)
        };
        let workspace = WorkspaceId::new("acme").unwrap();
        let (_, key) = self.server.directory().create_credential(&workspace, new, by).await.unwrap();
        key.reveal().to_owned()
    }

    /// Uploads the document that gives back its input; answers its id.
    pub async fn echo(&self) -> String {
        let document = json!({
            "name": "echo", "version": 1,
            "steps": [{ "name": "say", "type": "task", "task": "echo", "input": { "said": "{{ input }}" } }],
        });
        self.upload(&document).await
    }

    /// Uploads a document; answers its id.
    pub async fn upload(&self, document: &Value) -> String {
        let answer = self.post("/api/v1/workflow-definitions", document, &[]).await;
        assert!(
            matches!(answer.status, 200 | 201),
            "{} {}",
            answer.status,
            String::from_utf8_lossy(&answer.bytes)
        );
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Sends JSON as the admin of `acme`, with more headers.
    pub async fn post(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
        self.send("POST", path, Some(body.to_string()), &self.admin, headers).await
    }

    /// Changes some fields as the admin of `acme`, with more headers.
    pub async fn patch(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
        self.send("PATCH", path, Some(body.to_string()), &self.admin, headers).await
    }

    /// Replaces as the admin of `acme`, with more headers.
    pub async fn put(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
        self.send("PUT", path, Some(body.to_string()), &self.admin, headers).await
    }

    /// Deletes as the admin of `acme`, with more headers.
    pub async fn delete(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("DELETE", path, None, &self.admin, headers).await
    }

    /// Reads as the admin of `acme`.
    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, &self.admin, &[]).await
    }

    /// Sends anything as anybody; an empty key is none.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        key: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        self.send_by(&self.http, method, path, body, key, headers).await
    }

    /// As [`TestServer::send`], by this client.
    pub async fn send_by(
        &self,
        client: &reqwest::Client,
        method: &str,
        path: &str,
        body: Option<String>,
        key: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = client.request(method.parse().unwrap(), format!("{}{path}", self.url));
        if !key.is_empty() {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                request = request.header("content-type", "application/json");
            }
            request = request.body(body);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let answer = Answer { status, headers, bytes: response.bytes().await.unwrap().to_vec() };
        described::check(method, path, &answer);
        answer
    }

    /// Starts a run of `definition`; answers its id.
    pub async fn start(&self, definition: &str, input: Value) -> String {
        let answer = self
            .post("/api/v1/workflow-runs", &json!({"definitionId": definition, "input": input}), &[])
            .await;
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.bytes));
        answer.json()["run"]["id"].as_str().unwrap().to_owned()
    }

    /// Waits for a run to end; answers the run.
    pub async fn end(&self, run: &str) -> Value {
        let wait = [("prefer", "wait=30")];
        self.send("GET", &format!("/api/v1/workflow-runs/{run}/result"), None, &self.admin, &wait).await;
        self.get(&format!("/api/v1/workflow-runs/{run}")).await.json()
    }

    /// Where the SQLite file is.
    pub fn folder(&self) -> &std::path::Path {
        let StoreKind::Sqlite(folder) = &self.kept else { panic!("only SQLite has a folder") };
        folder.path()
    }

    /// Waits until a run has this status; answers the run with its steps.
    pub async fn until(&self, run: &str, status: &str) -> Value {
        let path = format!("/api/v1/workflow-runs/{run}");
        self.until_shown(&path, |shown| shown["run"]["status"] == status).await
    }

    /// Looks until what is shown there is as the test wants it.
    pub async fn until_shown(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let since = std::time::Instant::now();
        loop {
            let shown = self.get(path).await.json();
            if is_so(&shown) {
                return shown;
            }
            assert!(since.elapsed() < PATIENCE, "{path} is still {shown}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A client at another address of this machine: what is counted by address is counted anew.
    pub fn client_at(&self, last: u8) -> reqwest::Client {
        let address = std::net::IpAddr::from([127, 0, 77, last]);
        client().local_address(address).build().unwrap()
    }

    /// Tells the server to stop.
    pub fn stop(&self) {
        self.drain.begin();
    }
}
