//! `hapax ledger`: every effect, for an auditor.

mod of_server;

use std::collections::BTreeMap;

use anyhow::Result;
use hapax::model::{ClassCount, LedgerEntry};
use hapax::{EffectClass, Engine, RunId};
use tokio::sync::oneshot;

use crate::effect_store::{self, StoreOptions, StoreOrServer};
use crate::output::{self, for_people, grouped};
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax ledger > effects.jsonl                    of the workspace of the API key, from the server
  hapax ledger --store sqlite:orders.db > effects.jsonl
  hapax ledger --store sqlite:orders.db --run run_018f…
  hapax ledger --store postgres://localhost/orders --summary
  hapax ledger --store sqlite:orders.db | jq -c 'select(.duplicates > 0)'

One JSON object a line for each effect: its key, its class, every time its code was entered, by whom, what probes and people
said of it. A duplicate is an entry made though an earlier one may have happened; claimed and transactional effects have
none unless somebody asked for it.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: StoreOrServer,
    /// Only the effects of this run.
    #[arg(long)]
    run: Option<RunId>,
    /// Count them by class instead.
    #[arg(long)]
    summary: bool,
    /// With --summary: print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

type Counts = BTreeMap<EffectClass, ClassCount>;

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.source.store() {
        Some(store) => of_store(&options, &store).await,
        None => of_server::run(&options, server).await,
    }
}

async fn of_store(options: &Options, store: &StoreOptions) -> Result<()> {
    let engine = store.open_to_read().await?;
    match (options.summary, options.json) {
        (false, _) => print_each(&engine, options.run).await?,
        (true, true) => output::print_json(&count(&engine, options.run).await?)?,
        (true, false) => output::print(&table(&count(&engine, options.run).await?))?,
    }
    effect_store::close(&engine).await
}

async fn print_each(engine: &Engine, run: Option<RunId>) -> Result<()> {
    if let Some(run) = run {
        return engine.ledger(run).await?.iter().try_for_each(output::print_json_line);
    }
    let (stop, stopped) = oneshot::channel();
    let mut stop = Some(stop);
    let print = |entry: LedgerEntry| {
        if stop.is_some()
            && let Err(error) = output::print_json_line(&entry)
            && let Some(stop) = stop.take()
        {
            // Its receiver is there as long as we are.
            let _ = stop.send(error);
        }
    };
    tokio::select! {
        // Whoever reads may have seen enough long before the last run.
        Ok(error) = stopped => Err(error),
        walked = engine.each_effect(print) => Ok(walked?),
    }
}

async fn count(engine: &Engine, run: Option<RunId>) -> Result<Counts> {
    let Some(run) = run else { return Ok(engine.count_effects().await?) };
    let mut counts: Counts =
        EffectClass::ALL.into_iter().map(|class| (class, ClassCount::default())).collect();
    for entry in engine.ledger(run).await? {
        counts.entry(entry.class).or_default().add(&entry);
    }
    Ok(counts)
}

fn table<Class: ToString>(counts: &BTreeMap<Class, ClassCount>) -> String {
    let mut table =
        for_people::table(["class", "effects", "entries", "duplicates", "in doubt", "refused writes"]);
    for (class, count) in counts {
        let figures = [count.effects, count.entries, count.duplicates, count.in_doubt, count.refused_writes];
        table.add_row([class.to_string()].into_iter().chain(figures.map(grouped)));
    }
    for_people::align_right(&mut table, 1..6);
    format!("{table}\n")
}
