//! `hapax demo`: a shop whose worker is killed again and again, and still charges every card exactly once.

mod effect_counts;
mod live_table;
mod messages;
mod order;
mod providers;
mod shop;
mod worker;
mod worker_process;
mod world;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::output;
use shop::Shop;
pub(crate) use worker::{WorkerOptions, work};

const EXAMPLES: &str = "\
Examples:
  hapax demo                       60 orders, 5 crashes, in a folder that is deleted afterwards
  hapax demo --orders 500          more of them
  hapax demo --data ./demo-data    keep the database, to look at it
  hapax demo --json                the final figures as one JSON object

It ends with exit code 1 if a single effect was duplicated or lost.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// How many orders to take.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    orders: u32,
    /// How often to kill the worker in the middle of its work.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=20))]
    crashes: u32,
    /// Keep the database in this folder, instead of one that is deleted afterwards.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the final figures as one JSON object.
    #[arg(long)]
    json: bool,
}

/// How often each start is fired: impatient customers click three times, and the webhook comes twice.
const STARTS_PER_ORDER: u32 = 5;

pub(crate) async fn run(options: Options) -> Result<()> {
    let folder = Folder::prepare(options.data.as_deref())?;
    let mut shop = Shop::open(options.orders, options.crashes, folder.path()).await?;
    let mut tally = shop.trade().await?;
    tally.database = folder.named().map(|path| path.join(worker::DATABASE).display().to_string());
    match options.json {
        true => output::print_json(&tally)?,
        false => output::print(&live_table::closing(&tally))?,
    }
    match tally.faults() {
        faults if faults.is_empty() => Ok(()),
        faults => bail!("{}", faults.join("; ")),
    }
}

/// Where the database lies.
enum Folder {
    Passing(tempfile::TempDir),
    Named(PathBuf),
}

impl Folder {
    fn prepare(asked: Option<&Path>) -> Result<Folder> {
        let Some(path) = asked else {
            let folder = tempfile::Builder::new().prefix("hapax-demo-").tempdir();
            return Ok(Folder::Passing(folder.context("no temporary folder could be made; use --data DIR")?));
        };
        let database = path.join(worker::DATABASE);
        if database.exists() {
            bail!("{} already exists; name another folder or delete it", database.display());
        }
        std::fs::create_dir_all(path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Folder::Named(path.to_path_buf()))
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Passing(folder) => folder.path(),
            Folder::Named(path) => path,
        }
    }

    fn named(&self) -> Option<&Path> {
        match self {
            Folder::Passing(_) => None,
            Folder::Named(path) => Some(path),
        }
    }
}
