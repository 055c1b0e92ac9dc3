//! `hapax sources`: whose webhooks are believed, and what is done about them.

mod events;

use std::path::PathBuf;

use anyhow::{Result, bail};
use hapax_api::client::{Client, ClientError, Document, Terms};
use hapax_api::{ActivationStatus, ChangeWebhookSource, Code, WebhookSource, WebhookSourceSummary};

use crate::bounded_file;
use crate::confirmation::confirm;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::{for_people, say};
use crate::server_options::ServerOptions;
use crate::spelling::{or_dash, spelled};
use crate::terms::KeyOptions;
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax sources apply stripe.yaml
  hapax sources list
  hapax sources show stripe-payments
  hapax sources disable stripe-payments --reason 'they are being replayed'
  hapax sources delete stripe-payments
  hapax sources events list --status failed
  hapax sources events reprocess stripe-payments evt_1

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
    /// Upload sources, written in JSON or YAML; those that are there are replaced.
    #[command(
        after_help = "Examples:\n  hapax sources apply stripe.yaml\n  hapax sources apply sources/*.yaml --json"
    )]
    Apply(ApplyOptions),
    /// List sources with their addresses.
    #[command(after_help = "Examples:\n  hapax sources list\n  hapax sources list --json | jq -r .path")]
    List(ListOptions),
    /// Show one source with its document.
    #[command(
        after_help = "Examples:\n  hapax sources show stripe-payments\n  hapax sources show stripe-payments -o yaml"
    )]
    Show(ShowOptions),
    /// Take in the webhooks of a source again.
    #[command(after_help = "Examples:\n  hapax sources enable stripe-payments")]
    Enable(SteerOptions),
    /// Refuse the webhooks of a source; what came before is still processed.
    #[command(
        after_help = "Examples:\n  hapax sources disable stripe-payments --reason 'they are being replayed'"
    )]
    Disable(SteerOptions),
    /// End a source: its webhooks are refused; what came before is still processed, and is shown.
    #[command(
        after_help = "Examples:\n  hapax sources delete stripe-payments --reason 'we left Stripe' --yes\n\nOne that is applied under its name has its address again, and takes in no event a second time."
    )]
    Delete(SteerOptions),
    /// See what came in, and have it processed once more.
    Events(events::Options),
}

#[derive(Debug, clap::Args)]
struct ApplyOptions {
    /// The documents; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
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
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Apply(ApplyOptions { files, shape }) => {
            let client = server.connect()?;
            for file in files {
                let text = bounded_file::read_text(&file, MAX_DOCUMENT_BYTES)?;
                let (source, what) = apply(&client, &text).await?;
                for warning in &source.warnings {
                    let (path, message) =
                        (for_people::plain(&warning.path), for_people::plain(&warning.message));
                    say(&format!("warning at {path}: {message}"));
                }
                shape.show_all(std::slice::from_ref(&source), || applied(&source, what))?;
            }
            Ok(())
        }
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
            let steered = server.connect()?.change_source(&name, &asked, key.terms()).await?;
            shape.show(&steered, || format!("webhooks of {} are taken in\n", steered.summary.name))
        }
        Command::Disable(SteerOptions { name, reason, key, shape }) => {
            let asked = ChangeWebhookSource { status: ActivationStatus::Disabled, reason };
            let steered = server.connect()?.change_source(&name, &asked, key.terms()).await?;
            shape.show(&steered, || format!("webhooks of {} are refused\n", steered.summary.name))
        }
        Command::Delete(SteerOptions { name, reason, key, shape }) => {
            confirm(&format!("end the source {}", for_people::plain(&name)), server).await?;
            let steered = server.connect()?.delete_source(&name, reason.as_deref(), key.terms()).await?;
            shape.show(&steered, || format!("{} is deleted\n", steered.summary.name))
        }
        Command::Events(options) => events::run(options, server).await,
    }
}

/// Makes the source, or replaces the one that is there as it was seen, so that a change of somebody else is not lost.
async fn apply(client: &Client, text: &str) -> Result<(WebhookSource, &'static str)> {
    let document = match text.trim_start().starts_with('{') {
        true => Document::Json(text),
        false => Document::Yaml(text),
    };
    let problem = match client.create_source(document, Terms::default()).await {
        Ok(made) if made.is_new => return Ok((made.value, "made")),
        Ok(made) => return Ok((made.value, "was there already, and says the same")),
        Err(ClientError::Refused(problem)) if problem.code == Code::NameTaken => problem,
        Err(error) => return Err(error.into()),
    };
    let known = hapax_documents::Known::default();
    let checked = hapax_documents::check_source(text, hapax_documents::Format::Any, &known);
    let Ok(checked) = checked else { bail!("the server knows a rule that this command does not; update it") };
    let if_version = problem.more.get("version").and_then(serde_json::Value::as_u64);
    let terms = Terms { idempotency_key: None, if_version };
    Ok((client.replace_source(&checked.source().name, document, terms).await?, "replaced"))
}

fn applied(source: &WebhookSource, what: &str) -> String {
    let WebhookSourceSummary { name, path, version, .. } = &source.summary;
    format!("{name} (version {version}) {what}; its webhooks go to {path}\n")
}

fn table(found: &[WebhookSourceSummary]) -> String {
    if found.is_empty() {
        return "there are no webhook sources\n".into();
    }
    let mut table = for_people::table(["name", "scheme", "status", "version", "path", "description"]);
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
        for_people::without_commands(&document)
    )
}
