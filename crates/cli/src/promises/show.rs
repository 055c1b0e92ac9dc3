//! `hapax promises show`.

use std::time::Duration;

use anyhow::Result;
use hapax_api::PromiseStatus;

use super::promise;
use super::sheet::sheet;
use crate::exit_codes::NotYet;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax promises show id:run_018f…:payment
  hapax promises show key:stripe:ch_1 --wait 30 --json | jq .value

With --wait, one that is still pending after that time is shown and exits with 7.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The promise, as id:ID or key:KEY.
    #[arg(value_name = "PROMISE", value_parser = promise)]
    named: String,
    /// How long to wait for it to be settled.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=60))]
    wait: u64,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let wait = Duration::from_secs(options.wait);
    let found = server.connect()?.get_promise(&options.named, wait).await?;
    options.shape.show(&found, || sheet(&found))?;
    match !wait.is_zero() && found.status == PromiseStatus::Pending {
        true => Err(NotYet(format!("{} is not settled yet", options.named)).into()),
        false => Ok(()),
    }
}
