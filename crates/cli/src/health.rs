//! `hapax health`: checks liveness or readiness. For health checks in containers without another
//! HTTP client.

use std::time::Duration;

use anyhow::Result;
use hapax_api::client::Client;

use crate::output;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax health                     alive: for whoever restarts a process that hangs
  hapax health --ready             ready: the store answers and takes writes
  hapax health --server https://hapax.internal

It takes no API key, and asks once. Exits with 0 if all is well, with 3 if nobody answers, and with 7 if the server is not ready.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Check readiness instead of liveness.
    #[arg(long)]
    ready: bool,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = Client::without_key(&server.name()?)?.patience(Duration::ZERO);
    match options.ready {
        false => drop(client.get_health().await?),
        true => drop(client.get_readiness().await?),
    }
    output::print("ok\n")
}
