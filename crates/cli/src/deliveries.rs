//! `hapax deliveries`: what became of webhooks, and having one sent once more.

use anyhow::Result;
use hapax_api::client::DeliveryFilter;
use hapax_api::{DeliveryStatus, RedeliverWebhook, WebhookDelivery};

use crate::listing::LimitOptions;
use crate::output::for_people;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;
use crate::spelling::or_dash;
use crate::terms::KeyOptions;
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax deliveries list --status dead
  hapax deliveries redeliver ID --reason 'the receiver is up again'";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List deliveries in the order of their runs.
    #[command(
        after_help = "Examples:\n  hapax deliveries list --subscription sub_1\n  hapax deliveries list --status dead --json | jq -r .id"
    )]
    List(ListOptions),
    /// Have one that was delivered or given up sent once more, under the same webhook-id.
    #[command(after_help = "Examples:\n  hapax deliveries redeliver ID --reason 'the receiver is up again'")]
    Redeliver(RedeliverOptions),
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    /// Only to this subscription.
    #[arg(long, value_name = "ID", value_parser = word)]
    subscription: Option<String>,
    /// Only those that stand there: due, claimed, delivered or dead.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<DeliveryStatus>,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct RedeliverOptions {
    /// The delivery, as `hapax deliveries list` shows it.
    #[arg(value_parser = word)]
    id: String,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: String,
    /// Who asks, where a key is shared by several.
    #[arg(long, value_name = "NAME", value_parser = word)]
    by: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

fn status(text: &str) -> Result<DeliveryStatus, String> {
    DeliveryStatus::from_name(text).ok_or_else(|| "use due, claimed, delivered or dead".into())
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::List(ListOptions { subscription, status, limit, shape }) => {
            let filter = DeliveryFilter { subscription, status };
            let client = server.connect()?;
            let found = limit.read(async |paging| client.list_deliveries(&filter, &paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Redeliver(RedeliverOptions { id, reason, by, key, shape }) => {
            let asked = RedeliverWebhook { reason, by };
            let due = server.connect()?.redeliver_webhook(&id, &asked, key.terms()).await?;
            shape.show(&due, || format!("{} is due again for {}\n", due.id, due.subscription_id))
        }
    }
}

fn table(found: &[WebhookDelivery]) -> String {
    let columns = ["id", "subscription", "event", "status", "at", "attempts", "last failure"];
    let mut table = for_people::table(columns);
    for delivery in found {
        let at = [&delivery.next_attempt_at, &delivery.delivered_at, &delivery.given_up_at];
        let failure = delivery.failure.as_ref().map(|failure| failure.message.as_str());
        table.add_row([
            delivery.id.clone(),
            delivery.subscription_id.clone(),
            for_people::plain(&delivery.event),
            delivery.status.as_str().into(),
            or_dash(at.into_iter().flatten().next().map(String::as_str)),
            delivery.attempts.to_string(),
            or_dash(failure),
        ]);
    }
    format!("{table}\n")
}
