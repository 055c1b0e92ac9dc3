//! `hapax webhooks events`: webhooks that came in, and their outcomes.

use anyhow::Result;
use hapax_api::client::ReceivedFilter;
use hapax_api::{ReceivedStatus, ReceivedWebhook, ReceivedWebhookSummary, ReprocessWebhooks};

use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::{say, tables};
use crate::parsers::word;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;

const EXAMPLES: &str = "\
Examples:
  hapax webhooks events list --status failed
  hapax webhooks events show stripe-payments evt_1
  hapax webhooks events reprocess stripe-payments evt_1
  hapax webhooks events reprocess-many --status failed --limit 20

An event is processed by its source as it is now. What was done before is not done twice.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List events, newest first.
    #[command(
        after_help = "Examples:\n  hapax webhooks events list --source stripe-payments\n  hapax webhooks events list --status unmatched --json"
    )]
    List(ListOptions),
    /// Show one event with its headers and body.
    #[command(
        after_help = "Examples:\n  hapax webhooks events show stripe-payments evt_1 --json | jq -r .rawBody"
    )]
    Show(EventOptions),
    /// Process one event again.
    #[command(after_help = "Examples:\n  hapax webhooks events reprocess stripe-payments evt_1")]
    Reprocess(EventOptions),
    /// Process the newest events of a status again, oldest first.
    #[command(
        after_help = "Examples:\n  hapax webhooks events reprocess-many --status failed --source stripe-payments --limit 20\n\nIf there are earlier ones, the output names the --cursor to continue with."
    )]
    ReprocessMany(EventListOptions),
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    /// Only of this source.
    #[arg(long, value_name = "NAME", value_parser = word)]
    source: Option<String>,
    /// Only events with this status: received, applied, ignored, unmatched or failed.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<ReceivedStatus>,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct EventOptions {
    /// The source's name.
    #[arg(value_parser = word)]
    source: String,
    /// The provider's id of the event.
    #[arg(value_parser = word)]
    event: String,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct EventListOptions {
    /// Only of this source.
    #[arg(long, value_name = "NAME", value_parser = word)]
    source: Option<String>,
    /// Only events with this status.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: ReceivedStatus,
    /// Maximum number of items.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    limit: u64,
    /// Continue where the last call stopped; it printed the cursor.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    cursor: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

fn status(text: &str) -> Result<ReceivedStatus, String> {
    ReceivedStatus::from_name(text)
        .ok_or_else(|| format!("use {}", ReceivedStatus::ALL.map(ReceivedStatus::as_str).join(", ")))
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    match options.command {
        Command::List(ListOptions { source, status, limit, shape }) => {
            let filter = ReceivedFilter { source, status };
            let found = limit.read(async |paging| client.list_received(&filter, &paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Show(EventOptions { source, event, shape, .. }) => {
            let found = client.get_received(&source, &event).await?;
            shape.show(&found, || sheet(&found))
        }
        Command::Reprocess(EventOptions { source, event, key, shape }) => {
            let found = client.reprocess_received(&source, &event, key.options()).await?;
            shape.show(&found, || table(std::slice::from_ref(&found)))
        }
        Command::ReprocessMany(EventListOptions { source, status, limit, cursor, key, shape }) => {
            let asked = ReprocessWebhooks { source, status, limit, cursor };
            let done = client.reprocess_many_received(&asked, key.options()).await?;
            if let Some(next) = done.next_cursor {
                say(&format!("there are more before these; go on with --cursor {next}"));
            }
            shape.show_all(&done.items, || table(&done.items))
        }
    }
}

fn table(found: &[ReceivedWebhookSummary]) -> String {
    if found.is_empty() {
        return "there are no such events\n".into();
    }
    let mut table = tables::table(["source", "event", "status", "received", "again", "attempts", "outcome"]);
    for event in found {
        table.add_row([
            event.source.clone(),
            tables::plain(&event.event_id),
            spelled(&event.status),
            event.received_at.clone(),
            event.duplicates.to_string(),
            event.attempts.to_string(),
            tables::plain(&outcome(event)),
        ]);
    }
    format!("{table}\n")
}

/// Outcome in one line.
fn outcome(event: &ReceivedWebhookSummary) -> String {
    let Some(outcome) = &event.outcome else { return "-".into() };
    let actions = outcome.actions.iter().map(|action| {
        let detail = action.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
        format!("{} {}{detail}", action.action, spelled(&action.status))
    });
    outcome.detail.iter().cloned().chain(actions).collect::<Vec<_>>().join("; ")
}

fn sheet(event: &ReceivedWebhook) -> String {
    let headers: String = event.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!(
        "{}\n{}\n{}\n",
        table(std::slice::from_ref(&event.summary)),
        tables::without_commands(&headers),
        tables::without_commands(&event.raw_body)
    )
}
