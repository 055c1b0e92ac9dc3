//! The server that is measured, and beside it, behind the same accept loop, a handler that does nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::routing::post;
use hapax::model::Name;
use hapax::{Actor, Engine, Role as Rank, WorkspaceId};
use hapax_api::Role;
use hapax_server::directory::NewCredential;
use hapax_server::drain::{Drain, drain};
use hapax_server::identity::{Acting, Identity};
use hapax_server::listen::{ListenOptions, serve};
use hapax_server::uploaded::Uploaded;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::client::{Answer, Connections, Key, RUNS_PATH, RequestBody};
use crate::bench::load::{KeySeries, Keys};
use crate::serve::assemble::assemble;
use crate::serve::settings::{ServeOptions, Settings};

/// The definition that is run, on both sides.
pub(in crate::bench) const WORKFLOW: &str = "bench-http";
pub(in crate::bench) const WORKFLOW_VERSION: u32 = 1;
const DOCUMENT: &str = r#"{
  "name": "bench-http",
  "version": 1,
  "steps": [{ "name": "look", "type": "task", "task": "echo", "input": { "received": "{{ input }}" } }]
}"#;
const WORKSPACE: &str = "bench";
/// How long the credential of a measurement counts, for a store that is kept.
const CREDENTIAL_LIVES_FOR: Duration = Duration::from_secs(24 * 3600);

/// Both servers.
pub(in crate::bench) struct Served {
    address: SocketAddr,
    bare_address: SocketAddr,
    authorization: String,
    definition: String,
    engine: Engine,
    drain: Drain,
    serving: JoinHandle<Result<()>>,
    serving_bare: JoinHandle<()>,
}

impl Served {
    pub(in crate::bench) async fn start(store: &str) -> Result<Self> {
        let (drain, draining) = drain();
        let settings = Settings::gather(ServeOptions::default())?;
        let assembly = assemble(store, &settings, Vec::new(), draining.clone()).await?;
        let workspace = WorkspaceId::new(WORKSPACE)?;
        let engine = assembly.engine.workspace(workspace.clone());
        let by = Actor::new("hapax bench", Rank::Manager);
        let directory = assembly.server.directory();
        directory.ensure_workspace(&workspace, None, by.clone()).await?;
        let new = NewCredential {
            lives_for: Some(CREDENTIAL_LIVES_FOR),
            ..NewCredential::new("hapax bench", Role::Admin)
        };
        let (_, key) = directory.create_credential(&workspace, new, by).await?;
        let authorization = format!("Bearer {}", key.reveal());
        let identity = Identity {
            workspace,
            credential: Name::new("credential id", "hapax-bench")?,
            name: "hapax bench".into(),
            role: Role::Admin,
            requester: None,
            routes: Vec::new(),
            sees_payloads: true,
            may_offer: None,
            person: None,
            acts_for: None,
            ends_at: None,
        };
        let (definition, _) = assembly
            .server
            .definitions()
            .upload(&Acting::locally(identity), Uploaded::json(DOCUMENT))
            .await?;

        let (listener, address) = listen().await?;
        let options = settings.listen_options();
        let serving = tokio::spawn(async move {
            assembly.server.serve(listener, options).await?;
            Ok(())
        });
        let asking = RequestBody {
            authorization: authorization.clone(),
            definition: definition.id.clone(),
            key: Key::InBody(Arc::new(KeySeries::new(Keys::Random))),
            expected: Answer::Created,
        };
        let answer = Connections::open(address, 1).await?.ask_once(&asking).await?;
        let (listener, bare_address) = listen().await?;
        let serving_bare = tokio::spawn(async move {
            serve(listener, bare(answer.into()), ListenOptions::default(), draining).await;
        });
        Ok(Served {
            address,
            bare_address,
            authorization,
            definition: definition.id,
            engine,
            drain,
            serving,
            serving_bare,
        })
    }

    pub(in crate::bench) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(in crate::bench) fn bare_address(&self) -> SocketAddr {
        self.bare_address
    }

    pub(in crate::bench) fn authorization(&self) -> String {
        self.authorization.clone()
    }

    pub(in crate::bench) fn definition(&self) -> &str {
        &self.definition
    }

    /// The engine under the server, in the workspace of the requests.
    pub(in crate::bench) fn engine(&self) -> Engine {
        self.engine.clone()
    }

    pub(in crate::bench) async fn stop(self) -> Result<()> {
        self.drain.begin();
        self.serving_bare.await?;
        self.serving.await?
    }
}

async fn listen() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Reads the request, and answers what a created run looks like.
fn bare(answer: Bytes) -> Router {
    let handler = move |_body: Bytes| {
        let answer = answer.clone();
        async move { ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], answer) }
    };
    Router::new().route(RUNS_PATH, post(handler))
}
