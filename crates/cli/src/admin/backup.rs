//! `hapax admin backup`: a consistent copy of a SQLite store while a server uses it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hapax::clock::{Clock, SystemClock};
use hapax::sqlite::{Copied, back_up};
use serde::Serialize;

use crate::copying::{copy, size};
use crate::exit_codes::UsageError;
use crate::output::tables::plain;
use crate::output::{say, shape::ShapeOptions};
use crate::store_url::is_postgres;

const EXAMPLES: &str = "\
Examples:
  hapax admin backup --store sqlite:/var/lib/hapax/hapax.db --to /backup/hapax-monday.db
  hapax admin backup --store sqlite:orders.db --to orders-backup.db --json

The server keeps running. The copy shows the moment when the command started. It is checked before it gets its name, and has mode 0600. An existing file is
never overwritten. Secrets in the copy stay sealed, so keep a copy of the server's sealing keys in another place.

For PostgreSQL use `pg_dump --format=custom --schema=hapax`, or `pg_basebackup` with archived WAL. docs/operations.md has the commands.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Which store: sqlite:PATH.
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: String,
    /// The file to write. It must not be there.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Output of the command.
#[derive(Debug, Serialize)]
struct BackupReport {
    file: PathBuf,
    bytes: u64,
    as_of: String,
    tables_version: i32,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let from = sqlite_path(&options.store, "backup")?;
    let (source, to) = (from.clone(), options.to.clone());
    let as_of = SystemClock::new().now().to_string();
    let Copied { bytes, version } = copy("copied", move |progress| back_up(&source, &to, progress)).await??;
    let told = BackupReport { file: options.to.clone(), bytes, as_of, tables_version: version };
    options.shape.show(&told, || {
        let file = plain(&told.file.display().to_string());
        format!(
            "backup   {file}\nsize     {}\nas of    {}\ntables   version {version}\n",
            size(bytes),
            told.as_of
        )
    })?;
    let (file, store) = (options.to.display().to_string(), from.display().to_string());
    say(&plain(&format!("Restore it with: hapax admin restore {file} --to sqlite:{store} --force")));
    Ok(())
}

/// Path of a SQLite store. Other stores are rejected with the tool to use.
pub(crate) fn sqlite_path(url: &str, command: &str) -> Result<PathBuf> {
    if is_postgres(url) {
        let tool = match command {
            "restore" => {
                "`pg_restore --dbname=NEW --exit-on-error hapax.dump`, or a base backup with archived WAL"
            }
            _ => {
                "`pg_dump --format=custom --schema=hapax --file=hapax.dump DATABASE` while nodes run, or `pg_basebackup` with archived WAL"
            }
        };
        bail!(
            "hapax {command} is for SQLite. For PostgreSQL use {tool}. Then check with `hapax admin fsck --store postgres://…`; \
             docs/operations.md says what else to do after a restore"
        );
    }
    let path = url.strip_prefix("sqlite:").map(|rest| rest.split_once('?').map_or(rest, |(path, _)| path));
    match path {
        Some(path) if !path.is_empty() => Ok(Path::new(path).to_owned()),
        _ => Err(UsageError(format!("hapax {command} needs a store that is a file: sqlite:PATH")).into()),
    }
}
