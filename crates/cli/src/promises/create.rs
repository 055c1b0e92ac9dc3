//! `hapax promises create`.

use std::time::Duration;

use anyhow::Result;
use hapax_api::{CreatePromise, RawJson};

use super::promise_table::sheet;
use crate::output::shape::ShapeOptions;
use crate::parsers::{duration, json, seconds, word};
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax promises create --key stripe:ch_1 --timeout 1h
  hapax promises create --id approval-7 --about '{\"order\":7}' --json | jq -r .id

A settlement under the key that came before settles it at once.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the promise [default: a new one].
    #[arg(long, value_name = "ID", value_parser = word)]
    id: Option<String>,
    /// Business key of the promise. Lets callers settle it without knowing its id.
    #[arg(long, value_name = "KEY", value_parser = word)]
    key: Option<String>,
    /// How long the key still names the promise once it is settled [default: 1d].
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "key")]
    key_ttl: Option<Duration>,
    /// Time after which the promise times out, such as 24h.
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "deadline")]
    timeout: Option<Duration>,
    /// Instant at which the promise times out, such as 2030-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = word)]
    deadline: Option<String>,
    /// Data to store with the promise.
    #[arg(long, value_name = "JSON", value_parser = json)]
    about: Option<RawJson>,
    #[command(flatten)]
    request: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let asked = CreatePromise {
        id: options.id,
        idempotency_key: options.key,
        idempotency_key_ttl_seconds: options.key_ttl.map(seconds),
        timeout: options.timeout.map(Into::into),
        deadline_at: options.deadline,
        about: options.about,
    };
    let made = server.connect()?.create_promise(&asked, options.request.options()).await?;
    options.shape.show(&made, || sheet(&made))
}
