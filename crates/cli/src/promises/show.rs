//! `hapax promises show`.

use std::time::Duration;

use anyhow::Result;
use hapax_api::PromiseStatus;

use super::promise;
use super::promise_table::sheet;
use crate::exit_codes::NotFinished;
use crate::output::shape::ShapeOptions;
use crate::parsers::{seconds, wait_time};
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax promises show id:run_018f…:payment
  hapax promises show key:stripe:ch_1 --wait 30s --json | jq .value

With --wait, one that is still pending after that time is shown and exits with 7.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The promise, as id:ID or key:KEY.
    #[arg(value_name = "PROMISE", value_parser = promise)]
    named: String,
    /// How long to wait for it to be settled.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = wait_time)]
    wait: Duration,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    // In whole seconds on the wire.
    let wait = Duration::from_secs(seconds(options.wait));
    let found = server.connect()?.get_promise(&options.named, wait).await?;
    options.shape.show(&found, || sheet(&found))?;
    match !wait.is_zero() && found.status == PromiseStatus::Pending {
        true => Err(NotFinished(format!("{} is not settled yet", options.named)).into()),
        false => Ok(()),
    }
}
