//! Opening Hapax on a store or a server named by a URL.

use std::sync::Arc;

use hapax_engine::clock::{Clock, SystemClock};
use hapax_engine::lease::Lease;
use hapax_engine::memory::MemoryStore;
use hapax_engine::store::Store;
use hapax_engine::{Engine, EngineOptions, Error};

use crate::backend::Backend;
#[cfg(feature = "postgres")]
use crate::node_identity::EnterError;
use crate::node_identity::{IdentityError, NodeIdentity};

/// Hapax in this program: an [`Engine`] on the store you named, or the server you named. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hapax {
    pub(crate) backend: Backend,
}

/// Why Hapax could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no store this program was built with. Of a URL that may hold a password only the scheme is shown.
    #[error(
        "{0:?} names no store known here; use memory:, sqlite:PATH (with ?shared=true for several processes, ?mapped=false for a disk that may fail) or \
         postgres://USER:PASSWORD@HOST:PORT/DATABASE, or the address of a server, http://HOST:PORT (feature `remote`), each if \
         this program was built with it"
    )]
    UnknownStore(String),
    /// The SQLite file could not be opened.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Sqlite(#[from] hapax_store_sqlite::OpenError),
    /// The PostgreSQL database could not be opened.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] hapax_store_postgres::OpenError),
    /// The identity of this node cannot be noted.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The server cannot be used like this.
    #[error("{0}")]
    Server(String),
    /// A setting cannot work.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Where the key of a credential is looked for if the builder was given none.
pub const API_KEY_VARIABLE: &str = "HAPAX_API_KEY";

impl Hapax {
    /// Opens `memory:` (nothing survives the process), `sqlite:PATH`, `postgres://…`, or a server, `http://…` (with the
    /// feature `remote` and the key of a credential in `HAPAX_API_KEY`). What waits there is carried out as soon as its
    /// workflows are registered.
    pub async fn open(url: &str) -> Result<Hapax, OpenError> {
        Hapax::builder(url).open().await
    }

    /// Opens with settings of your own.
    pub fn builder(url: &str) -> HapaxBuilder {
        HapaxBuilder {
            url: url.to_string(),
            options: None,
            lease: None,
            clock: None,
            identity: None,
            server: ServerSettings::default(),
        }
    }
}

/// Settings for a server.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "remote"), allow(dead_code))]
struct ServerSettings {
    #[cfg(feature = "remote")]
    api_key: Option<secrecy::SecretString>,
    concurrency: Option<u32>,
    worker_name: Option<String>,
    instance: Option<String>,
}

/// Settings for opening.
#[derive(Debug)]
#[must_use = "call open() on it"]
pub struct HapaxBuilder {
    url: String,
    options: Option<EngineOptions>,
    lease: Option<Arc<dyn Lease>>,
    clock: Option<Arc<dyn Clock>>,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL needs it"))]
    identity: Option<&'static NodeIdentity>,
    server: ServerSettings,
}

impl HapaxBuilder {
    /// Settings of the engine. A server has its own.
    pub fn options(mut self, options: EngineOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Key of a credential on the server; the default is the one in `HAPAX_API_KEY`.
    #[cfg(feature = "remote")]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.server.api_key = Some(secrecy::SecretString::from(key.into()));
        self
    }

