//! `hapax entities workflows`: entity workflows, with the janitors of their claims.

use anyhow::Result;
use hapax_api::{ClaimCover, DiagramFormat, EntityWorkflow, EntityWorkflowSummary};

use crate::confirmation::confirm;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::{print, tables};
use crate::parsers::word;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax apply invoice.yaml
  hapax entities workflows list
  hapax entities workflows show invoices --mermaid
  hapax entities workflows delete invoices --reason 'moved to another workspace'

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
    /// List entity workflows with their modules and transient statuses.
    #[command(
        after_help = "Examples:\n  hapax entities workflows list\n  hapax entities workflows list --json | jq -r .name"
    )]
    List(ListOptions),
    /// Show one with its document, or draw it.
    #[command(
        after_help = "Examples:\n  hapax entities workflows show invoices -o yaml\n  hapax entities workflows show invoices --mermaid\n  \
                      hapax entities workflows show invoices --svg > invoices.svg"
    )]
    Show(ShowOptions),
    /// Delete an entity workflow without open operations. Its entities stay.
    #[command(
        after_help = "Examples:\n  hapax entities workflows delete invoices --reason 'moved to another workspace' --yes\n\n\
                      Entities take steps again once a workflow for their type is applied."
    )]
    Delete(DeleteOptions),
}

#[derive(Debug, clap::Args)]
struct DeleteOptions {
    /// Name of the workflow.
    #[arg(value_parser = word)]
    name: String,
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
            print(&format!("{}\n", tables::without_commands(drawn.trim_end())))
        }
        Command::Delete(DeleteOptions { name, reason, key, shape }) => {
            confirm(&format!("delete the entity workflow {}", tables::plain(&name)), server).await?;
            let client = server.connect()?;
            let deleted = client.delete_entity_workflow(&name, reason.as_deref(), key.options()).await?;
            shape.show(&deleted, || format!("{} is deleted\n", tables::plain(&name)))
        }
    }
}

fn table(found: &[EntityWorkflowSummary]) -> String {
    if found.is_empty() {
        return "there are no entity workflows\n".into();
    }
    let mut table =
        tables::table(["name", "entity", "module", "table", "version", "claims into", "description"]);
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
        tables::without_commands(&document)
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
