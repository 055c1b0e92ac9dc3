//! `hapax conformance`: does a service keep the contract on idempotency?

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use hapax_http_conformance::{Config, Outcome, Report, Suite, Verdict};

use crate::bounded_file;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::output::shape::ShapeOptions;
use crate::output::tables::{self, plain};
use crate::output::{is_watched, say};
use crate::parsers::word;

const EXAMPLES: &str = "\
Examples:
  hapax conformance idempotency --url http://127.0.0.1:8080 --config orders.json
  hapax conformance idempotency --url http://127.0.0.1:8080 --config orders.json --json | jq -r 'select(.outcome == \"failed\").id'

The config tells how one changing request of the service looks, how to spoil it, and how to count what it did:
  {
    \"request\": {\"path\": \"/orders\", \"headers\": {\"authorization\": \"Bearer …\"},
                \"body\": {\"amount\": 100, \"reference\": \"conformance-{{unique}}\"}},
    \"otherBody\": {\"amount\": 200},
    \"badBody\": {\"amount\": \"much\"},
    \"effects\": {\"path\": \"/orders?reference=conformance-{{unique}}\", \"pointer\": \"/items\"}
  }
It makes real effects: run it against a test system. Exits with 1 if a clause is broken.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Judge a service by the clauses of the Idempotency-Key contract, from outside.
    #[command(after_help = EXAMPLES)]
    Idempotency(IdempotencyOptions),
}

#[derive(Debug, clap::Args)]
struct IdempotencyOptions {
    /// The service.
    #[arg(long, value_name = "URL", value_parser = word)]
    url: String,
    /// File that describes the requests, in JSON or YAML; - is standard input.
    #[arg(long, value_name = "PATH")]
    config: PathBuf,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let Command::Idempotency(options) = options.command;
    let config = read(&options.config)?;
    let suite = Suite::new(&options.url, config)?;
    let tell = |verdict: &Verdict| {
        if is_watched() {
            say(&format!("{}  {}", word_for(&verdict.outcome), verdict.title));
        }
    };
    let report = suite.run_telling(tell).await?;
    options.shape.show_all(&report.clauses, || table(&report))?;
    match (report.is_passed(), report.list_failed()) {
        (true, _) => Ok(()),
        (false, failed) if failed.is_empty() => bail!("no clause was judged; the config gives too little"),
        (false, failed) => {
            bail!("{} of {} clauses are broken: {}", failed.len(), report.clauses.len(), failed.join(", "))
        }
    }
}

fn read(path: &std::path::Path) -> Result<Config> {
    let text = bounded_file::read_text(path, MAX_DOCUMENT_BYTES)?;
    let shown = plain(&path.display().to_string());
    match text.trim_start().starts_with('{') {
        true => serde_json::from_str(&text).with_context(|| format!("{shown} is no config")),
        false => {
            serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{shown} is no config: {error}"))
        }
    }
}

fn word_for(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed ",
        Outcome::Failed { .. } => "FAILED ",
        Outcome::Skipped { .. } => "skipped",
    }
}

fn table(report: &Report) -> String {
    let mut table = tables::table(["clause", "", "what is looked at"]);
    for verdict in &report.clauses {
        table.add_row([verdict.id, word_for(&verdict.outcome).trim(), verdict.title]);
    }
    let mut text = format!("{table}\n");
    for verdict in &report.clauses {
        match &verdict.outcome {
            Outcome::Passed => {}
            Outcome::Failed { expected, saw } => {
                let (says, source) = (verdict.says, verdict.source);
                let (id, expected, saw) = (verdict.id, plain(expected), plain(saw));
                text.push_str(&format!(
                    "\n{id}: {says} ({source})\n  expected: {expected}\n  saw:      {saw}\n"
                ));
            }
            Outcome::Skipped { why } => {
                text.push_str(&format!("\n{}: skipped, {}\n", verdict.id, plain(why)))
            }
        }
    }
    text
}
