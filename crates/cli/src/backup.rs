//! `hapax backup`: a copy of a SQLite store, made while programs use it.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::effect_store;
use crate::output::shape::ShapeOptions;
use crate::store_url::sqlite_path;

const EXAMPLES: &str = "\
Examples:
  hapax backup --store sqlite:/var/lib/hapax/hapax.db /backup/hapax-2026-05-01.db
  hapax backup --store sqlite:orders.db orders.backup --json

The copy is that of one moment, whole and alone: it needs no -wal file. Programs that use the store go on meanwhile. The copy is for its owner alone, is
checked like `hapax fsck` does, and never takes the place of a file that is there. Exits with 1 if an invariant is broken; the copy is kept then as well.
For PostgreSQL use pg_dump; docs/operations.md tells how. `hapax restore` puts a backup back.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Which store: sqlite:PATH.
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: String,
    /// Where to put the copy. Nothing may be there.
    #[arg(value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// What was copied.
#[derive(Debug, Serialize)]
struct Told {
    backup: PathBuf,
    bytes: u64,
    schema_version: i32,
    /// Absent if the tables are older than this command, which can then not check them.
    runs: Option<usize>,
    violations: usize,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let Some(from) = sqlite_path(&options.store) else {
        bail!(
            "hapax backup copies SQLite files; back up PostgreSQL with `pg_dump --format=custom --schema=hapax`"
        );
    };
    let (from, to) = (from.to_owned(), options.to.clone());
    let copied = tokio::task::spawn_blocking(move || hapax::sqlite::copy(&from, &to)).await??;
    let checked = check(&options.to).await?;
    let told = Told {
        backup: options.to.clone(),
        bytes: copied.bytes,
        schema_version: copied.version,
        runs: checked.as_ref().map(|report| report.runs),
        violations: checked.as_ref().map_or(0, |report| report.violations.len() + report.left_off),
    };
    options.shape.show(&told, || {
        let checked = match told.runs {
            Some(runs) => format!("{runs} runs, {} broken invariants", told.violations),
            None => "not checked, because its tables are older than this command".to_owned(),
        };
        format!("backup   {}\nsize     {} bytes\nchecked  {checked}\n", told.backup.display(), told.bytes)
    })?;
    match told.violations {
        0 => Ok(()),
        count => bail!("{count} invariants are broken in the store; see them with `hapax fsck`"),
    }
}

/// What `hapax fsck` finds in a file; nothing if its tables are older than this command.
pub(crate) async fn check(file: &std::path::Path) -> Result<Option<hapax::fsck::Report>> {
    let url = format!("sqlite:{}", file.display());
    let is_up_to_date = hapax::find_schema(&url).await?.is_some_and(|schema| schema.is_up_to_date());
    if !is_up_to_date {
        return Ok(None);
    }
    let store = effect_store::open_to_look(&url).await?;
    Ok(Some(hapax::fsck::fsck(&*store).await?))
}
