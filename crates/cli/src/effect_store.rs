//! The store that a command on effects looks at or writes to, beside the programs that use it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hapax::clock::{Clock, SystemClock};
use hapax::store::Store;
use hapax::{Engine, EngineOptions, WorkspaceId, find_schema, open_store};

use crate::store_url::without_secrets;

/// Longer than any command takes: the programs that own the store delete expired data.
const NEVER: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Another process may own the SQLite file at the same time.
const TO_READ: &str = "mode=ro";
/// A SQLite file is opened in shared mode, so that no lease is taken for dead.
const TO_WRITE: &str = "shared=true";

/// Options for a store and a workspace in it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StoreOptions {
    /// Store to open: sqlite:PATH or postgres://… .
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: String,
    /// Workspace in the store.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = WorkspaceId::new)]
    workspace: WorkspaceId,
}

/// Like `StoreOptions`, but a server is asked if no store is named.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreOrServer {
    /// Open this store instead of asking a server: sqlite:PATH or postgres://… .
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Workspace in the store. On a server the API key decides.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = WorkspaceId::new, requires = "store")]
    workspace: WorkspaceId,
}

impl StoreOrServer {
    /// The store, if one is named.
    pub(crate) fn store(&self) -> Option<StoreOptions> {
        let store = self.store.clone().filter(|store| !store.is_empty())?;
        Some(StoreOptions { store, workspace: self.workspace.clone() })
    }
}

impl StoreOptions {
    /// Which store, for people.
    pub(crate) fn shown(&self) -> String {
        without_secrets(&self.store)
    }

    pub(crate) fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// Opens it to look only.
    pub(crate) async fn open_to_read(&self) -> Result<Engine> {
        self.open(TO_READ).await
    }

    /// Opens it to write a decision down.
    pub(crate) async fn open_to_write(&self) -> Result<Engine> {
        self.open(TO_WRITE).await.context("nothing was changed")
    }

    async fn open(&self, sqlite_mode: &str) -> Result<Engine> {
        Ok(launch(&self.store, sqlite_mode).await?.workspace(self.workspace.clone()))
    }
}

/// Opens all workspaces of the store at `url` to write decisions down.
pub(crate) async fn open_all_to_write(url: &str) -> Result<Engine> {
    launch(url, TO_WRITE).await
}

async fn launch(url: &str, sqlite_mode: &str) -> Result<Engine> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = open_in(url, sqlite_mode, clock.clone()).await?;
    // Without workflows and targets it neither drives nor delivers anything.
    let options = EngineOptions { purge_every: NEVER, ..EngineOptions::default() };
    Ok(Engine::launch(store, clock, options)?)
}

/// Opens the store at `url` to look only, without an engine.
pub(crate) async fn open_to_look(url: &str) -> Result<Arc<dyn Store>> {
    open_in(url, TO_READ, Arc::new(SystemClock::new())).await
}

async fn open_in(url: &str, sqlite_mode: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    check_tables(url).await?;
    let url = match url.strip_prefix("sqlite:") {
        Some(rest) => {
            let path = rest.split_once('?').map_or(rest, |(path, _)| path);
            format!("sqlite:{path}?{sqlite_mode}")
        }
        None => url.to_owned(),
    };
    Ok(open_store(&url, clock).await?)
}

/// Opening would make tables or change them under the programs that use them.
async fn check_tables(url: &str) -> Result<()> {
    let Some(schema) = find_schema(url).await? else {
        bail!("memory: stores nothing that another process could see; use sqlite:PATH or postgres://…");
    };
    let store = without_secrets(url);
    match (schema.found, schema.is_up_to_date()) {
        (_, true) => Ok(()),
        (0, false) => bail!("there are no tables of Hapax in {store}; check the URL"),
        (found, false) => bail!(
            "the tables in {store} are at version {found}, this command reads {}; bring them up to date with `hapax admin migrate`, \
             or use the command of that version",
            schema.known
        ),
    }
}

/// Closes the store after all writes.
pub(crate) async fn close(engine: &Engine) -> Result<()> {
    Ok(engine.shutdown(Duration::from_secs(10)).await?)
}
