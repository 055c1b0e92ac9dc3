//! `hapax promises list`.

use anyhow::Result;
use hapax_api::client::PromiseFilter;
use hapax_api::{Promise, PromiseStatus};

use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax promises list --status PENDING
  hapax promises list --run run_018f…
  hapax promises list --stand-alone --json | jq -r .id";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Only of this run.
    #[arg(long, value_name = "RUN", value_parser = word, conflicts_with = "stand_alone")]
    run: Option<String>,
    /// Only items with this status.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<PromiseStatus>,
    /// Only promises without a run.
    #[arg(long)]
    stand_alone: bool,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

fn status(text: &str) -> Result<PromiseStatus, String> {
    let word = serde_json::Value::String(text.to_ascii_uppercase());
    serde_json::from_value(word)
        .map_err(|_| "use PENDING, RESOLVED, REJECTED, CANCELLED, TIMED_OUT or KEY_TAKEN".into())
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let filter = PromiseFilter { run: options.run, status: options.status, stand_alone: options.stand_alone };
    let found = options.limit.read(async |paging| client.list_promises(&filter, &paging).await).await?;
    options.shape.show_all(&found, || table(&found))
}

fn table(promises: &[Promise]) -> String {
    if promises.is_empty() {
        return "there are no such promises\n".into();
    }
    let mut table = tables::table(["promise", "status", "key", "made", "times out", "settled", "failure"]);
    for promise in promises {
        let failure = promise.failure.as_ref().map(|failure| failure.message.as_str());
        table.add_row([
            tables::plain(&promise.id),
            spelled(&promise.status),
            or_dash(promise.idempotency_key.as_deref()),
            promise.created_at.clone(),
            or_dash(promise.deadline_at.as_deref()),
            or_dash(promise.settled_at.as_deref()),
            or_dash(failure),
        ]);
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_known_in_either_case() {
        assert_eq!(status("timed_out"), Ok(PromiseStatus::TimedOut));
        assert_eq!(status("PENDING"), Ok(PromiseStatus::Pending));
        assert!(status("open").unwrap_err().contains("RESOLVED"));
    }
}
