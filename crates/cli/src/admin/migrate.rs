//! `hapax admin migrate`: upgrades the tables of a store before the programs that use them.

use std::fmt::Write;

use anyhow::{Result, bail};
use hapax::store::SchemaState;
use serde::Serialize;

use crate::output::shape::ShapeOptions;
use crate::store_url::without_secrets;

const EXAMPLES: &str = "\
Examples:
  hapax admin migrate --store postgres://localhost/orders           apply what is missing
  hapax admin migrate --store postgres://localhost/orders --check   fail if anything is missing; change nothing
  hapax admin migrate --store sqlite:orders.db --json

Every program that opens a store migrates it too, unless it was told not to. With --check a store that is behind exits with 1.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Whose tables: sqlite:PATH or postgres://… .
    #[arg(long, value_name = "URL", env = "HAPAX_STORE", hide_env_values = true)]
    store: String,
    /// Only look; exit with 1 if migrations are pending.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Outcome of a migration.
#[derive(Debug, Serialize)]
struct MigrationReport {
    store: String,
    found_version: i32,
    known_version: i32,
    applied: Vec<&'static str>,
    pending: Vec<&'static str>,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let before = match options.check {
        true => hapax::find_schema(&options.store).await?,
        false => hapax::migrate(&options.store).await?,
    };
    let Some(before) = before else {
        bail!("{} has no tables to migrate; use sqlite:PATH or postgres://…", options.store);
    };
    let told = MigrationReport::new(&options, before);
    options.shape.show(&told, || told.to_text())?;
    match told.pending.len() {
        0 => Ok(()),
        1 => bail!("1 migration is pending; apply it with `hapax admin migrate` without --check"),
        count => {
            bail!("{count} migrations are pending; apply them with `hapax admin migrate` without --check")
        }
    }
}

impl MigrationReport {
    fn new(options: &Options, before: SchemaState) -> Self {
        let store = without_secrets(&options.store);
        let (applied, pending) = match options.check {
            true => (Vec::new(), before.pending),
            false => (before.pending, Vec::new()),
        };
        MigrationReport { store, found_version: before.found, known_version: before.known, applied, pending }
    }

    fn to_text(&self) -> String {
        let mut text = format!("store    {}\n", self.store);
        match self.found_version {
            0 => text.push_str("found    no tables\n"),
            version => _ = writeln!(text, "found    version {version}"),
        }
        _ = writeln!(text, "known    version {}", self.known_version);
        for (word, names) in [("applied", &self.applied), ("pending", &self.pending)] {
            names.iter().for_each(|name| _ = writeln!(text, "{word}  {name}"));
        }
        if self.applied.is_empty() && self.pending.is_empty() {
            text.push_str("up to date\n");
        }
        text
    }
}
