//! A server, from launch to shutdown.

use std::sync::{Arc, Weak};

use hapax_api::{Problem, Role};
use hapax_documents::HostServices;
use hapax_engine::Engine;
use hapax_engine::model::{Actor, Role as Rank, Timestamp, WorkspaceId};
use hapax_engine::store::{Store, StoreError};
use hapax_http_idempotency::{IdempotencyLayer, LayerError, Policy};
use hapax_workers::Workers;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::action_token::ActionTokens;
use crate::app::App;
use crate::authenticate::Authenticator;
use crate::catalog_watcher::{keep_learning, learn_changes};
use crate::console::ConsoleHost;
use crate::credentials::key::ApiKey;
use crate::cursor::Cursors;
use crate::definitions::{DefinitionLimits, Definitions};
use crate::directory::{Directory, NewCredential};
use crate::drain::drain;
use crate::entities::Entities;
use crate::event_stream::Streams;
use crate::identity::INSTALLATION;
use crate::installation_secret::installation_secret;
use crate::limits::{MAX_BODY_BYTES, MAX_CLOSING_TIME, MAX_WIND_DOWN, MIN_CLOSING_TIME};
use crate::listen::{Drained, ListenOptions, serve};
use crate::metrics::{KeysObserved, Metrics};
use crate::nodes::Nodes;
use crate::options::ServerOptions;
use crate::people::People;
use crate::people::settings::UnusablePeople;
use crate::problems::ServerProblems;
use crate::push_workers::PushWorkers;
use crate::rate_limit::{FailedAuth, RequestRate};
use crate::refused_sign_ins::RefusedSignIns;
use crate::routes::{metrics_router, router, templates};
use crate::sealing::{Sealer, SealingKey};
use crate::store_probe::StoreProbe;
use crate::webhooks::inbound::InboundWebhooks;
use crate::webhooks::outbound::Subscriptions;
use crate::worker_calls::WorkerCalls;
use crate::worker_names::WorkerNames;

