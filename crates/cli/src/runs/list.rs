//! `hapax runs list`.

use anyhow::Result;
use hapax_api::client::RunFilter;
use hapax_api::{Run, RunStatus};

use crate::listing::LimitOptions;
use crate::output::for_people;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;
use crate::spelling::{or_dash, spelled};
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax runs list
  hapax runs list --status FAILED,PAUSED --workflow order
  hapax runs list --needs-attention             what people must look at, and why
  hapax runs list --status FAILED --json | jq -r .id";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Only with one of these statuses, separated by commas.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    status: Vec<RunStatus>,
    /// Only of this workflow.
    #[arg(long, value_name = "NAME", value_parser = word)]
    workflow: Option<String>,
    /// Only those that stand still until people do something.
    #[arg(long)]
    needs_attention: bool,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

fn status(text: &str) -> Result<RunStatus, String> {
    let word = serde_json::Value::String(text.to_ascii_uppercase());
    serde_json::from_value(word)
        .map_err(|_| "use PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED or CANCELLED".into())
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let filter = RunFilter {
        statuses: options.status,
        workflow: options.workflow,
        needs_attention: options.needs_attention,
    };
    let runs = options.limit.read(async |paging| client.list_runs(&filter, &paging).await).await?;
    options.shape.show_all(&runs, || table(&runs))
}

fn table(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "there are no such runs\n".into();
    }
    let mut table =
        for_people::table(["run", "status", "workflow", "version", "key", "changed", "needs", "failure"]);
    for run in runs {
        let failure = run.failure.as_ref().map(|failure| failure.message.as_str());
        table.add_row([
            run.id.clone(),
            spelled(&run.status),
            for_people::plain(&run.workflow),
            run.version.to_string(),
            or_dash(run.idempotency_key.as_deref()),
            run.changed_at.clone(),
            run.needs_attention.as_ref().map_or_else(|| "-".into(), |needs| spelled(&needs.reason)),
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
        assert_eq!(status("failed"), Ok(RunStatus::Failed));
        assert_eq!(status("PAUSED"), Ok(RunStatus::Paused));
        assert!(status("lost").unwrap_err().contains("COMPLETED"));
    }
}
