//! `hapax restore`: a backup, checked and put where a SQLite store was.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::backup::check;
use crate::output::{self, shape::ShapeOptions};
use crate::store_url::sqlite_path;

const EXAMPLES: &str = "\
Examples:
  hapax restore /backup/hapax-2026-05-01.db --store sqlite:/var/lib/hapax/hapax.db

The backup is checked like `hapax fsck` does, and refused if an invariant is broken in it. It never takes the place of a store that is there: move
that away first, with its -wal and -shm files. What was recorded after the backup is forgotten: steps that ran since run again, under the same
keys, so settle with your providers what they have seen. docs/operations.md tells what else to do.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The backup.
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Which store to make from it: sqlite:PATH. Nothing may be there.
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// What was restored.
#[derive(Debug, Serialize)]
struct Told {
    store: PathBuf,
    bytes: u64,
    schema_version: i32,
    runs: Option<usize>,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let Some(to) = sqlite_path(&options.store) else {
        bail!("hapax restore restores SQLite files; restore PostgreSQL with `pg_restore`");
    };
    let checked = check(&options.from).await?;
    if let Some(report) = &checked
        && !report.violations.is_empty()
    {
        bail!(
            "the backup breaks {} invariants, so it was not restored; see them with `hapax fsck --store sqlite:{}`",
            report.violations.len() + report.left_off,
            options.from.display()
        );
    }
    let (from, to) = (options.from.clone(), to.to_owned());
    let place = to.clone();
    let copied = tokio::task::spawn_blocking(move || hapax::sqlite::copy(&from, &to)).await??;
    let told = Told {
        store: place,
        bytes: copied.bytes,
        schema_version: copied.version,
        runs: checked.as_ref().map(|report| report.runs),
    };
    options.shape.show(&told, || {
        let checked = match told.runs {
            Some(runs) => format!("{runs} runs, no broken invariant"),
            None => "not checked, because its tables are older than this command".to_owned(),
        };
        format!("store    {}\nsize     {} bytes\nchecked  {checked}\n", told.store.display(), told.bytes)
    })?;
    output::say(
        "hapax: what was recorded after the backup is forgotten; see docs/operations.md before you start a server on it",
    );
    Ok(())
}
