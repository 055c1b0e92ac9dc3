//! `hapax deliveries`: what became of webhooks, having them sent once more, and forgetting them.

use anyhow::Result;
use hapax_api::client::DeliveryFilter;
use hapax_api::{DeliveryStatus, DiscardWebhooks, RedeliverWebhook, RedeliverWebhooks, WebhookDelivery};

use crate::confirmation::confirm;
use crate::exit_codes::Misused;
use crate::listing::LimitOptions;
use crate::output::shape::ShapeOptions;
use crate::output::{for_people, say};
use crate::server_options::ServerOptions;
use crate::spelling::or_dash;
use crate::terms::KeyOptions;
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax deliveries list --status dead
  hapax deliveries redeliver ID --reason 'the receiver is up again'
  hapax deliveries redeliver --subscription SUB --status dead --limit 100 --reason 'the receiver is up again'
  hapax deliveries discard --subscription SUB --limit 100 --reason 'nobody listens there any more'";

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
    /// Have one that was delivered or given up sent once more, under the same webhook-id; or many of a subscription.
    #[command(
        after_help = "Examples:\n  hapax deliveries redeliver ID --reason 'the receiver is up again'\n  hapax deliveries redeliver --subscription SUB --status dead --limit 100 --reason 'the receiver is up again'"
    )]
    Redeliver(RedeliverOptions),
    /// Forget those that were given up for a subscription, also for one that was deleted.
    #[command(
        after_help = "Examples:\n  hapax deliveries discard --subscription SUB --limit 100 --reason 'nobody listens there any more' --yes"
    )]
    Discard(DiscardOptions),
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
    #[arg(value_parser = word, required_unless_present = "subscription")]
    id: Option<String>,
    /// Many, to this subscription.
    #[arg(long, value_name = "ID", value_parser = word, conflicts_with = "id", requires_all = ["status", "limit"])]
    subscription: Option<String>,
    /// Those of them that stand there: dead or delivered.
    #[arg(long, value_name = "STATUS", value_parser = status, requires = "subscription")]
    status: Option<DeliveryStatus>,
    /// How many of them at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100), requires = "subscription")]
    limit: Option<u64>,
    /// Go on after those of the last time; it said with what.
    #[arg(long, value_name = "TEXT", value_parser = word, requires = "subscription")]
    cursor: Option<String>,
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

#[derive(Debug, clap::Args)]
struct DiscardOptions {
    /// For which subscription.
    #[arg(long, value_name = "ID", value_parser = word)]
    subscription: String,
    /// How many at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    limit: u64,
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
        Command::Redeliver(options) => redeliver(options, server).await,
        Command::Discard(DiscardOptions { subscription, limit, reason, by, key, shape }) => {
            let what = format!("forget webhooks that were given up for {}", for_people::plain(&subscription));
            confirm(&what, server).await?;
            let asked = DiscardWebhooks { subscription_id: subscription, limit, reason, by };
            let gone = server.connect()?.discard_webhooks(&asked, key.terms()).await?.items;
            shape.show_all(&gone, || table(&gone))
        }
    }
}

async fn redeliver(options: RedeliverOptions, server: &ServerOptions) -> Result<()> {
    let RedeliverOptions { id, subscription, status, limit, cursor, reason, by, key, shape } = options;
    let client = server.connect()?;
    if let Some(id) = id {
        let due = client.redeliver_webhook(&id, &RedeliverWebhook { reason, by }, key.terms()).await?;
        return shape.show(&due, || format!("{} is due again for {}\n", due.id, due.subscription_id));
    }
    let (Some(subscription), Some(status), Some(limit)) = (subscription, status, limit) else {
        return Err(
            Misused("name the delivery, or a --subscription with a --status and a --limit".into()).into()
        );
    };
    let asked = RedeliverWebhooks { subscription_id: subscription, status, limit, cursor, reason, by };
    let due = client.redeliver_webhooks(&asked, key.terms()).await?;
    if let Some(next) = due.next_cursor {
        say(&format!("there are more; go on with --cursor {next}"));
    }
    shape.show_all(&due.items, || table(&due.items))
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
