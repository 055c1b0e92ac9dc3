//! The store that a command on effects looks at or writes to, beside the programs that use it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hapax::clock::{Clock, SystemClock};
use hapax::{Engine, EngineOptions, WorkspaceId, find_schema, open_store};

use crate::store_url::without_secrets;

/// Longer than any command takes: deleting what has expired is left to the programs that own the store.
const NEVER: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Which store, and which part of it.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreOptions {
    /// Which store: sqlite:PATH or postgres://… .
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: String,
    /// Which workspace of it.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = WorkspaceId::new)]
    workspace: WorkspaceId,
}

impl StoreOptions {
    /// Opens it to look only; a SQLite file may meanwhile belong to another process.
    pub(crate) async fn open_to_read(&self) -> Result<Engine> {
        self.open("mode=ro").await
    }

    /// Opens it to write a decision down. A SQLite file is opened in shared mode, so that no lease is taken for dead.
    pub(crate) async fn open_to_write(&self) -> Result<Engine> {
        self.open("shared=true").await.context("nothing was changed")
    }

    async fn open(&self, sqlite_mode: &str) -> Result<Engine> {
        self.check_tables().await?;
        let url = match self.store.strip_prefix("sqlite:") {
            Some(rest) => {
                let path = rest.split_once('?').map_or(rest, |(path, _)| path);
                format!("sqlite:{path}?{sqlite_mode}")
            }
            None => self.store.clone(),
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = open_store(&url, clock.clone()).await?;
        // Without workflows and targets it neither drives nor delivers anything.
        let options = EngineOptions { purge_every: NEVER, ..EngineOptions::default() };
        Ok(Engine::launch(store, clock, options)?.workspace(self.workspace.clone()))
    }

    /// Opening would make tables or change them under the programs that use them.
    async fn check_tables(&self) -> Result<()> {
        let Some(schema) = find_schema(&self.store).await? else {
            bail!("memory: holds nothing that another process could see; use sqlite:PATH or postgres://…");
        };
        let store = without_secrets(&self.store);
        match (schema.found, schema.is_up_to_date()) {
            (_, true) => Ok(()),
            (0, false) => bail!("there are no tables of Hapax in {store}; check the URL"),
            (found, false) => bail!(
                "the tables in {store} are at version {found}, this command reads {}; bring them up to date with `hapax migrate`, \
                 or use the command of that version",
                schema.known
            ),
        }
    }
}

/// Lets go of the store; what was to be written is.
pub(crate) async fn close(engine: &Engine) -> Result<()> {
    Ok(engine.shutdown(Duration::from_secs(10)).await?)
}
