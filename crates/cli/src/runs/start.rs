//! `hapax runs start`.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use hapax_api::{CreateRun, Priority};

use super::watch;
use crate::output::say;
use crate::output::shape::{Shape, ShapeOptions};
use crate::server_options::ServerOptions;
use crate::spelling::spelled;
use crate::terms::KeyOptions;
use crate::words::{InputOptions, word};

const EXAMPLES: &str = "\
Examples:
  hapax runs start DEFINITION --input '{\"order\":789}' --key process-order-789
  hapax runs start DEFINITION --input-file order.json --watch
  echo '{\"order\":789}' | hapax runs start DEFINITION --input-file - --json | jq -r .run.id

A second start with the same --key and the same input gets the same run (created: false); with another input it is refused
with 6 and the paths that differ.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rank {
    /// After all others.
    Low,
    /// The usual one.
    Normal,
    /// Before all others.
    High,
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The definition to run, by its id.
    #[arg(value_parser = word)]
    definition: String,
    #[command(flatten)]
    input: InputOptions,
    /// Name the run, by what triggers it.
    #[arg(long, value_name = "KEY", value_parser = word)]
    key: Option<String>,
    /// What it is about; at most one run per definition and subject is open.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    subject: Option<String>,
    /// Begin this many milliseconds later.
    #[arg(long, value_name = "N")]
    delay_ms: Option<u64>,
    /// It must have ended this many milliseconds after it was accepted.
    #[arg(long, value_name = "N")]
    deadline_ms: Option<u64>,
    /// Its place among due runs.
    #[arg(long, value_enum, default_value_t = Rank::Normal)]
    priority: Rank,
    /// Watch it until it ends.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    request: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let asked = CreateRun {
        workflow: None,
        definition_id: Some(options.definition),
        input: options.input.read()?,
        idempotency_key: options.key,
        subject: options.subject,
        delay: options.delay_ms.map(|ms| Duration::from_millis(ms).into()),
        timeout: options.deadline_ms.map(|ms| Duration::from_millis(ms).into()),
        priority: match options.priority {
            Rank::Low => Priority::Low,
            Rank::Normal => Priority::Normal,
            Rank::High => Priority::High,
        },
    };
    let created = client.create_run(&asked, options.request.terms()).await?;
    let run = &created.run;
    if options.watch {
        if options.shape.shape() == Shape::Table {
            let what = if created.created { "started" } else { "was started before" };
            say(&format!("{} {what}", run.id));
        }
        return watch::watch(&client, &run.id, &options.shape).await;
    }
    options.shape.show(&created, || {
        let what = if created.created { "started" } else { "was started before under this key" };
        format!("{} {what}; it is {}\n", run.id, spelled(&run.status))
    })
}
