//! `hapax promises token`.

use anyhow::Result;
use hapax_api::CreateSettleToken;

use super::promise;
use crate::output::say;
use crate::output::shape::{Shape, ShapeOptions};
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax promises token key:stripe:ch_1
  hapax promises token id:approval-7 --expires-in-seconds 3600 --json | jq -r .url

Whoever has the address settles the promise with one POST, without an API key: {\"value\": …} or {\"reject\": {\"message\": \"…\"}}.
Opening it in a browser changes nothing.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The promise, as id:ID or key:KEY.
    #[arg(value_name = "PROMISE", value_parser = promise)]
    named: String,
    /// How long it works; a week if nothing is said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    expires_in_seconds: Option<u64>,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let asked = CreateSettleToken {
        expires_in: options.expires_in_seconds.map(|seconds| std::time::Duration::from_secs(seconds).into()),
    };
    let issued = server.connect()?.create_settle_token(&options.named, &asked).await?;
    if options.shape.shape() == Shape::Table {
        say("whoever has the address may settle the promise; it is shown this once");
    }
    options.shape.show(&issued, || format!("url      {}\nexpires  {}\n", issued.url, issued.expires_at))
}
