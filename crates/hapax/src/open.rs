//! Opening Hapax on a store named by a URL.

use std::ops::Deref;
use std::sync::Arc;

use hapax_engine::clock::{Clock, SystemClock};
use hapax_engine::memory::MemoryStore;
use hapax_engine::store::Store;
use hapax_engine::{Engine, EngineOptions, Error};

/// Hapax in this program: an [`Engine`] on the store you named. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hapax(Engine);

/// Why Hapax could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no store this program was built with.
    #[error(
        "{0:?} names no store known here; use memory: or sqlite:PATH (with ?shared=true for several processes)"
    )]
    UnknownStore(String),
    /// The SQLite file could not be opened.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Sqlite(#[from] hapax_store_sqlite::OpenError),
    /// A setting cannot work.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl Hapax {
    /// Opens `memory:` (nothing survives the process) or `sqlite:PATH`, and starts to drive what waits there as soon
    /// as its workflows are registered.
    pub async fn open(url: &str) -> Result<Hapax, OpenError> {
        Hapax::builder(url).open().await
    }

    /// Opens with settings of your own.
    pub fn builder(url: &str) -> HapaxBuilder {
        HapaxBuilder { url: url.to_string(), options: EngineOptions::default(), clock: None }
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
}

impl HapaxBuilder {
    /// Settings of the engine.
    pub fn options(mut self, options: EngineOptions) -> Self {
        self.options = options;
        self
    }

    /// A clock of your own, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Opens the store and starts the engine.
    pub async fn open(self) -> Result<Hapax, OpenError> {
        self.options.check()?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let store = open_store(&self.url, clock.clone()).await?;
        Ok(Hapax(Engine::launch(store, clock, self.options)?))
    }
}

/// Opens the store that `url` names, without an engine on it.
pub async fn open_store(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, OpenError> {
    if url == "memory:" {
        return Ok(Arc::new(MemoryStore::new(clock)));
    }
    #[cfg(feature = "sqlite")]
    if let Some(rest) = url.strip_prefix("sqlite:") {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = hapax_store_sqlite::SqliteOptions::default().clock(clock);
        let options = match query {
            "" | "shared=false" => options,
            "shared=true" => options.shared(true),
            "mode=ro" => options.read_only(true),
            _ => return Err(OpenError::UnknownStore(url.to_string())),
        };
        if path.is_empty() {
            return Err(OpenError::UnknownStore(url.to_string()));
        }
        return Ok(Arc::new(hapax_store_sqlite::SqliteStore::open(path, options).await?));
    }
    Err(OpenError::UnknownStore(url.to_string()))
}
