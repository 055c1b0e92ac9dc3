//! `hapax runs list`.

use anyhow::Result;
use hapax_api::client::RunFilter;
use hapax_api::{Run, RunStatus};
use jiff::Timestamp;

use crate::listing::{LimitOptions, each_page};
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::parsers::{duration, word};
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax runs list
  hapax runs list --status FAILED,PAUSED --workflow order
  hapax runs list --subject ORDER-4711
  hapax runs list --since 2h --all
  hapax runs list --status FAILED --step charge
  hapax runs list --waits-for promise:carrier:ch_19
  hapax runs list --needs-attention             runs that stand still until somebody acts, and why
  hapax runs list --status FAILED --all --json | jq -r .id";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Only runs with one of these statuses, separated by commas.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    status: Vec<RunStatus>,
    /// Only runs of this workflow: order, or order@2 for version 2.
    #[arg(long, value_name = "NAME", value_parser = word)]
    workflow: Option<String>,
    /// Only the run that this idempotency key names. A key that expired or was released names none.
    #[arg(long, value_name = "KEY", value_parser = word)]
    key: Option<String>,
    /// Only runs with this subject.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    subject: Option<String>,
    /// Only runs created since then: 2h for the last two hours, or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    since: Option<Timestamp>,
    /// Only runs created before then: 2h for two hours ago, or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    until: Option<Timestamp>,
    /// Only runs whose current step is this one.
    #[arg(long, value_name = "NAME", value_parser = word)]
    step: Option<String>,
    /// Only runs that wait for this: promise:KEY, promise:ID, signal:NAME, child or timer.
    #[arg(long, value_name = "WAIT", value_parser = word)]
    waits_for: Option<String>,
    /// Only runs that wait for a person to act.
    #[arg(long)]
    needs_attention: bool,
    /// Read all pages, whatever the limit.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
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

/// An instant, or how long ago it was.
fn instant(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let ago =
        duration(text).map_err(|_| "use a duration such as 2h, or a time such as 2026-01-31T12:00:00Z")?;
    Timestamp::now().checked_sub(ago).map_err(|_| "it is too long ago".into())
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let filter = RunFilter {
        statuses: options.status,
        workflow: options.workflow,
        subject: options.subject,
        key: options.key,
        since: options.since.map(|at| at.to_string()),
        until: options.until.map(|at| at.to_string()),
        current_step: options.step,
        waits_for: options.waits_for,
        needs_attention: options.needs_attention,
    };
    let fetch = async |paging| Ok(client.list_runs(&filter, &paging).await?);
    let runs = match options.all {
        true => {
            let mut runs = Vec::new();
            let take = |page| {
                runs.extend::<Vec<Run>>(page);
                Ok(())
            };
            each_page(fetch, take).await?;
            runs
        }
        false => options.limit.read(fetch).await?,
    };
    options.shape.show_all(&runs, || table(&runs))
}

fn table(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "there are no such runs\n".into();
    }
    let mut table =
        tables::table(["run", "status", "workflow", "key", "subject", "changed", "needs", "failure"]);
    for run in runs {
        let failure = run.failure.as_ref().map(|failure| failure.message.as_str());
        table.add_row([
            run.id.clone(),
            spelled(&run.status),
            tables::plain(&run.workflow),
            or_dash(run.idempotency_key.as_deref()),
            or_dash(run.subject.as_deref()),
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
    fn a_time_is_an_instant_or_a_duration_ago() {
        assert_eq!(instant("2026-01-01T00:00:00Z"), Ok("2026-01-01T00:00:00Z".parse().unwrap()));
        assert!(instant("2h").unwrap() < Timestamp::now());
        assert!(instant("yesterday").unwrap_err().contains("2h"));
    }

    #[test]
    fn a_status_is_known_in_either_case() {
        assert_eq!(status("failed"), Ok(RunStatus::Failed));
        assert_eq!(status("PAUSED"), Ok(RunStatus::Paused));
        assert!(status("lost").unwrap_err().contains("COMPLETED"));
    }
}
