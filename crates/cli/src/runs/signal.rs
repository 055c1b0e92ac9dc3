//! `hapax runs signal`.

use anyhow::Result;
use hapax_api::{RawJson, SendSignal};

use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::{json, word};
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax runs signal run_018f… paid --value '{\"receipt\":41}' --id payment-41
  hapax runs signal run_018f… stop

A signal is kept until the run asks for it. A second one with the same --id is not a second signal.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the run.
    #[arg(value_parser = word)]
    run: String,
    /// Name of the signal.
    #[arg(value_parser = word)]
    name: String,
    /// Value of the signal, as JSON.
    #[arg(long, value_name = "JSON", value_parser = json)]
    value: Option<RawJson>,
    /// Id of the signal: a second one with the same id is ignored.
    #[arg(long, value_name = "ID", value_parser = word)]
    id: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let asked = SendSignal { name: options.name, value: options.value, signal_id: options.id };
    let sent = server.connect()?.signal_run(&options.run, &asked, options.key.options()).await?;
    options.shape.show(&sent, || {
        let what = if sent.stored { "is kept for" } else { "was sent before to" };
        format!("{} {what} {}\n", plain(&asked.name), sent.run_id)
    })
}
