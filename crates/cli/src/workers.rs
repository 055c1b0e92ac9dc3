//! `hapax workers`: who is connected to run workflow code, tasks and actions.

use anyhow::Result;
use hapax_api::{WorkerSession, WorkerVersionStatus, WorkerWorkflowVersion};

use crate::listing::LimitOptions;
use crate::output::for_people;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax workers list
  hapax workers list --json | jq -r .sessionId
  hapax workers versions";

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
    let mut table = for_people::table(["workflow", "version", "status", "open runs", "sessions"]);
    for version in found {
        table.add_row([
            for_people::plain(&version.name),
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
    let mut table = for_people::table([
        "session",
        "name",
        "instance",
        "workflows",
        "tasks",
        "actions",
        "runs",
        "under way",
    ]);
    for session in found {
        let workflows: Vec<String> = session
            .workflows
            .iter()
            .map(|workflow| format!("{}@{}", workflow.name, workflow.version))
            .collect();
        table.add_row([
            session.session_id.clone(),
            for_people::plain(&session.name),
            or_dash(session.instance.as_deref()),
            for_people::plain(&workflows.join(", ")),
            for_people::plain(&session.tasks.join(", ")),
            for_people::plain(&session.actions.join(", ")),
            session.run_count.to_string(),
            format!("{} of {}", session.under_way, session.concurrency),
        ]);
    }
    format!("{table}\n")
}
