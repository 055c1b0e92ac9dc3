//! `hapax runs reveal`.

use anyhow::Result;
use hapax_api::RevealRun;

use super::show::sheet;
use crate::output::shape::ShapeOptions;
use crate::parsers::word;
use crate::person::not_blank;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax runs reveal run_018f… --reason 'the customer asks for a copy'
  hapax runs reveal run_018f… --reason 'ticket 4711' --json | jq .run.input

This needs the permission `reveal`, which managers have. The audit log keeps who looked, and why.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the run.
    #[arg(value_parser = word)]
    run: String,
    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: String,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Options { run, reason, key, shape } = options;
    let detail = server.connect()?.reveal_run(&run, &RevealRun { reason }, key.options()).await?;
    shape.show(&detail, || sheet(&detail, jiff::Timestamp::now()))
}
