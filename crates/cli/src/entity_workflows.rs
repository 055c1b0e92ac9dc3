//! `hapax entity-workflows`: which steps move which business objects, and who frees what a crash leaves claimed.

use std::path::PathBuf;

use anyhow::Result;
use hapax_api::client::{Client, ClientError, Document, Terms};
use hapax_api::{ClaimCover, Code, DiagramFormat, EntityWorkflow, EntityWorkflowSummary};

use crate::bounded_file;
use crate::exit_codes::Misused;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::{for_people, print, say};
use crate::server_options::ServerOptions;
use crate::spelling::or_dash;
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax entity-workflows put invoice.yaml
  hapax entity-workflows list
  hapax entity-workflows show invoices --mermaid

`hapax validate FILE` looks for errors without a server. A status that claims lead into needs a module with a janitor on the
server (`modules`); a document that names another is refused with 6.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Upload entity workflows, written in JSON or YAML; those that are there are replaced.
    #[command(
        after_help = "Examples:\n  hapax entity-workflows put invoice.yaml\n  hapax entity-workflows put workflows/*.yaml --json"
    )]
    Put(PutOptions),
    /// List entity workflows with their modules and transient statuses.
    #[command(
        after_help = "Examples:\n  hapax entity-workflows list\n  hapax entity-workflows list --json | jq -r .name"
    )]
    List(ListOptions),
    /// Show one with its document, or draw it.
    #[command(
        after_help = "Examples:\n  hapax entity-workflows show invoices -o yaml\n  hapax entity-workflows show invoices --mermaid\n  \
                      hapax entity-workflows show invoices --svg > invoices.svg"
    )]
    Show(ShowOptions),
}

#[derive(Debug, clap::Args)]
struct PutOptions {
    /// The documents; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Replace this version and no other.
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
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
    /// The name of the workflow.
    #[arg(value_parser = word)]
    name: String,
    /// Draw its state machine as text for Mermaid.
    #[arg(long, conflicts_with_all = ["svg", "shape", "json"])]
    mermaid: bool,
    /// Draw its state machine as a picture.
    #[arg(long, conflicts_with_all = ["shape", "json"])]
    svg: bool,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Put(options) => put_all(options, server).await,
        Command::List(ListOptions { limit, shape }) => {
            let client = server.connect()?;
            let found = limit.read(async |paging| client.list_entity_workflows(&paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Show(ShowOptions { name, mermaid: false, svg: false, shape }) => {
            let found = server.connect()?.get_entity_workflow(&name).await?;
            shape.show(&found, || sheet(&found))
        }
        Command::Show(ShowOptions { name, svg, .. }) => {
            let format = if svg { DiagramFormat::Svg } else { DiagramFormat::Mermaid };
            let drawn = server.connect()?.draw_entity_workflow(&name, format).await?;
            print(&format!("{}\n", for_people::without_commands(drawn.trim_end())))
        }
    }
}

async fn put_all(PutOptions { files, if_version, shape }: PutOptions, server: &ServerOptions) -> Result<()> {
    if if_version.is_some() && files.len() > 1 {
        return Err(Misused("--if-version is about one document; name one".into()).into());
    }
    let client = server.connect()?;
    for file in files {
        let text = bounded_file::read_text(&file, MAX_DOCUMENT_BYTES)?;
        let (workflow, what) = put(&client, &text, if_version).await?;
        for warning in &workflow.warnings {
            let (path, message) = (for_people::plain(&warning.path), for_people::plain(&warning.message));
            say(&format!("warning at {path}: {message}"));
        }
        shape.show_all(std::slice::from_ref(&workflow), || {
            let EntityWorkflowSummary { name, entity_type: entity, version, .. } = &workflow.summary;
            format!("{name} (version {version}) {what}; it moves entities of the type {entity}\n")
        })?;
    }
    Ok(())
}

/// Makes the workflow, or replaces the one that is there as it was seen, so that a change of somebody else is not lost.
async fn put(client: &Client, text: &str, if_version: Option<u64>) -> Result<(EntityWorkflow, &'static str)> {
    let document = match text.trim_start().starts_with('{') {
        true => Document::Json(text),
        false => Document::Yaml(text),
    };
    let refused = match if_version {
        Some(_) => None,
        None => match client.create_entity_workflow(document, Terms::default()).await {
            Ok(made) if made.is_new => return Ok((made.value, "made")),
            Ok(made) => return Ok((made.value, "was there already, and says the same")),
            Err(ClientError::Refused(problem)) if problem.code == Code::NameTaken => Some(problem),
            Err(error) => return Err(error.into()),
        },
    };
    let checked =
        hapax_documents::check_entity(text, hapax_documents::Format::Any, &hapax_documents::Known::default());
    let Ok(checked) = checked else {
        return Err(Misused("the document has errors; `hapax validate FILE` shows them all".into()).into());
    };
    let seen = refused.and_then(|problem| problem.more.get("version").and_then(serde_json::Value::as_u64));
    let name = checked.document().workflow().name.to_string();
    let put = client.put_entity_workflow(&name, document, if_version.or(seen)).await?;
    Ok((put.value, if put.is_new { "made" } else { "replaced" }))
}

fn table(found: &[EntityWorkflowSummary]) -> String {
    if found.is_empty() {
        return "there are no entity workflows\n".into();
    }
    let mut table =
        for_people::table(["name", "entity", "module", "table", "version", "claims into", "description"]);
    for workflow in found {
        let claims: Vec<&str> = workflow.claims.iter().map(|claim| claim.claim_into.as_str()).collect();
        table.add_row([
            workflow.name.clone(),
            workflow.entity_type.clone(),
            workflow.module.clone(),
            or_dash(workflow.table.as_deref()),
            workflow.version.to_string(),
            or_dash((!claims.is_empty()).then(|| claims.join(", ")).as_deref()),
            or_dash(workflow.description.as_deref()),
        ]);
    }
    format!("{table}\n")
}

fn sheet(workflow: &EntityWorkflow) -> String {
    let document = serde_json::from_str::<serde_json::Value>(workflow.document.text());
    let document = document.and_then(|document| serde_json::to_string_pretty(&document)).unwrap_or_default();
    let EntityWorkflowSummary {
        name,
        module,
        entity_type: entity,
        table,
        claims,
        version,
        created_at,
        changed_at,
        ..
    } = &workflow.summary;
    let claims: String = claims.iter().map(claim).collect();
    format!(
        "name     {name}\nentity   {entity}\nmodule   {module}\ntable    {}\nversion  {version}\nmade     {created_at}\nchanged  {changed_at}\n{claims}\n{}\n",
        or_dash(table.as_deref()),
        for_people::without_commands(&document)
    )
}

fn claim(claim: &ClaimCover) -> String {
    let ClaimCover { claim_into, revert_to, covered_by } = claim;
    match covered_by {
        Some(module) => {
            format!("claim    {claim_into}, back to {revert_to}; freed by the janitor of {module}\n")
        }
        None => {
            format!("claim    {claim_into}, back to {revert_to}; NO janitor on this node would free it\n")
        }
    }
}
