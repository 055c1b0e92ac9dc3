//! `hapax webhooks deliveries`: lists outgoing webhooks, sends them again, and discards them.

use anyhow::Result;
use hapax_api::client::DeliveryFilter;
use hapax_api::{DeliveryStatus, DiscardWebhooks, RedeliverWebhook, RedeliverWebhooks, WebhookDelivery};

use crate::confirmation::confirm;
use crate::exit_codes::UsageError;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::{say, tables};
use crate::parsers::word;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::or_dash;

const EXAMPLES: &str = "\
Examples:
  hapax webhooks deliveries list --status dead
  hapax webhooks deliveries redeliver ID --reason 'the receiver is up again'
  hapax webhooks deliveries redeliver --subscription SUB --status dead --limit 100 --reason 'the receiver is up again'
  hapax webhooks deliveries discard --subscription SUB --limit 100 --reason 'nobody listens there any more'";

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
        after_help = "Examples:\n  hapax webhooks deliveries list --subscription sub_1\n  hapax webhooks deliveries list --status dead --json | jq -r .id"
    )]
    List(ListOptions),
    /// Redeliver one webhook, under the same webhook-id, or many of a subscription.
    #[command(
        after_help = "Examples:\n  hapax webhooks deliveries redeliver ID --reason 'the receiver is up again'\n  hapax webhooks deliveries redeliver --subscription SUB --status dead --limit 100 --reason 'the receiver is up again'"
    )]
    Redeliver(RedeliverOptions),
    /// Discard the dead webhooks of a subscription, even of a deleted one.
    #[command(
        after_help = "Examples:\n  hapax webhooks deliveries discard --subscription SUB --limit 100 --reason 'nobody listens there any more' --yes"
    )]
    Discard(DiscardOptions),
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    /// Only to this subscription.
    #[arg(long, value_name = "ID", value_parser = word)]
    subscription: Option<String>,
    /// Only deliveries with this status: due, claimed, delivered or dead.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<DeliveryStatus>,
    #[command(flatten)]
    limit: LimitOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct RedeliverOptions {
    /// The delivery, as `hapax webhooks deliveries list` shows it.
    #[arg(value_parser = word, required_unless_present = "subscription")]
    id: Option<String>,
    /// Many, to this subscription.
    #[arg(long, value_name = "ID", value_parser = word, conflicts_with = "id", requires_all = ["status", "limit"])]
    subscription: Option<String>,
    /// Deliveries with this status: dead or delivered.
    #[arg(long, value_name = "STATUS", value_parser = status, requires = "subscription")]
    status: Option<DeliveryStatus>,
    /// How many of them at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100), requires = "subscription")]
    limit: Option<u64>,
    /// Continue where the last call stopped; it printed the cursor.
    #[arg(long, value_name = "TEXT", value_parser = word, requires = "subscription")]
    cursor: Option<String>,
    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: String,
    /// Your name, where several people share an API key.
    #[arg(long, value_name = "NAME", value_parser = word)]
    by: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct DiscardOptions {
    /// The subscription.
    #[arg(long, value_name = "ID", value_parser = word)]
    subscription: String,
    /// Maximum number of items.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    limit: u64,
    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: String,
    /// Your name, where several people share an API key.
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
        Command::Redeliver(options) => redeliver(options, server).await,
        Command::Discard(DiscardOptions { subscription, limit, reason, by, key, shape }) => {
            let what = format!("discard the dead webhooks of {}", tables::plain(&subscription));
            confirm(&what, server).await?;
            let asked = DiscardWebhooks { subscription_id: subscription, limit, reason, by };
            let gone = server.connect()?.discard_webhooks(&asked, key.options()).await?.items;
            shape.show_all(&gone, || table(&gone))
        }
    }
}

async fn redeliver(options: RedeliverOptions, server: &ServerOptions) -> Result<()> {
    let RedeliverOptions { id, subscription, status, limit, cursor, reason, by, key, shape } = options;
    let client = server.connect()?;
    if let Some(id) = id {
        let due = client.redeliver_webhook(&id, &RedeliverWebhook { reason, by }, key.options()).await?;
        return shape.show(&due, || format!("{} is due again for {}\n", due.id, due.subscription_id));
    }
    let (Some(subscription), Some(status), Some(limit)) = (subscription, status, limit) else {
        return Err(UsageError(
            "name the delivery, or a --subscription with a --status and a --limit".into(),
        )
        .into());
    };
    let asked = RedeliverWebhooks { subscription_id: subscription, status, limit, cursor, reason, by };
    let due = client.redeliver_webhooks(&asked, key.options()).await?;
    if let Some(next) = due.next_cursor {
        say(&format!("there are more; go on with --cursor {next}"));
    }
    shape.show_all(&due.items, || table(&due.items))
}

fn table(found: &[WebhookDelivery]) -> String {
    let columns = ["id", "subscription", "event", "status", "at", "attempts", "last failure"];
    let mut table = tables::table(columns);
    for delivery in found {
        let at = [&delivery.next_attempt_at, &delivery.delivered_at, &delivery.given_up_at];
        let failure = delivery.failure.as_ref().map(|failure| failure.message.as_str());
        table.add_row([
            delivery.id.clone(),
            delivery.subscription_id.clone(),
            tables::plain(&delivery.event),
            delivery.status.as_str().into(),
            or_dash(at.into_iter().flatten().next().map(String::as_str)),
            delivery.attempts.to_string(),
            or_dash(failure),
        ]);
    }
    format!("{table}\n")
}
