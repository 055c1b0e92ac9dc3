//! State shared by all routes.

use std::sync::Arc;

use hapax_engine::Engine;
use hapax_engine::store::{RequestKeyStore, Store};
use hapax_workers::Workers;

use crate::action_token::ActionTokens;
use crate::authenticate::Authenticator;
use crate::cursor::Cursors;
use crate::definitions::Definitions;
use crate::directory::Directory;
use crate::entities::Entities;
use crate::event_stream::Streams;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::options::ServerOptions;
use crate::pages::List;
use crate::people::People;
use crate::push_workers::PushWorkers;
use crate::quotas::Quotas;
use crate::rate_limit::{FailedAuth, RequestRate};
use crate::store_probe::StoreProbe;
use crate::webhooks::inbound::InboundWebhooks;
use crate::webhooks::outbound::Subscriptions;
use crate::worker_names::WorkerNames;

/// The server's parts, as handlers see them.
pub struct App {
    /// Drives runs and reads them.
    pub engine: Engine,
    /// Store of the server.
    pub store: Arc<dyn Store>,
    /// Workspaces and credentials.
    pub directory: Directory,
    /// Authenticates callers.
    pub authenticator: Authenticator,
    /// Identity providers, if people can sign in with one.
    pub(crate) people: Option<Arc<People>>,
    /// Rate limits of credentials.
    pub request_rate: RequestRate,
    /// What each workspace may take of this node.
    pub(crate) quotas: Quotas,
    /// Limits callers that sent an invalid settle token.
    pub strangers: FailedAuth,
    /// Uploaded workflow definitions.
    pub definitions: Arc<Definitions>,
    /// Outgoing webhook subscriptions.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Incoming webhooks.
    pub(crate) inbound: Arc<InboundWebhooks>,
    /// Workers that are connected to this node.
    pub(crate) workers: Arc<Workers>,
    /// Nodes that have worker sessions.
    pub(crate) nodes: Arc<Nodes>,
    /// Functions that work is sent to.
    pub(crate) push_workers: Arc<PushWorkers>,
    /// Names that workers have offered.
    pub(crate) worker_names: Arc<WorkerNames>,
    /// Entity workflows.
    pub(crate) entities: Arc<Entities>,
    /// Signs cursors.
    pub cursors: Cursors,
    /// Signs action tokens.
    pub(crate) action_tokens: ActionTokens,
    /// Live streams that are open.
    pub streams: Streams,
    /// Probe that checks if the store takes writes.
    pub(crate) store_probe: Arc<StoreProbe>,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
    /// Options of the server.
    pub options: ServerOptions,
}

impl App {
    /// The engine, with the caller as the requester.
    pub fn engine_for(&self, identity: &Identity) -> Engine {
        self.engine.workspace(identity.workspace.clone())
    }

    /// A paged list for one caller.
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
