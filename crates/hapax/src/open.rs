//! Opening Hapax on a store named by a URL.

use std::ops::Deref;
use std::sync::Arc;

use hapax_engine::clock::{Clock, SystemClock};
use hapax_engine::lease::Lease;
use hapax_engine::memory::MemoryStore;
use hapax_engine::store::Store;
use hapax_engine::{Engine, EngineOptions, Error};

#[cfg(feature = "postgres")]
use crate::node_identity::EnterError;
use crate::node_identity::{IdentityError, NodeIdentity};

/// Hapax in this program: an [`Engine`] on the store you named. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hapax(Engine);

/// Why Hapax could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no store this program was built with. Of a URL that may hold a password only the scheme is shown.
    #[error(
        "{0:?} names no store known here; use memory:, sqlite:PATH (with ?shared=true for several processes, ?mapped=false for a disk that may fail) or \
         postgres://USER:PASSWORD@HOST:PORT/DATABASE, each if this program was built with it"
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
    /// A setting cannot work.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl Hapax {
    /// Opens `memory:` (nothing survives the process), `sqlite:PATH` or `postgres://…`, and starts to drive what waits
    /// there as soon as its workflows are registered.
    pub async fn open(url: &str) -> Result<Hapax, OpenError> {
        Hapax::builder(url).open().await
    }

    /// Opens with settings of your own.
    pub fn builder(url: &str) -> HapaxBuilder {
        let options = EngineOptions::default();
        HapaxBuilder { url: url.to_string(), options, clock: None, identity: None }
    }
}

impl Deref for Hapax {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

/// Settings for opening.
#[derive(Debug)]
#[must_use = "call open() on it"]
pub struct HapaxBuilder {
    url: String,
    options: EngineOptions,
    clock: Option<Arc<dyn Clock>>,
    identity: Option<&'static NodeIdentity>,
}

impl HapaxBuilder {
    /// Settings of the engine.
    pub fn options(mut self, options: EngineOptions) -> Self {
        self.options = options;
        self
    }

    /// Drives a run only while this lease is held as well; see [`crate::lease`] for what that adds, and what it does not.
    pub fn lease(mut self, lease: Arc<dyn Lease>) -> Self {
        self.options.lease = Some(lease);
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
        self.options.check()?;
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
        #[cfg(feature = "postgres")]
        if is_postgres(&self.url) {
            let store = Arc::new(open_postgres(&self.url, self.clock).await?);
            let engine = Engine::launch(store.clone(), clock, self.options)?;
            if let Some(identity) = self.identity {
                give_back_leases(identity, &engine, &store).await?;
            }
            return Ok(Hapax(engine));
        }
        let store = open_store(&self.url, clock.clone()).await?;
        Ok(Hapax(Engine::launch(store, clock, self.options)?))
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
