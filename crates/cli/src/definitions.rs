//! `hapax definitions`: documents that the server can run.

use std::path::PathBuf;

use anyhow::Result;
use hapax_api::client::Document;
use hapax_api::{Definition, DefinitionSummary};

use crate::bounded_file;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::listing::LimitOptions;
use crate::output::for_people;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;
use crate::spelling::{or_dash, spelled};
use crate::terms::KeyOptions;
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax definitions list
  hapax definitions upload order.yaml
  hapax definitions show DEFINITION -o yaml

A version never changes: the same document again is found, another one under the same name and version is refused with 6.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the definitions of the workspace.
    #[command(
        after_help = "Examples:\n  hapax definitions list\n  hapax definitions list --json | jq -r .id"
    )]
    List(ListOptions),
    /// Show one definition with its document.
    #[command(
        after_help = "Examples:\n  hapax definitions show DEFINITION\n  hapax definitions show DEFINITION -o yaml"
    )]
    Show(ShowOptions),
    /// Upload a document, written in JSON or YAML.
    #[command(
        after_help = "Examples:\n  hapax definitions upload order.yaml\n  generate | hapax definitions upload - --json\n\n\
                      `hapax validate FILE` looks for errors without a server."
    )]
    Upload(UploadOptions),
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
    /// The definition's id.
    #[arg(value_parser = word)]
    id: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct UploadOptions {
    /// The document; - is standard input.
    file: PathBuf,
    #[command(flatten)]
    key: KeyOptions,
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
        Command::Show(ShowOptions { id, shape }) => {
            let found = client.get_definition(&id).await?;
            shape.show(&found, || sheet(&found))
        }
        Command::Upload(UploadOptions { file, key, shape }) => {
            let text = bounded_file::read_text(&file, MAX_DOCUMENT_BYTES)?;
            let document = match text.trim_start().starts_with('{') {
                true => Document::Json(&text),
                false => Document::Yaml(&text),
            };
            let made = client.upload_definition(document, key.terms()).await?;
            let what = if made.is_new { "uploaded" } else { "was there already, with the same content" };
            let definition = &made.value;
            shape.show(definition, || {
                format!("{} (version {} of {}) {what}\n", definition.id, definition.version, definition.name)
            })
        }
    }
}

fn table(found: &[DefinitionSummary]) -> String {
    if found.is_empty() {
        return "there are no definitions\n".into();
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
