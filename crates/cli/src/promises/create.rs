//! `hapax promises create`.

use anyhow::Result;
use hapax_api::{CreatePromise, RawJson};

use super::sheet::sheet;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;
use crate::terms::KeyOptions;
use crate::words::{json, word};

const EXAMPLES: &str = "\
Examples:
  hapax promises create --key stripe:ch_1 --timeout-ms 3600000
  hapax promises create --id approval-7 --about '{\"order\":7}' --json | jq -r .id

A settlement under the key that came before settles it at once.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Its id; one is made if none is given.
    #[arg(long, value_name = "ID", value_parser = word)]
    id: Option<String>,
    /// Its business key, by which others find it.
    #[arg(long, value_name = "KEY", value_parser = word)]
    key: Option<String>,
    /// For how long the key still names it once it is over; a day if nothing is said.
    #[arg(long, value_name = "N", requires = "key")]
    key_ttl_seconds: Option<u64>,
    /// It times out after this many milliseconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "deadline")]
    timeout_ms: Option<u64>,
    /// It times out then, such as 2030-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = word)]
    deadline: Option<String>,
    /// What you want to say about it.
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
        idempotency_key_ttl_seconds: options.key_ttl_seconds,
        timeout: options.timeout_ms.map(|ms| std::time::Duration::from_millis(ms).into()),
        deadline_at: options.deadline,
        about: options.about,
    };
    let made = server.connect()?.create_promise(&asked, options.request.terms()).await?;
    options.shape.show(&made, || sheet(&made))
}
