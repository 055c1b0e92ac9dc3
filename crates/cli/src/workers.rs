//! `hapax workers`: who is connected to run workflow code, tasks and actions.

mod push;

use anyhow::Result;
use hapax_api::{WorkerSession, WorkerVersionStatus, WorkerWorkflowVersion};

use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax workers list
  hapax workers list --json | jq -r .sessionId
  hapax workers versions
  hapax workers push register order-function https://functions.example/hapax --workflow order@1";

const VERSION_EXAMPLES: &str = "\
Examples:
  hapax workers versions
  hapax workers versions --json | jq -r 'select(.status == \"drained\") | \"\\(.name)@\\(.version)\"'

A version is current (new runs begin with it), draining (older, with open runs), stranded (with open runs, but nobody offers it),
or drained (its code can be removed).";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the workers that are connected to any node, the oldest first.
    #[command(after_help = EXAMPLES)]
    List(ListOptions),
    /// List versions of workflows whose code workers have, with their open runs: what still needs old code.
    #[command(after_help = VERSION_EXAMPLES)]
    Versions(ListOptions),
    /// Manage push workers: functions that cannot poll, and get their work as signed requests.
    Push(push::Options),
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    match options.command {
        Command::Push(options) => push::run(options, &client, server).await,
        Command::List(ListOptions { limit, shape }) => {
            let found = limit.read(async |paging| client.list_worker_sessions(&paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Versions(ListOptions { limit, shape }) => {
            let found = limit.read(async |paging| client.list_worker_workflows(&paging).await).await?;
            shape.show_all(&found, || version_table(&found))
        }
    }
}

fn version_table(found: &[WorkerWorkflowVersion]) -> String {
    let mut table = tables::table(["workflow", "version", "status", "open runs", "sessions"]);
    for version in found {
        table.add_row([
            tables::plain(&version.name),
            version.version.to_string(),
            match version.status {
                WorkerVersionStatus::Current => "current".into(),
                WorkerVersionStatus::Draining => "draining".into(),
                WorkerVersionStatus::Stranded => "stranded".into(),
                WorkerVersionStatus::Drained => "drained".into(),
            },
            version.open_runs.to_string(),
            version.sessions.len().to_string(),
        ]);
    }
    format!("{table}\n")
}

fn table(found: &[WorkerSession]) -> String {
    let mut table =
        tables::table(["session", "name", "instance", "workflows", "tasks", "actions", "runs", "under way"]);
    for session in found {
        let workflows: Vec<String> = session
            .workflows
            .iter()
            .map(|workflow| format!("{}@{}", workflow.name, workflow.version))
            .collect();
        table.add_row([
            session.session_id.clone(),
            tables::plain(&session.name),
            or_dash(session.instance.as_deref()),
            tables::plain(&workflows.join(", ")),
            tables::plain(&session.tasks.join(", ")),
            tables::plain(&session.actions.join(", ")),
            session.run_count.to_string(),
            format!("{} of {}", session.under_way, session.concurrency),
        ]);
    }
    format!("{table}\n")
}
