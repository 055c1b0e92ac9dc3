//! `hapax promises token`.

use std::time::Duration;

use anyhow::Result;
use hapax_api::CreateSettleToken;

use super::promise;
use crate::output::say;
use crate::output::shape::{Shape, ShapeOptions};
use crate::parsers::duration;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax promises token key:stripe:ch_1
  hapax promises token id:approval-7 --expires-in 1h --json | jq -r .url

Whoever has the address settles the promise with one POST, without an API key: {\"value\": …} or {\"reject\": {\"message\": \"…\"}}.
Opening it in a browser changes nothing.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// The promise, as id:ID or key:KEY.
    #[arg(value_name = "PROMISE", value_parser = promise)]
    named: String,
    /// How long the address works [default: 7d].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let asked = CreateSettleToken { expires_in: options.expires_in.map(Into::into) };
    let issued = server.connect()?.create_settle_token(&options.named, &asked).await?;
    if options.shape.shape() == Shape::Table {
        say("anyone with the address can settle the promise; it is shown only once");
    }
    options.shape.show(&issued, || format!("url      {}\nexpires  {}\n", issued.url, issued.expires_at))
}
