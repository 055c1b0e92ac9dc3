//! A server from its parts to its end.

use std::sync::Arc;

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

use crate::app::App;
use crate::authenticate::Authenticator;
use crate::catalog_watcher::{keep_learning, learn_changes};
use crate::credentials::key::ApiKey;
use crate::cursor::Cursors;
use crate::definitions::{DefinitionLimits, Definitions};
use crate::directory::{Directory, NewCredential};
use crate::entities::Entities;
use crate::event_stream::Streams;
use crate::hooks::Hooks;
use crate::identity::INSTALLATION;
use crate::installation_secret::installation_secret;
use crate::limits::{MAX_BODY_BYTES, MAX_CLOSING_TIME, MIN_CLOSING_TIME};
use crate::listen::{Drained, ListenOptions, serve};
use crate::metrics::{KeysObserved, Metrics};
use crate::options::ServerOptions;
use crate::problems::ServerProblems;
use crate::rate_limit::{FailedAuth, RequestRate};
use crate::routes::{metrics_router, router, templates};
use crate::sealing::{Sealer, SealingKey};
use crate::store_probe::StoreProbe;
use crate::subscriptions::Subscriptions;
use crate::worker_calls::WorkerCalls;
use crate::worker_names::WorkerNames;

/// Why a server cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The store has no place for what a server keeps.
    #[error("this store keeps no definitions and credentials; use the SQLite or the PostgreSQL store")]
    NoCatalog,
    /// The promise about request keys cannot be kept.
    #[error(transparent)]
    Keys(#[from] LayerError),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine would not do it: a claim that no janitor covers, a module that cannot be.
    #[error(transparent)]
    Engine(#[from] hapax_engine::Error),
    /// Something that is kept could not be read or written.
    #[error("{0}")]
    Problem(Problem),
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandom(String),
}

impl From<Problem> for LaunchError {
    fn from(problem: Problem) -> Self {
        LaunchError::Problem(problem)
    }
}

/// A server over an engine. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    app: Arc<App>,
    keys: IdempotencyLayer,
}

impl Server {
    /// Makes a server over `engine` and its store; `hands` do what documents ask for. Takes in all definitions there are.
    pub async fn launch(
        engine: Engine,
        hands: HostServices,
        options: ServerOptions,
    ) -> Result<Self, LaunchError> {
        let store = engine.store();
        let directory = Directory::new(store.clone()).ok_or(LaunchError::NoCatalog)?;
        let metrics = Arc::new(Metrics::new(store.clone(), templates()));
        tokio::spawn(Metrics::keep_flushing(Arc::downgrade(&metrics)));
        // What is taken without a key is taken with one.
        let policy = Policy { max_body_bytes: MAX_BODY_BYTES, ..options.keys.clone() };
        let keys = IdempotencyLayer::new(store.clone(), policy)?
            .refusing_with(ServerProblems)
            .observed_by(KeysObserved(metrics.clone()));
        let cursors = Cursors::new(installation_secret(&*store, "cursor-secret").await?);
        let sealer = sealer(&*store, &options.sealing_keys).await?;
        // Before any run can be driven here, so that none ends untold.
        let subscriptions =
            Subscriptions::new(engine.clone(), store.clone(), options.outgoing.clone(), sealer);
        learn_changes(&*subscriptions).await?;
        tokio::spawn(keep_learning(Arc::downgrade(&subscriptions)));
        let workers = Workers::new(engine.clone());
        let worker_names = WorkerNames::new(workers.clone(), store.clone());
        learn_changes(&*worker_names).await?;
        tokio::spawn(keep_learning(Arc::downgrade(&worker_names)));
        let worker_calls = Arc::new(WorkerCalls::new(&worker_names));
        engine.set_actions_elsewhere(worker_calls.clone());
        let hands = Arc::new(hands.tasks_elsewhere(worker_calls));
        let limits = DefinitionLimits {
            per_workspace: options.max_definitions_per_workspace,
            in_all: options.max_definitions,
        };
        let definitions = Definitions::new(engine.clone(), store.clone(), hands.clone(), limits);
        learn_changes(&*definitions).await?;
        tokio::spawn(keep_learning(Arc::downgrade(&definitions)));
        for module in options.modules_in_force() {
            engine.module(&module.name).janitor(module.every, module.stale_after)?;
        }
        let tables = options.entity_tables.clone();
        let entities = Entities::new(engine.clone(), store.clone(), hands.clone(), tables);
        entities.receive_after_effects()?;
        learn_changes(&*entities).await?;
        // A claim that nobody would free after a crash is found out now, not after the crash.
        engine.check_coverage().await?;
        tokio::spawn(keep_learning(Arc::downgrade(&entities)));
        let hooks = Hooks::new(engine.clone(), store.clone(), definitions.clone(), hands, metrics.clone());
        learn_changes(&*hooks).await?;
        tokio::spawn(keep_learning(Arc::downgrade(&hooks)));
        tokio::spawn(Hooks::keep_sweeping(Arc::downgrade(&hooks)));
        let authenticator = Authenticator::new(directory.clone());
        let streams = Streams::default();
        let request_rate = RequestRate::per_second(options.requests_per_second);
        let strangers = FailedAuth::default();
        let store_probe = StoreProbe::new(store.clone());
        tokio::spawn(StoreProbe::keep_probing(Arc::downgrade(&store_probe)));
        let app = App {
            engine,
            store,
            store_probe,
            directory,
            authenticator,
            request_rate,
            strangers,
            definitions,
            hooks,
            workers,
            worker_names,
            entities,
            subscriptions,
            cursors,
            streams,
            metrics,
            options,
        };
        Ok(Server { app: Arc::new(app), keys })
    }

