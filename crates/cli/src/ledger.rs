//! `hapax ledger`: every effect, for an auditor.

mod of_server;

use std::collections::BTreeMap;

use anyhow::Result;
use hapax::model::{ClassCount, LedgerEntry};
use hapax::{EffectClass, Engine, RunId};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::effect_store::{self, StoreOptions, StoreOrServer};
use crate::output::shape::{Shape, ShapeOptions};
use crate::output::{grouped, tables};
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax ledger > effects.jsonl                    of the workspace of the API key, from the server
  hapax ledger --store sqlite:orders.db > effects.jsonl
  hapax ledger --store sqlite:orders.db --run run_018f…
  hapax ledger --store postgres://localhost/orders --summary
  hapax ledger --store sqlite:orders.db | jq -c 'select(.happenedTwice + .mayHaveHappenedTwice > 0)'
  hapax ledger --run run_018f… -o table

One JSON object a line for each effect (with -o table, a table; with -o yaml, a document each): its key, its class, every time its code was entered, by whom, what probes and people
said of it. `happenedTwice` counts the times an effect is known to have happened beyond the first, `mayHaveHappenedTwice` the times more
that it may have. Idempotent effects carry one key, by which their provider makes them one.";

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
    /// Output format [default: json; table with --summary].
    #[arg(long = "output", short = 'o', value_enum, value_name = "FORM")]
    shape: Option<Shape>,
    /// Same as -o json.
    #[arg(long, conflicts_with = "shape")]
    json: bool,
}

impl Options {
    fn shape(&self) -> ShapeOptions {
        let unless_said = if self.summary { Shape::Table } else { Shape::Json };
        self.shape.unwrap_or(if self.json { Shape::Json } else { unless_said }).into()
    }
}

type Counts = BTreeMap<EffectClass, ClassCount>;

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.source.store() {
        Some(store) => show_from_store(&options, &store).await,
        None => of_server::run(&options, server).await,
    }
}

async fn show_from_store(options: &Options, store: &StoreOptions) -> Result<()> {
    let engine = store.open_to_read().await?;
    match options.summary {
        false => print_each(&engine, options).await?,
        true => {
            let counts = count(&engine, options.run).await?;
            options.shape().show(&counts, || table(&counts))?;
        }
    }
    effect_store::close(&engine).await
}

async fn print_each(engine: &Engine, options: &Options) -> Result<()> {
    let mut printer = Printer::new(options);
    if let Some(run) = options.run {
        engine.ledger(run).await?.iter().try_for_each(|entry| printer.print(entry, row(entry)))?;
        return printer.finish();
    }
    let (stop, stopped) = oneshot::channel();
    let mut stop = Some(stop);
    let print = |entry: LedgerEntry| {
        if stop.is_some()
            && let Err(error) = printer.print(&entry, row(&entry))
            && let Some(stop) = stop.take()
        {
            // The receiver lives as long as this task.
            let _ = stop.send(error);
        }
    };
    tokio::select! {
        // The reader may close the pipe long before the last run.
        Ok(error) = stopped => return Err(error),
        walked = engine.for_each_effect(print) => walked?,
    }
    printer.finish()
}

const COLUMNS: [&str; 7] =
    ["key", "class", "status", "entries", "happened twice", "may have happened twice", "refused writes"];

/// Columns of an effect, for people.
type Row = [String; COLUMNS.len()];

fn row(entry: &LedgerEntry) -> Row {
    [
        tables::plain(&entry.key),
        entry.class.to_string(),
        entry.status.unwrap_or("-").into(),
        entry.attempts.len().to_string(),
        entry.happened_twice.to_string(),
        entry.may_have_happened_twice.to_string(),
        entry.refused_writes.to_string(),
    ]
}

/// Prints effects as they come; a table, whose columns are as wide as the widest, when all have come.
struct Printer {
    shape: ShapeOptions,
    rows: Vec<Row>,
}

impl Printer {
    fn new(options: &Options) -> Self {
        Printer { shape: options.shape(), rows: Vec::new() }
    }

    fn print<T: Serialize>(&mut self, entry: &T, row: Row) -> Result<()> {
        match self.shape.shape() {
            Shape::Table => self.rows.push(row),
            Shape::Json | Shape::Yaml => self.shape.show_all(std::slice::from_ref(entry), String::new)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        self.shape.show_all::<()>(&[], || {
            if self.rows.is_empty() {
                return "there are no effects\n".into();
            }
            let mut table = tables::table(COLUMNS);
            table.add_rows(&self.rows);
            tables::align_right(&mut table, 3..7);
            format!("{table}\n")
        })
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
    let mut table = tables::table([
        "class",
        "effects",
        "entries",
        "happened twice",
        "may have happened twice",
        "in doubt",
        "refused writes",
    ]);
    for (class, count) in counts {
        let figures = [
            count.effects,
            count.entries,
            count.happened_twice,
            count.may_have_happened_twice,
            count.in_doubt,
            count.refused_writes,
        ];
        table.add_row([class.to_string()].into_iter().chain(figures.map(grouped)));
    }
    tables::align_right(&mut table, 1..7);
    format!("{table}\n")
}