/// Error of a launch.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The store has no catalog.
    #[error("this store keeps no definitions and credentials; use the SQLite or the PostgreSQL store")]
    NoCatalog,
    /// The policy for request keys is invalid.
    #[error(transparent)]
    Keys(#[from] LayerError),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine rejected the setup: a claim without a janitor, or an invalid module.
    #[error(transparent)]
    Engine(#[from] hapax_engine::Error),
    /// The identity providers cannot be used as they are set up.
    #[error(transparent)]
    People(#[from] UnusablePeople),
    /// The rules for outgoing requests cannot be used.
    #[error(transparent)]
    Outgoing(#[from] hapax_outgoing::InvalidRules),
    /// Stored setup could not be read or written.
    #[error("{0}")]
    Problem(Problem),
    /// The operating system provides no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandom(String),
}

impl From<Problem> for LaunchError {
    fn from(problem: Problem) -> Self {
        LaunchError::Problem(problem)
    }
}

/// Starts a background loop that lives as long as `this`.
fn keep<T, Fut>(
    engine: &Engine,
    name: &str,
    this: &Arc<T>,
    run: impl Fn(Weak<T>, Box<dyn Fn() + Send>) -> Fut + Send + 'static,
) where
    T: Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let this = Arc::downgrade(this);
    engine
        .background_loops()
        .spawn(name, move |reporter| run(this.clone(), Box::new(move || reporter.pass())));
}

/// A server over an engine. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    app: Arc<App>,
    keys: IdempotencyLayer,
    console: Option<Arc<ConsoleHost>>,
}

impl Server {
    /// Launches a server over `engine` and its store; `services` are the host services of documents.
    /// Reads all definitions.
    pub async fn launch(
        engine: Engine,
        services: HostServices,
        options: ServerOptions,
    ) -> Result<Self, LaunchError> {
        let store = engine.store();
        let directory = Directory::new(store.clone()).ok_or(LaunchError::NoCatalog)?;
        let metrics = Arc::new(Metrics::new(store.clone(), templates()));
        keep(&engine, "use of keys", &metrics, Metrics::keep_flushing);
        // The size limit is the same with and without a key.
        let policy = Policy { max_body_bytes: MAX_BODY_BYTES, ..options.keys.clone() };
        let keys = IdempotencyLayer::new(store.clone(), policy)?
            .refusing_with(ServerProblems)
            .observed_by(KeysObserved(metrics.clone()));
        let cursors = Cursors::new(installation_secret(&*store, "cursor-secret").await?);
        let action_tokens = ActionTokens::new(installation_secret(&*store, "action-token-secret").await?);
        let sealer = Arc::new(sealer_of(&*store, &options.sealing_keys).await?);
        // Before any run can be driven here, so that every end of a run is announced.
        let subscriptions =
            Subscriptions::new(engine.clone(), store.clone(), options.outgoing.clone(), sealer.clone());
        learn_changes(&*subscriptions).await?;
        keep(&engine, "catalog of subscriptions", &subscriptions, keep_learning);
        let nodes = Nodes::new(store.clone(), options.advertise_url.clone())?;
        learn_changes(&*nodes).await?;
        keep(&engine, "catalog of nodes", &nodes, keep_learning);
        let workers = Workers::new(engine.clone(), nodes.tag().clone());
        let worker_names = WorkerNames::new(workers.clone(), store.clone());
        learn_changes(&*worker_names).await?;
        keep(&engine, "catalog of worker names", &worker_names, keep_learning);
        let worker_calls = Arc::new(WorkerCalls::new(&worker_names));
        engine.set_actions_elsewhere(worker_calls.clone());
        let services = Arc::new(services.tasks_elsewhere(worker_calls));
        let limits = DefinitionLimits {
            per_workspace: options.max_definitions_per_workspace,
            in_all: options.max_definitions,
        };
        let definitions = Definitions::new(engine.clone(), store.clone(), services.clone(), limits);
        learn_changes(&*definitions).await?;
        keep(&engine, "catalog of definitions", &definitions, keep_learning);
        for module in options.modules_in_force() {
            engine.module(&module.name).janitor(module.every, module.stale_after)?;
        }
        let tables = options.entity_tables.clone();
        let entities = Entities::new(engine.clone(), store.clone(), services.clone(), tables);
        entities.receive_after_effects()?;
        learn_changes(&*entities).await?;
        // A claim without a janitor is detected now, not after a crash.
        engine.check_coverage().await?;
        keep(&engine, "catalog of entity workflows", &entities, keep_learning);
        let inbound = InboundWebhooks::new(
            engine.clone(),
            store.clone(),
            definitions.clone(),
            services,
            metrics.clone(),
        );
        learn_changes(&*inbound).await?;
        keep(&engine, "catalog of webhook sources", &inbound, keep_learning);
        keep(&engine, "unprocessed webhooks", &inbound, InboundWebhooks::keep_sweeping);
        let push_workers = PushWorkers::new(
            engine.background_loops().clone(),
            workers.clone(),
            worker_names.clone(),
            store.clone(),
            options.outgoing.clone(),
            sealer.clone(),
        );
        learn_changes(&*push_workers).await?;
        keep(&engine, "catalog of push workers", &push_workers, keep_learning);
        let people = match options.people.clone() {
            Some(people) => {
                people.check()?;
                let outgoing = options.outgoing.common();
                Some(Arc::new(People::new(people, outgoing, directory.clone(), sealer)?))
            }
            None => None,
        };
        let refused = Arc::new(RefusedSignIns::new(store.clone()));
        keep(&engine, "refused sign-ins", &refused, RefusedSignIns::keep_writing);
        let authenticator = Authenticator::new(directory.clone(), people.clone(), refused);
        let streams = Streams::default();
        let request_rate = RequestRate::per_second(options.requests_per_second);
        let strangers = FailedAuth::default();
        let store_probe = StoreProbe::new(store.clone());
        keep(&engine, "store probe", &store_probe, StoreProbe::keep_probing);
        let app = App {
            engine,
            store,
            store_probe,
            directory,
            authenticator,
            people,
            request_rate,
            strangers,
            definitions,
            inbound,
            workers,
            nodes,
            push_workers,
            worker_names,
            entities,
            subscriptions,
            cursors,
            action_tokens,
            streams,
            metrics,
            options,
        };
        let app = Arc::new(app);
        let console = app.options.console.then(|| Arc::new(ConsoleHost::new(app.clone())));
        Ok(Server { app, keys, console })
    }

    /// Workspaces and credentials.
    pub fn directory(&self) -> &Directory {
        &self.app.directory
    }

    /// The time, by the clock of the store.
    pub fn now(&self) -> Timestamp {
        self.app.store.now()
    }

    /// Workflow definitions.
    pub fn definitions(&self) -> &Definitions {
        &self.app.definitions
    }

    /// Processes stored webhooks at once, without waiting for the next sweep; returns how many.
    pub async fn sweep_webhooks(&self) -> Result<usize, Problem> {
        self.app.inbound.sweep().await
    }

    /// Probes the store now, without waiting for the next probe; returns true if it takes writes.
    pub async fn probe_store(&self) -> bool {
        self.app.store_probe.probe().await;
        self.app.store_probe.is_writable()
    }

    /// All routes, for a custom listener.
    pub fn router(&self) -> axum::Router {
        router(&self.app, &self.keys, self.console.as_ref())
    }

    /// Path and query of a link that signs in to the console with this key. It works once, for a short time. `None`
    /// without a console.
    pub fn console_link(&self, key: &ApiKey) -> Result<Option<String>, Problem> {
        self.console.as_ref().map(|console| console.link(key)).transpose()
    }

    /// Metrics only, without authentication: for a second listener that only the monitoring system
    /// can reach. They cover all workspaces, so check [`crate::exposure::check_exposure`] before
    /// listening beyond this machine.
    pub fn metrics_router(&self) -> axum::Router {
        metrics_router(&self.app)
    }

    /// Serves [`Server::metrics_router`] on `listener` until the shutdown signal.
    pub async fn serve_metrics(&self, listener: TcpListener, listen: ListenOptions) -> Drained {
        serve(listener, self.metrics_router(), listen, self.app.options.draining.clone()).await
    }

    /// Creates an admin credential of the installation, if there is no credential at all; returns
    /// its key this once.
    pub async fn bootstrap(&self) -> Result<Option<ApiKey>, Problem> {
        if !self.app.directory.is_empty().await? {
            return Ok(None);
        }
        let workspace = WorkspaceId::new(INSTALLATION).expect("a valid literal");
        let by = Actor::new("first start", Rank::Manager);
        self.app.directory.ensure_workspace(&workspace, None, by.clone()).await?;
        let new = NewCredential::new("first admin", Role::Admin);
        let (_, key) = self.app.directory.create_credential(&workspace, new, by).await?;
        Ok(Some(key))
    }

    /// Serves `listener` until the shutdown signal, then stops gracefully: requests, operations
    /// under a key, runs. They share one drain time, counted from the signal. Work that has not
    /// ended by then is cut, and other nodes take it over.
    pub async fn serve(
        &self,
        listener: TcpListener,
        mut listen: ListenOptions,
    ) -> Result<Drained, hapax_engine::Error> {
        let App { engine, metrics, options, workers, nodes, .. } = &*self.app;
        let grace = options.grace;
        keep(engine, "published address", nodes, Nodes::keep_published);
        // Reserved for the last writes: ends of requests, released leases, counts.
        let closing = (grace / 10).min(MAX_CLOSING_TIME);
        listen.drain_timeout = listen.drain_timeout.min(grace - closing);
        let (is_empty, mut emptied) = watch::channel(false);
        // Workers hand in what they have under way over connections, so those stay open a moment longer.
        let (stop_listening, stopped_listening) = drain();
        let worker_sessions = async {
            let since = options.draining.clone().begun().await;
            workers.wind_down((grace / 4).min(MAX_WIND_DOWN)).await;
            nodes.withdraw().await;
            stop_listening.begin_since(since);
        };
        let connections = async {
            let drained = serve(listener, self.router(), listen, stopped_listening).await;
            is_empty.send_replace(true);
            drained
        };
        let runs = async {
            options.draining.clone().begun().await;
            let deadline = Instant::now() + grace;
            // Requests in flight may start new work for a while, so that most of them end as usual.
            let _ = timeout(grace / 3, emptied.wait_for(|is_empty| *is_empty)).await;
            let left = (deadline - closing).saturating_duration_since(Instant::now());
            let _ = timeout(left, engine.drain(left)).await;
            deadline
        };
        let (drained, deadline, ()) = tokio::join!(connections, runs, worker_sessions);
        // Operations continue without their callers, and counts are written.
        let rest = timeout_at(deadline - closing, self.keys.drain()).await;
        if !matches!(rest, Ok(Ok(()))) {
            tracing::warn!("some operations did not end in time; a retry under their keys resumes them");
        }
        let closing = async {
            metrics.flush().await;
            engine.close().await
        };
        // A store that does not answer is left as after a crash.
        match timeout_at(deadline.max(Instant::now() + MIN_CLOSING_TIME), closing).await {
            Ok(closed) => closed?,
            Err(_) => {
                tracing::warn!("the store was not closed in time; unreleased leases expire")
            }
        }
        Ok(drained)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("app", &self.app).finish_non_exhaustive()
    }
}

/// Seals with the operator's newest key, if there is one; opens with all of them and with the key
/// in the store.
async fn sealer_of(store: &dyn Store, keys: &[SealingKey]) -> Result<Sealer, LaunchError> {
    let own = installation_secret(store, "sealing-secret").await?;
    let own = SealingKey::from_secret(&own).expect("it is long enough");
    let mut keys = keys.iter().cloned().chain([own]);
    let newest = keys.next().expect("there is at least our own");
    Ok(Sealer::new(newest, keys.collect()))
}
