//! `hapax runs history`.

use anyhow::Result;
use hapax_api::RunEvent;

use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax runs history run_018f…
  hapax runs history run_018f… --json | jq -r .kind

One line for each change of the run: who took it, when it waited, who paused it and why. `hapax runs show` has its steps.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the run.
    #[arg(value_parser = word)]
    run: String,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let events = options.limit.read(async |paging| client.list_events(&options.run, &paging).await).await?;
    options.shape.show_all(&events, || table(&events))
}

fn table(events: &[RunEvent]) -> String {
    let mut table = tables::table(["version", "at", "what", "fence", "note"]);
    for event in events {
        table.add_row([
            event.version.to_string(),
            event.at.clone(),
            spelled(&event.kind),
            event.fence.to_string(),
            or_dash(event.note.as_deref()),
        ]);
    }
    format!("{table}\n")
}
