//! `hapax promises early`.

use anyhow::Result;
use hapax_api::EarlySettlement;

use super::promise_table::json;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;

const EXAMPLES: &str = "\
Examples:
  hapax promises early
  hapax promises early --json | jq -r .idempotencyKey

Each waits for a promise with its key. `hapax keys release promise KEY` throws one away.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let found = options.limit.read(async |paging| client.list_early_settlements(&paging).await).await?;
    options.shape.show_all(&found, || table(&found))
}

fn table(found: &[EarlySettlement]) -> String {
    if found.is_empty() {
        return "no settlement waits for its promise\n".into();
    }
    let mut table = tables::table(["key", "status", "came", "kept until", "value or failure"]);
    for early in found {
        let failure = early.failure.as_ref().map(|failure| tables::plain(&failure.message));
        let said = early.value.as_ref().map(json).or(failure);
        table.add_row([
            tables::plain(&early.idempotency_key),
            spelled(&early.status),
            early.received_at.clone(),
            early.expires_at.clone(),
            said.unwrap_or_else(|| "-".into()),
        ]);
    }
    format!("{table}\n")
}
