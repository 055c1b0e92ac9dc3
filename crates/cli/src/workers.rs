//! `hapax workers`: who is connected to run workflow code, tasks and actions.

use anyhow::Result;
use hapax_api::WorkerSession;

use crate::listing::LimitOptions;
use crate::output::for_people;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax workers list
  hapax workers list --json | jq -r .sessionId";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the workers that are connected to the node that answers, the oldest first.
    #[command(after_help = EXAMPLES)]
    List(ListOptions),
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let Command::List(ListOptions { limit, shape }) = options.command;
    let client = server.connect()?;
    let found = limit.read(async |paging| client.list_worker_sessions(&paging).await).await?;
    shape.show_all(&found, || table(&found))
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
