//! `hapax workflows`: workflow documents on a server, and their versions.

use anyhow::Result;
use hapax_api::{Definition, DefinitionSummary};

use crate::listing::LimitOptions;
use crate::output::for_people;
use crate::output::shape::ShapeOptions;
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};
use crate::workflow_ref::get_definition_id;

const EXAMPLES: &str = "\
Examples:
  hapax apply order.yaml                       upload one
  hapax workflows list
  hapax workflows show order -o yaml           its latest version
  hapax workflows show order@1";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the workflows of the workspace, with their versions.
    #[command(after_help = "Examples:\n  hapax workflows list\n  hapax workflows list --json | jq -r .id")]
    List(ListOptions),
    /// Show one version of a workflow with its document.
    #[command(after_help = "Examples:\n  hapax workflows show order\n  hapax workflows show order -o yaml")]
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
struct ShowOptions {
    /// The workflow: NAME for its latest version, NAME@VERSION, or a definition id.
    #[arg(value_parser = word)]
    workflow: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    match options.command {
        Command::List(ListOptions { limit, shape }) => {
            let found = limit.read(async |paging| client.list_definitions(&paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Show(ShowOptions { workflow, shape }) => {
            let id = get_definition_id(&client, &workflow).await?;
            let found = client.get_definition(&id).await?;
            shape.show(&found, || sheet(&found))
        }
    }
}

fn table(found: &[DefinitionSummary]) -> String {
    if found.is_empty() {
        return "there are no workflows\n".into();
    }
    let mut table = for_people::table(["id", "name", "version", "key", "uploaded", "description"]);
    for definition in found {
        table.add_row([
            definition.id.clone(),
            definition.name.clone(),
            definition.version.to_string(),
            spelled(&definition.idempotency),
            definition.created_at.clone(),
            or_dash(definition.description.as_deref()),
        ]);
    }
    format!("{table}\n")
}

fn sheet(definition: &Definition) -> String {
    let document = serde_json::from_str::<serde_json::Value>(definition.document.text());
    let document = document.and_then(|document| serde_json::to_string_pretty(&document)).unwrap_or_default();
    let Definition { id, name, version, created_at, digest, .. } = definition;
    format!(
        "id        {id}\nname      {name}\nversion   {version}\nkey       {}\nuploaded  {created_at}\ndigest    {digest}\n\n{}\n",
        spelled(&definition.idempotency),
        for_people::without_commands(&document)
    )
}
