//! `hapax admin recover`: makes a new admin key for a person who can write to the store.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hapax::clock::SystemClock;
use hapax::{Actor, Role as Rank};
use hapax_server::directory::Directory;
use serde::Serialize;

use crate::key_file;
use crate::output::{self, shape::ShapeOptions};
use crate::person::not_blank;

const EXAMPLES: &str = "\
Examples:
  hapax admin recover --store postgres://hapax@db/hapax --by ada --reason 'the first key was lost' --key-file new.key
  hapax admin recover --store sqlite:/var/lib/hapax/hapax.db --by ada --reason 'the first key was lost' --revoke-others

Run it on a machine that reaches the store, as somebody who may write to it. A server on a SQLite file must be stopped meanwhile. The key is that of an admin
of the installation, as the first one was. It is written into the file that --key-file names, for its owner alone, or printed on standard output.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Store of the installation: sqlite:PATH or postgres://… .
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: String,
    /// Your name, for the audit log.
    #[arg(long, value_name = "NAME", value_parser = not_blank)]
    by: String,
    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: String,
    /// Write the key into this new file, readable by you alone, instead of printing it.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Revoke all other admin keys of the installation, for example because they leaked.
    #[arg(long)]
    revoke_others: bool,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Output of the command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RecoveredKey {
    credential: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<PathBuf>,
    revoked: Vec<String>,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    options.run().await
}

impl Options {
    async fn run(self) -> Result<()> {
        if self.store == "memory:" {
            bail!("memory: stores nothing that could be recovered; use sqlite:PATH or postgres://…");
        }
        if let Some(path) = &self.key_file {
            key_file::check(path)?;
        }
        if let Some(path) = self.store.strip_prefix("sqlite:") {
            let path = path.split('?').next().unwrap_or_default();
            // Opening it would create a new one.
            std::fs::metadata(path).with_context(|| format!("there is no store at {path}"))?;
        }
        let store = hapax::open_store(&self.store, Arc::new(SystemClock::new())).await?;
        let recovered = self.recover(Directory::new(store.clone())).await;
        store.close().await?;
        let recovered_key = recovered?;
        self.shape.show(&recovered_key, || match &recovered_key.api_key {
            Some(key) => format!("{key}\n"),
            None => String::new(),
        })?;
        output::say(&format!(
            "hapax: {} may administer the installation; this is in the audit log",
            recovered_key.credential
        ));
        Ok(())
    }

    async fn recover(&self, directory: Option<Directory>) -> Result<RecoveredKey> {
        let directory = directory.context("this store keeps no credentials")?;
        // The person has access to the store itself, and may do anything with it.
        let by = Actor::new(self.by.clone(), Rank::Manager);
        let recovered = directory.recover_installation(by, &self.reason, self.revoke_others).await;
        let recovered = recovered.map_err(|problem| anyhow::anyhow!("{problem}"))?;
        let key = recovered.key.reveal().to_owned();
        let (api_key, key_file) = match &self.key_file {
            Some(path) => match key_file::write(path, &key) {
                Ok(()) => (None, Some(path.clone())),
                Err(error) => {
                    // The key exists and can be shown only once.
                    output::say(&format!("hapax: warning: {error:#}; it is printed instead"));
                    (Some(key), None)
                }
            },
            None => (Some(key), None),
        };
        let revoked = recovered.revoked.iter().map(ToString::to_string).collect();
        Ok(RecoveredKey { credential: recovered.credential.to_string(), api_key, key_file, revoked })
    }
}