    /// How many attempts, tasks and actions run at once here for a server; the default is 256.
    #[cfg(feature = "remote")]
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.server.concurrency = Some(concurrency);
        self
    }

    /// Name under which people see this program among the workers of a server; the default is the name of the program.
    #[cfg(feature = "remote")]
    pub fn worker_name(mut self, name: impl Into<String>) -> Self {
        self.server.worker_name = Some(name.into());
        self
    }

    /// Name of this worker slot over restarts, such as the name of a pod. A program that comes back under it takes over at
    /// once.
    #[cfg(feature = "remote")]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.server.instance = Some(instance.into());
        self
    }

    /// Drives a run only while this lease is held as well; see [`crate::lease`] for what that adds, and what it does not.
    pub fn lease(mut self, lease: Arc<dyn Lease>) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets a clock of your own, for tests. By default PostgreSQL uses its server's clock, and the
    /// other stores use this machine's clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Gives this node an identity, so that what its earlier process held goes on as soon as this one is open. Only
    /// PostgreSQL needs it: an SQLite file is opened by one process, which knows that no other is left.
    pub fn identity(mut self, identity: &'static NodeIdentity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Opens the store and starts the engine.
    pub async fn open(self) -> Result<Hapax, OpenError> {
        if is_server(&self.url) {
            return self.connect();
        }
        let mut options = self.options.unwrap_or_default();
        options.lease = self.lease.or(options.lease);
        options.check()?;
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
        #[cfg(feature = "postgres")]
        if is_postgres(&self.url) {
            let store = Arc::new(open_postgres(&self.url, self.clock).await?);
            let engine = Engine::launch(store.clone(), clock, options)?;
            if let Some(identity) = self.identity {
                give_back_leases(identity, &engine, &store).await?;
            }
            return Ok(Hapax { backend: Backend::Engine(engine) });
        }
        let store = open_store(&self.url, clock.clone()).await?;
        Ok(Hapax { backend: Backend::Engine(Engine::launch(store, clock, options)?) })
    }

    #[cfg(not(feature = "remote"))]
    fn connect(self) -> Result<Hapax, OpenError> {
        let ServerSettings { concurrency: _, worker_name: _, instance: _ } = self.server;
        Err(OpenError::Server(format!(
            "{:?} is a server; build this program with the feature `remote`",
            self.url
        )))
    }

    #[cfg(feature = "remote")]
    fn connect(self) -> Result<Hapax, OpenError> {
        use hapax_remote::{Remote, RemoteOptions};
        if self.options.is_some() || self.lease.is_some() {
            let why = "the server has settings of its own";
            return Err(Error::needs_engine("HapaxBuilder::options and lease", why).into());
        }
        let ServerSettings { api_key, concurrency, worker_name, instance } = self.server;
        let from_environment = || {
            let key = std::env::var(API_KEY_VARIABLE).ok().filter(|key| !key.trim().is_empty());
            key.map(|key| secrecy::SecretString::from(key.trim().to_owned()))
        };
        let key = api_key.or_else(from_environment).ok_or_else(|| {
            OpenError::Server(format!(
                "the server needs the key of a credential: set {API_KEY_VARIABLE}, or call HapaxBuilder::api_key"
            ))
        })?;
        let usual = RemoteOptions::new(key);
        let options = RemoteOptions {
            concurrency: concurrency.unwrap_or(usual.concurrency),
            name: worker_name.unwrap_or(usual.name),
            instance,
            clock: self.clock.unwrap_or(usual.clock),
            ..RemoteOptions::new(usual.api_key)
        };
        let remote = Remote::new(&self.url, options).map_err(|error| OpenError::Server(error.to_string()))?;
        Ok(Hapax { backend: Backend::Server(remote) })
    }
}

/// Opens the store that `url` names, without an engine on it.
///
/// A store on this machine judges by `clock`. PostgreSQL, which many machines share, judges by the clock of its server and does not
/// look at `clock`; [`HapaxBuilder::clock`], or the store's own options, make it follow another one in tests.
pub async fn open_store(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, OpenError> {
    if url == "memory:" {
        return Ok(Arc::new(MemoryStore::new(clock)));
    }
    #[cfg(feature = "sqlite")]
    if let Some(rest) = url.strip_prefix("sqlite:") {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = hapax_store_sqlite::SqliteOptions::default().clock(clock);
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            options = match setting {
                "shared=true" => options.shared(true),
                "shared=false" => options.shared(false),
                "mapped=true" => options.mapped(true),
                "mapped=false" => options.mapped(false),
                "mode=ro" => options.read_only(true),
                _ => return Err(unknown(url)),
            };
        }
        if path.is_empty() {
            return Err(unknown(url));
        }
        return Ok(Arc::new(hapax_store_sqlite::SqliteStore::open(path, options).await?));
    }
    #[cfg(feature = "postgres")]
    if is_postgres(url) {
        return Ok(Arc::new(open_postgres(url, None).await?));
    }
    Err(unknown(url))
}

fn is_server(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

#[cfg(feature = "postgres")]
pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

#[cfg(feature = "postgres")]
async fn open_postgres(
    url: &str,
    clock: Option<Arc<dyn Clock>>,
) -> Result<hapax_store_postgres::PostgresStore, OpenError> {
    let options = hapax_store_postgres::PostgresOptions::default();
    let options = match clock {
        Some(clock) => options.clock(clock),
        None => options,
    };
    Ok(hapax_store_postgres::PostgresStore::open(url, options).await?)
}

/// Gives back what the earlier process of this node held. If the store fails, that waits until its leases end.
#[cfg(feature = "postgres")]
async fn give_back_leases(
    identity: &NodeIdentity,
    engine: &Engine,
    store: &hapax_store_postgres::PostgresStore,
) -> Result<(), IdentityError> {
    match identity.enter(engine, |owner| store.end_leases(owner)).await {
        Ok(0) => {}
        Ok(leases) => tracing::info!(leases, "the earlier process of this node is dead; its runs go on"),
        Err(EnterError::Store(error)) => {
            tracing::warn!(%error, "the leases of this node's earlier process end by themselves");
        }
        Err(EnterError::Identity(error)) => return Err(error),
    }
    Ok(())
}

pub(crate) fn unknown(url: &str) -> OpenError {
    OpenError::UnknownStore(match url.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…"),
        None => url.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_not_known_does_not_show_its_password() {
        let error = unknown("mysql://ann:canary@host/db");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        assert!(unknown("orders.db").to_string().contains("orders.db"));
    }
}
