//! A server on a port of its own, and the command that talks to it.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hapax::clock::{Clock, SystemClock};
use hapax::model::{Actor, Role as Rank};
use hapax::store::Store;
use hapax::{ActionAnswer, Engine, EngineOptions, Failure, WorkspaceId, open_store};
use hapax_api::Role;
use hapax_documents::HostServices;
use hapax_outgoing::{Outgoing, Rules};
use hapax_server::directory::NewCredential;
use hapax_server::drain::{Drain, drain};
use hapax_server::listen::ListenOptions;
use hapax_server::{ModuleOptions, Server, ServerOptions};
use serde_json::Value;
use tokio::process::Command;

pub const ECHO: &str = r#"{"name":"echo","version":1,"steps":[{"name":"say","type":"task","task":"echo","input":{"said":"{{ input }}"}}]}"#;
pub const FAIL: &str = r#"{"name":"fail","version":1,"steps":[{"name":"try","type":"task","task":"fail"}]}"#;
pub const LISTEN: &str =
    r#"{"name":"listen","version":1,"steps":[{"name":"word","type":"signal","signal":"go"}]}"#;

pub struct TestServer {
    pub url: String,
    /// A key of the role admin in the workspace `acme`.
    pub admin: String,
    pub folder: tempfile::TempDir,
    pub store: Arc<dyn Store>,
    server: Server,
    _drain: Drain,
}

/// Result of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// The command, without what the environment of the test says.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(arguments).env_remove("HAPAX_STORE").env_remove("HAPAX_API_KEY").env_remove("HAPAX_SERVER");
    // The developer who runs the tests may have profiles.
    command.env_remove("HAPAX_PROFILE").env("XDG_CONFIG_HOME", "/nonexistent");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

pub async fn run(mut command: Command) -> Ran {
    let output = command.output().await.expect("it can be run");
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl TestServer {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let url = format!("sqlite:{}/hapax.db", folder.path().display());
        let store = open_store(&url, clock.clone()).await.unwrap();
        let options = EngineOptions { poll_every: Duration::from_millis(100), ..EngineOptions::default() };
        let engine = Engine::launch(store.clone(), clock, options).unwrap();
        let services = HostServices::new()
            .task("echo", |call| async move { Ok(call.input) })
            .task("fail", |_| async {
                Err(Failure::permanent("it always fails\u{1b}[2J\u{1b}]0;owned\u{7}"))
            })
            .task("busy", |_| async { Err(Failure::retryable("the line is busy")) })
            .task("lose", |_| async { Err(Failure::unknown("the answer was lost")) });
        engine
            .register_action("echo", |call| async move { ActionAnswer::done(call.input::<Value>()?) })
            .unwrap();
        engine
            .register_action("fail", |_| async { Err(Failure::permanent("the printer is out of paper")) })
            .unwrap();
        let (drain, draining) = drain();
        let rules = Rules { allow_loopback: true, ..Rules::default() };
        let options = ServerOptions {
            keys: Default::default(),
            draining,
            grace: Duration::from_secs(5),
            outgoing: Outgoing::new(rules).unwrap().into(),
            requests_per_second: None,
            max_definitions: hapax_server::limits::MAX_DEFINITIONS,
            people: None,
            longest_credential_life: None,
            advertise_url: None,
            console: true,
            settings: Vec::new(),
            action_origins: Default::default(),
            max_definitions_per_workspace: hapax_server::limits::MAX_DEFINITIONS_PER_WORKSPACE,
            sealing_keys: Vec::new(),
            modules: vec![ModuleOptions::new("billing")],
            tls: None,
            quotas: Default::default(),
            entity_tables: Default::default(),
        };
        let server = Server::launch(engine, services, options).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener, ListenOptions::default()).await });
        let mut server = TestServer { url, admin: String::new(), folder, store, server, _drain: drain };
        server.admin = server.key("acme", Role::Admin).await;
        server
    }

    /// The key that may set up the installation.
    pub async fn installer(&self) -> String {
        self.key(hapax_server::identity::INSTALLATION, Role::Admin).await
    }

    pub async fn key(&self, workspace: &str, role: Role) -> String {
        let workspace = WorkspaceId::new(workspace).unwrap();
        let by = Actor::new("test", Rank::Manager);
        let directory = self.server.directory();
        directory.ensure_workspace(&workspace, None, by.clone()).await.unwrap();
        let new = NewCredential::new(role.as_str(), role);
        directory.create_credential(&workspace, new, by).await.unwrap().1.reveal().to_owned()
    }

    pub fn command_as(&self, key: &str, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("HAPAX_SERVER", &self.url).env("HAPAX_API_KEY", key);
        command
    }

    /// Runs the command as the admin of `acme`.
    pub async fn hapax(&self, arguments: &[&str]) -> Ran {
        run(self.command_as(&self.admin, arguments)).await
    }

    /// Runs the command with another key.
    pub async fn hapax_as(&self, key: &str, arguments: &[&str]) -> Ran {
        run(self.command_as(key, arguments)).await
    }

    /// A file with this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Uploads a document; its id.
    pub async fn upload(&self, document: &str) -> String {
        let file = self.file("document.json", document);
        let id = self.hapax(&["apply", &file, "--json"]).await.ok().json()["id"].clone();
        id.as_str().unwrap().to_owned()
    }

    /// Starts a run of a document; its id.
    pub async fn begin(&self, document: &str, input: &str) -> String {
        let definition = self.upload(document).await;
        let started = self.hapax(&["start", &definition, "--input", input, "--json"]).await.ok().json();
        started["run"]["id"].as_str().unwrap().to_owned()
    }
}
