//! What all routes share.

use std::sync::Arc;

use hapax_engine::Engine;
use hapax_engine::store::{RequestKeyStore, Store};
use hapax_workers::Workers;

use crate::authenticate::Authenticator;
use crate::cursor::Cursors;
use crate::definitions::Definitions;
use crate::directory::Directory;
use crate::entities::Entities;
use crate::event_stream::Streams;
use crate::hooks::Hooks;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::pages::List;
use crate::rate_limit::{FailedAuth, RequestRate};
use crate::store_probe::StoreProbe;
use crate::subscriptions::Subscriptions;
use crate::worker_names::WorkerNames;

/// The server's parts, as handlers see them.
pub struct App {
    /// Drives runs and answers about them.
    pub engine: Engine,
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Who there is.
    pub directory: Directory,
    /// Tells callers apart.
    pub authenticator: Authenticator,
    /// How often credentials may ask.
    pub request_rate: RequestRate,
    /// Those who came with a token that settles nothing.
    pub strangers: FailedAuth,
    /// Documents that can be run.
    pub definitions: Arc<Definitions>,
    /// Who is told by webhook.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Webhooks that come in.
    pub(crate) hooks: Arc<Hooks>,
    /// Workers that are connected to this node.
    pub(crate) workers: Arc<Workers>,
    /// Names that workers have offered.
    pub(crate) worker_names: Arc<WorkerNames>,
    /// Entity workflows.
    pub(crate) entities: Arc<Entities>,
    /// Signs cursors.
    pub cursors: Cursors,
    /// Live streams that are open.
    pub streams: Streams,
    /// Whether the store takes writes.
    pub(crate) store_probe: Arc<StoreProbe>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How it was set up.
    pub options: ServerOptions,
}

impl App {
    /// The engine, speaking for whoever asks.
    pub fn engine_for(&self, identity: &Identity) -> Engine {
        self.engine.workspace(identity.workspace.clone())
    }

    /// A list that is read page by page, by whoever asks.
    pub(crate) fn list<'a>(&'a self, identity: &'a Identity, route: &'a str, filter: &'a str) -> List<'a> {
        List { cursors: &self.cursors, workspace: identity.workspace.as_str(), route, filter }
    }

    /// Keys of requests.
    pub fn request_key_store(&self) -> &dyn RequestKeyStore {
        self.store.request_key_store().expect("looked at when the server was made")
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("options", &self.options).finish_non_exhaustive()
    }
}
