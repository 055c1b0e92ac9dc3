//! `hapax workflows`: workflow documents on a server, and their versions.

use anyhow::Result;
use hapax_api::client::RequestOptions;
use hapax_api::{ChangeDefinition, Definition, DefinitionStatus, DefinitionSummary};

use crate::confirmation::confirm;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::parsers::word;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};
use crate::workflow_ref::get_definition_id;

const EXAMPLES: &str = "\
Examples:
  hapax apply order.yaml                       upload one
  hapax workflows list
  hapax workflows show order -o yaml           its latest version
  hapax workflows show order@1
  hapax workflows archive order@1 --reason 'order@2 replaces it'
  hapax workflows delete order@1";

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
    /// Archive a version: it starts no new runs. Its runs go on.
    #[command(after_help = "Examples:\n  hapax workflows archive order@1 --reason 'order@2 replaces it'")]
    Archive(ChangeOptions),
    /// Let an archived version start runs again.
    #[command(after_help = "Examples:\n  hapax workflows unarchive order@1")]
    Unarchive(ChangeOptions),
    /// Delete a version that no open run needs.
    #[command(
        after_help = "Examples:\n  hapax workflows delete order@1 --reason 'never used' --yes\n\nWith open runs it exits with 6 and says how many there are."
    )]
    Delete(ChangeOptions),
}

#[derive(Debug, clap::Args)]
struct ChangeOptions {
    /// The workflow: NAME@VERSION, NAME for its latest version, or a definition id.
    #[arg(value_parser = word)]
    workflow: String,
    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
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
        Command::Archive(options) => {
            let changed = change(options, DefinitionStatus::Archived, server).await?;
            changed.shape.show(&changed.definition, || format!("{} starts no new runs\n", changed.name()))
        }
        Command::Unarchive(options) => {
            let changed = change(options, DefinitionStatus::Active, server).await?;
            changed.shape.show(&changed.definition, || format!("{} starts runs again\n", changed.name()))
        }
        Command::Delete(ChangeOptions { workflow, reason, key, shape }) => {
            let (id, options) = (get_definition_id(&client, &workflow).await?, key.options());
            let found = client.get_definition(&id).await?;
            confirm(&format!("delete {}@{}", tables::plain(&found.name), found.version), server).await?;
            let options = RequestOptions { if_version: Some(found.revision), ..options };
            let deleted = client.delete_definition(&id, reason.as_deref(), options).await?;
            shape.show(&deleted, || {
                format!("{}@{} is deleted\n", tables::plain(&deleted.name), deleted.version)
            })
        }
    }
}

struct Changed {
    definition: Definition,
    shape: ShapeOptions,
}

impl Changed {
    fn name(&self) -> String {
        format!("{}@{}", tables::plain(&self.definition.name), self.definition.version)
    }
}

async fn change(options: ChangeOptions, status: DefinitionStatus, server: &ServerOptions) -> Result<Changed> {
    let ChangeOptions { workflow, reason, key, shape } = options;
    let client = server.connect()?;
    let id = get_definition_id(&client, &workflow).await?;
    let asked = ChangeDefinition { status, reason };
    let definition = client.change_definition(&id, &asked, key.options()).await?;
    Ok(Changed { definition, shape })
}

fn table(found: &[DefinitionSummary]) -> String {
    if found.is_empty() {
        return "there are no workflows\n".into();
    }
    let mut table = tables::table(["id", "name", "version", "status", "key", "uploaded", "description"]);
    for definition in found {
        table.add_row([
            definition.id.clone(),
            definition.name.clone(),
            definition.version.to_string(),
            spelled(&definition.status),
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
        "id        {id}\nname      {name}\nversion   {version}\nstatus    {}\nkey       {}\nuploaded  {created_at}\ndigest    {digest}\n\n{}\n",
        spelled(&definition.status),
        spelled(&definition.idempotency),
        tables::without_commands(&document)
    )
}
