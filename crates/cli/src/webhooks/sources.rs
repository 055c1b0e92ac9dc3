//! `hapax sources`: whose webhooks are believed, and what is done about them.

use anyhow::Result;
use hapax_api::{ActivationStatus, ChangeWebhookSource, WebhookSource, WebhookSourceSummary};

use crate::confirmation::confirm;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::tables;
use crate::parsers::word;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax apply stripe.yaml
  hapax webhooks sources list
  hapax webhooks sources show stripe-payments
  hapax webhooks sources disable stripe-payments --reason 'they are being replayed'
  hapax webhooks sources delete stripe-payments
  hapax webhooks events list --status failed
  hapax webhooks events reprocess stripe-payments evt_1

`hapax validate FILE` looks for errors without a server. Secrets are named, never given: secret://stripe-webhook of the workspace
acme is read by the server from HAPAX_SECRET_ACME__STRIPE_WEBHOOK, or from acme/stripe-webhook in its folder of secrets.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List sources with their addresses.
    #[command(
        after_help = "Examples:\n  hapax webhooks sources list\n  hapax webhooks sources list --json | jq -r .path"
    )]
    List(ListOptions),
    /// Show one source with its document.
    #[command(
        after_help = "Examples:\n  hapax webhooks sources show stripe-payments\n  hapax webhooks sources show stripe-payments -o yaml"
    )]
    Show(ShowOptions),
    /// Accept the webhooks of a source again.
    #[command(after_help = "Examples:\n  hapax webhooks sources enable stripe-payments")]
    Enable(SteerOptions),
    /// Reject the webhooks of a source. Earlier ones are still processed.
    #[command(
        after_help = "Examples:\n  hapax webhooks sources disable stripe-payments --reason 'they are being replayed'"
    )]
    Disable(SteerOptions),
    /// Delete a source. Its webhooks are rejected; earlier ones are still processed and shown.
    #[command(
        after_help = "Examples:\n  hapax webhooks sources delete stripe-payments --reason 'we left Stripe' --yes\n\nOne that is applied under its name has its address again, and takes in no event a second time."
    )]
    Delete(SteerOptions),
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
    /// The source's name.
    #[arg(value_parser = word)]
    name: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct SteerOptions {
    /// The source's name.
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

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::List(ListOptions { limit, shape }) => {
            let client = server.connect()?;
            let found = limit.read(async |paging| client.list_sources(&paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Show(ShowOptions { name, shape }) => {
            let found = server.connect()?.get_source(&name).await?;
            shape.show(&found, || sheet(&found))
        }
        Command::Enable(SteerOptions { name, reason, key, shape }) => {
            let asked = ChangeWebhookSource { status: ActivationStatus::Enabled, reason };
            let steered = server.connect()?.change_source(&name, &asked, key.options()).await?;
            shape.show(&steered, || format!("webhooks of {} are accepted\n", steered.summary.name))
        }
        Command::Disable(SteerOptions { name, reason, key, shape }) => {
            let asked = ChangeWebhookSource { status: ActivationStatus::Disabled, reason };
            let steered = server.connect()?.change_source(&name, &asked, key.options()).await?;
            shape.show(&steered, || format!("webhooks of {} are rejected\n", steered.summary.name))
        }
        Command::Delete(SteerOptions { name, reason, key, shape }) => {
            confirm(&format!("end the source {}", tables::plain(&name)), server).await?;
            let steered = server.connect()?.delete_source(&name, reason.as_deref(), key.options()).await?;
            shape.show(&steered, || format!("{} is deleted\n", steered.summary.name))
        }
    }
}

fn table(found: &[WebhookSourceSummary]) -> String {
    if found.is_empty() {
        return "there are no webhook sources\n".into();
    }
    let mut table = tables::table(["name", "scheme", "status", "version", "path", "description"]);
    for source in found {
        table.add_row([
            source.name.clone(),
            source.scheme.clone(),
            spelled(&source.status),
            source.version.to_string(),
            source.path.clone(),
            or_dash(source.description.as_deref()),
        ]);
    }
    format!("{table}\n")
}

fn sheet(source: &WebhookSource) -> String {
    let document = serde_json::from_str::<serde_json::Value>(source.document.text());
    let document = document.and_then(|document| serde_json::to_string_pretty(&document)).unwrap_or_default();
    let WebhookSourceSummary { id, name, path, version, created_at, changed_at, .. } = &source.summary;
    format!(
        "id       {id}\nname     {name}\npath     {path}\nstatus   {}\nreason   {}\nversion  {version}\nmade     {created_at}\nchanged  {changed_at}\n\n{}\n",
        spelled(&source.summary.status),
        or_dash(source.summary.reason.as_deref()),
        tables::without_commands(&document)
    )
}
