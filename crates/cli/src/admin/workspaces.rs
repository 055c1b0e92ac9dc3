//! `hapax admin workspaces`: the workspaces of a server.

use anyhow::Result;
use hapax_api::{CreateWorkspace, Workspace};

use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::parsers::word;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax admin workspaces list
  hapax admin workspaces create emea --description 'orders of Europe'
  hapax admin workspaces show emea --json

To list and make workspaces takes an admin key of the installation.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the workspaces of the installation.
    #[command(
        after_help = "Examples:\n  hapax admin workspaces list\n  hapax admin workspaces list --json | jq -r .id"
    )]
    List(ListOptions),
    /// Create a workspace.
    #[command(
        after_help = "Examples:\n  hapax admin workspaces create emea --description 'orders of Europe'"
    )]
    Create(CreateOptions),
    /// Show one workspace.
    #[command(after_help = "Examples:\n  hapax admin workspaces show emea")]
    Show(ShowOptions),
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct CreateOptions {
    /// Its name: letters, digits, `.`, `_`, `-`.
    #[arg(value_parser = word)]
    name: String,
    /// For people.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    description: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct ShowOptions {
    /// The workspace's id.
    #[arg(value_parser = word)]
    id: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    match options.command {
        Command::List(ListOptions { limit, shape }) => {
            let found = limit.read(async |paging| client.list_workspaces(&paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Create(CreateOptions { name, description, key, shape }) => {
            let asked = CreateWorkspace { name, description };
            let made = client.create_workspace(&asked, key.options()).await?;
            let what = if made.is_new { "is made" } else { "was there already" };
            shape.show(&made.value, || format!("{} {what}\n", made.value.id))
        }
        Command::Show(ShowOptions { id, shape }) => {
            let found = client.get_workspace(&id).await?;
            shape.show(&found, || table(std::slice::from_ref(&found)))
        }
    }
}

fn table(found: &[Workspace]) -> String {
    if found.is_empty() {
        return "there are no workspaces\n".into();
    }
    let mut table = tables::table(["id", "name", "made", "description"]);
    for workspace in found {
        let description = or_dash(workspace.description.as_deref());
        table.add_row([
            workspace.id.clone(),
            workspace.name.clone(),
            workspace.created_at.clone(),
            description,
        ]);
    }
    format!("{table}\n")
}