    /// Who there is.
    pub fn directory(&self) -> &Directory {
        &self.app.directory
    }

    /// The time, by the clock of the store.
    pub fn now(&self) -> Timestamp {
        self.app.store.now()
    }

    /// Documents that can be run.
    pub fn definitions(&self) -> &Definitions {
        &self.app.definitions
    }

    /// Takes up webhooks that were made durable and lie unprocessed, without waiting for the next look; answers how many were processed.
    pub async fn sweep_webhooks(&self) -> Result<usize, Problem> {
        self.app.hooks.sweep().await
    }

    /// Tries a write now, without waiting for the next try; answers whether the store takes writes.
    pub async fn probe_store(&self) -> bool {
        self.app.store_probe.probe().await;
        self.app.store_probe.is_writable()
    }

    /// All routes, for a listener of one's own.
    pub fn router(&self) -> axum::Router {
        router(&self.app, &self.keys)
    }

    /// What is counted alone, without authentication: for a second listener that only those who watch can reach. It tells about all
    /// workspaces, so look at [`crate::exposure::check_exposure`] before it listens anywhere but on this machine.
    pub fn metrics_router(&self) -> axum::Router {
        metrics_router(&self.app)
    }

    /// Serves [`Server::metrics_router`] on `listener` until the word to stop is given.
    pub async fn serve_metrics(&self, listener: TcpListener, listen: ListenOptions) -> Drained {
        serve(listener, self.metrics_router(), listen, self.app.options.draining.clone()).await
    }

    /// Makes a credential that may set up the installation, if there is no credential at all; its key is told this once.
    pub async fn bootstrap(&self) -> Result<Option<ApiKey>, Problem> {
        if !self.app.directory.is_empty().await? {
            return Ok(None);
        }
        let workspace = WorkspaceId::new(INSTALLATION).expect("a valid literal");
        let by = Actor::new("first start", Rank::Manager);
        self.app.directory.ensure_workspace(&workspace, None, by.clone()).await?;
        let new =
            NewCredential { name: "first admin".into(), role: Role::Admin, requester: None, lives_for: None };
        let (_, key) = self.app.directory.create_credential(&workspace, new, by).await?;
        Ok(Some(key))
    }

    /// Serves `listener` until the word to stop is given, then ends in good order: requests, operations under a key, runs. All of that has one
    /// grace, counted from the word; what has not ended by then is cut, and taken up elsewhere.
    pub async fn serve(
        &self,
        listener: TcpListener,
        mut listen: ListenOptions,
    ) -> Result<Drained, hapax_engine::Error> {
        let App { engine, metrics, options, .. } = &*self.app;
        let grace = options.grace;
        // Kept for what is written last: ends of requests, leases given back, counts.
        let closing = (grace / 10).min(MAX_CLOSING_TIME);
        listen.drain_timeout = listen.drain_timeout.min(grace - closing);
        let (is_empty, mut emptied) = watch::channel(false);
        let connections = async {
            let drained = serve(listener, self.router(), listen, options.draining.clone()).await;
            is_empty.send_replace(true);
            drained
        };
        let runs = async {
            options.draining.clone().begun().await;
            let deadline = Instant::now() + grace;
            // Requests in flight may begin something for a while, so that most of them end as if nothing was about to stop.
            let _ = timeout(grace / 3, emptied.wait_for(|is_empty| *is_empty)).await;
            let left = (deadline - closing).saturating_duration_since(Instant::now());
            let _ = timeout(left, engine.drain(left)).await;
            deadline
        };
        let (drained, deadline) = tokio::join!(connections, runs);
        // Operations go on without their callers, and what was counted is written.
        let rest = timeout_at(deadline - closing, self.keys.drain()).await;
        if !matches!(rest, Ok(Ok(()))) {
            tracing::warn!("some operations did not end in time; they are taken up again under their keys");
        }
        let closing = async {
            metrics.flush().await;
            engine.close().await
        };
        // A store that does not answer is left as a crash would leave it.
        match timeout_at(deadline.max(Instant::now() + MIN_CLOSING_TIME), closing).await {
            Ok(closed) => closed?,
            Err(_) => {
                tracing::warn!("the store was not closed in time; leases that were not given back run out")
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

/// Seals with the newest key of the operator, if there is one; opens with all, and with the one that lies in the store.
async fn sealer(store: &dyn Store, keys: &[SealingKey]) -> Result<Sealer, LaunchError> {
    let own = installation_secret(store, "sealing-secret").await?;
    let own = SealingKey::from_secret(&own).expect("it is long enough");
    let mut keys = keys.iter().cloned().chain([own]);
    let newest = keys.next().expect("there is at least our own");
    Ok(Sealer::new(newest, keys.collect()))
}
