//! `hapax start`.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use hapax_api::{CreateRun, Priority};

use crate::output::say;
use crate::output::shape::{Shape, ShapeOptions};
use crate::parsers::{InputOptions, duration, word};
use crate::request_options::KeyOptions;
use crate::runs::watch;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;
use crate::workflow_ref::DEFINITION_PREFIX;

const EXAMPLES: &str = "\
Examples:
  hapax start order --input '{\"order\":789}' --key order-789
  hapax start order@2 --input-file order.json --key order-790 --watch
  echo '{\"order\":791}' | hapax start order --input-file - --key order-791 --json | jq -r .run.id

A second start with the same --key and the same input gets the same run (created: false). With another input it exits with 6 and
names the paths that differ. Without --key each call starts a run; a workflow that requires a key rejects it.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PriorityName {
    /// After all others.
    Low,
    /// The default.
    Normal,
    /// Before all others.
    High,
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The workflow: NAME for its latest version, NAME@VERSION, or a definition id.
    #[arg(value_parser = word)]
    workflow: String,
    #[command(flatten)]
    input: InputOptions,
    /// Idempotency key of the run: what triggers it, such as an order number.
    #[arg(long, value_name = "KEY", value_parser = word)]
    key: Option<String>,
    /// Subject of the run. At most one run per workflow and subject is open.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    subject: Option<String>,
    /// Time before the run begins, such as 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    delay: Option<Duration>,
    /// Time after which the run is cancelled if it has not ended, such as 24h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    deadline: Option<Duration>,
    /// Which due runs go first.
    #[arg(long, value_enum, default_value_t = PriorityName::Normal)]
    priority: PriorityName,
    /// Watch the run until it ends.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    request: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let is_definition_id = options.workflow.starts_with(DEFINITION_PREFIX);
    let request = CreateRun {
        workflow: (!is_definition_id).then(|| options.workflow.clone()),
        definition_id: is_definition_id.then_some(options.workflow),
        input: options.input.read()?,
        idempotency_key: options.key,
        subject: options.subject,
        delay: options.delay.map(Into::into),
        timeout: options.deadline.map(Into::into),
        priority: match options.priority {
            PriorityName::Low => Priority::Low,
            PriorityName::Normal => Priority::Normal,
            PriorityName::High => Priority::High,
        },
    };
    // A key made up here would name nothing that triggers the run, and would satisfy a workflow that requires one.
    let created = match request.idempotency_key.is_some() || options.request.is_given() {
        true => client.create_run(&request, options.request.options()).await?,
        false => client.create_run_without_key(&request).await?,
    };
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
