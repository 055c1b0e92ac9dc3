//! `hapax webhooks subscriptions`: receivers of outgoing webhooks.

use std::time::Duration;

use anyhow::{Result, ensure};
use hapax_api::{
    ActivationStatus, ChangeSubscription, CreateSubscription, IssuedSubscription, RotateSubscription,
    Subscription, TestedSubscription, WebhookEvent, WebhookSigning,
};

use crate::confirmation::confirm;
use crate::listing::LimitOptions;
use crate::output::shape::{Shape, ShapeOptions};
use crate::output::{say, tables};
use crate::parsers::{duration, word};
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::{or_dash, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax webhooks subscriptions create billing https://billing.example.com/hooks --event run.completed --event run.failed
  hapax webhooks subscriptions list
  hapax webhooks subscriptions test sub_1
  hapax webhooks subscriptions rotate sub_1 --overlap 1h --yes
  hapax webhooks subscriptions disable sub_1 --reason 'the receiver moves house'

A secret is shown once, when it is made or rotated: give it to the receiver, which checks signatures with any library of
Standard Webhooks. To make one is not sent twice if the connection is cut: list the subscriptions then, and rotate what nobody has the
secret of.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a subscription and print its secret, once.
    #[command(
        after_help = "Examples:\n  hapax webhooks subscriptions create billing https://billing.example.com/hooks --event run.completed\n  \
                      hapax webhooks subscriptions create people https://example.com/hooks --event effect.in_doubt --json | jq -r .secret > secret"
    )]
    Create(CreateOptions),
    /// List subscriptions, without their secrets.
    #[command(
        after_help = "Examples:\n  hapax webhooks subscriptions list\n  hapax webhooks subscriptions list --json | jq -r 'select(.status == \"disabled\").id'"
    )]
    List(ListOptions),
    /// Show one subscription, without its secret.
    #[command(
        after_help = "Examples:\n  hapax webhooks subscriptions show sub_1\n  hapax webhooks subscriptions show sub_1 -o yaml"
    )]
    Show(ShowOptions),
    /// Enable a subscription again.
    #[command(
        after_help = "Examples:\n  hapax webhooks subscriptions enable sub_1 --reason 'the receiver is back'"
    )]
    Enable(SteerOptions),
    /// Disable a subscription. Its waiting webhooks become dead, and can be redelivered later.
    #[command(
        after_help = "Examples:\n  hapax webhooks subscriptions disable sub_1 --reason 'the receiver moves house'"
    )]
    Disable(SteerOptions),
    /// Give a subscription a new secret and print it, once.
    #[command(after_help = "Examples:\n  hapax webhooks subscriptions rotate sub_1 --overlap 1h --yes")]
    Rotate(RotateOptions),
    /// Delete a subscription.
    #[command(
        after_help = "Examples:\n  hapax webhooks subscriptions delete sub_1 --reason 'no longer needed' --yes"
    )]
    Delete(SteerOptions),
    /// Send a subscription a test.ping now, and print the response.
    #[command(after_help = "Examples:\n  hapax webhooks subscriptions test sub_1")]
    Test(TestOptions),
}

#[derive(Debug, clap::Args)]
struct CreateOptions {
    /// Name for people and for the audit log.
    #[arg(value_parser = word)]
    name: String,
    /// Where webhooks are sent.
    #[arg(value_parser = word)]
    url: String,
    /// Event to send: run.completed, run.failed, run.cancelled or effect.in_doubt. Repeat it for several.
    #[arg(long = "event", value_name = "EVENT", required = true, value_delimiter = ',', value_parser = event)]
    events: Vec<WebhookEvent>,
    /// For people.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    description: Option<String>,
    /// Signature: hmac, with a secret shared with the receiver, or ed25519, with a public key for the receiver.
    #[arg(long, value_name = "HOW", value_parser = signing)]
    signing: Option<WebhookSigning>,
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
    /// The subscription's id.
    #[arg(value_parser = word)]
    id: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct SteerOptions {
    /// The subscription's id.
    #[arg(value_parser = word)]
    id: String,
    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: Option<String>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct RotateOptions {
    /// The subscription's id.
    #[arg(value_parser = word)]
    id: String,
    /// How long webhooks are signed with the old secret, too [default: 1d].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    overlap: Option<Duration>,
    #[command(flatten)]
    shape: ShapeOptions,
}

#[derive(Debug, clap::Args)]
struct TestOptions {
    /// The subscription's id.
    #[arg(value_parser = word)]
    id: String,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

fn signing(text: &str) -> Result<WebhookSigning, String> {
    WebhookSigning::from_name(text).ok_or_else(|| "use hmac or ed25519".into())
}

fn event(text: &str) -> Result<WebhookEvent, String> {
    let known = || format!("use {}", WebhookEvent::ALL.map(WebhookEvent::as_str).join(", "));
    WebhookEvent::from_name(text).ok_or_else(known)
}

fn change_to(status: ActivationStatus, reason: Option<String>) -> ChangeSubscription {
    ChangeSubscription { status: Some(status), reason, ..ChangeSubscription::default() }
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Create(CreateOptions { name, url, events, description, signing, shape }) => {
            let asked = CreateSubscription { name, url, events, description, signing };
            show_once(&server.connect()?.create_subscription(&asked).await?, &shape)
        }
        Command::List(ListOptions { limit, shape }) => {
            let client = server.connect()?;
            let found = limit.read(async |paging| client.list_subscriptions(&paging).await).await?;
            shape.show_all(&found, || table(&found))
        }
        Command::Show(ShowOptions { id, shape }) => {
            let found = server.connect()?.get_subscription(&id).await?;
            shape.show(&found, || lines(&found))
        }
        Command::Enable(SteerOptions { id, reason, key, shape }) => {
            let asked = change_to(ActivationStatus::Enabled, reason);
            let steered = server.connect()?.change_subscription(&id, &asked, key.options()).await?;
            shape.show(&steered, || format!("{} is told again\n", steered.id))
        }
        Command::Disable(SteerOptions { id, reason, key, shape }) => {
            let asked = change_to(ActivationStatus::Disabled, reason);
            let steered = server.connect()?.change_subscription(&id, &asked, key.options()).await?;
            shape.show(&steered, || format!("{} receives nothing until it is enabled\n", steered.id))
        }
        Command::Rotate(RotateOptions { id, overlap, shape }) => {
            let what = format!("give {} a new secret, so that the old one ends", tables::plain(&id));
            confirm(&what, server).await?;
            let asked = RotateSubscription { overlap: overlap.map(Into::into) };
            show_once(&server.connect()?.rotate_subscription(&id, &asked).await?, &shape)
        }
        Command::Delete(SteerOptions { id, reason, key, shape }) => {
            confirm(&format!("end {} for good", tables::plain(&id)), server).await?;
            let steered =
                server.connect()?.delete_subscription(&id, reason.as_deref(), key.options()).await?;
            shape.show(&steered, || format!("{} is deleted\n", steered.id))
        }
        Command::Test(TestOptions { id, key, shape }) => {
            let tested = server.connect()?.test_subscription(&id, key.options()).await?;
            shape.show(&tested, || told(&tested))?;
            ensure!(
                tested.delivered,
                "the test did not arrive; repair the receiver or the address, and try again"
            );
            Ok(())
        }
    }
}

fn show_once(issued: &IssuedSubscription, shape: &ShapeOptions) -> Result<()> {
    if shape.shape() == Shape::Table && issued.subscription.public_key.is_none() {
        say("give the secret to the receiver, and keep it like a password; it is shown only once");
    }
    shape.show(issued, || {
        let IssuedSubscription { subscription, secret } = issued;
        let what = if subscription.public_key.is_some() { "key" } else { "secret" };
        format!(
            "id      {}\nurl     {}\n{what:<6}  {secret}\n",
            subscription.id,
            tables::plain(&subscription.url)
        )
    })
}

fn told(tested: &TestedSubscription) -> String {
    let TestedSubscription { delivered, response_status: status, detail, took, .. } = tested;
    match (delivered, status) {
        (true, Some(status)) => format!("delivered: answered {status} in {took}\n"),
        _ => format!("not delivered: {}\n", or_dash(detail.as_deref())),
    }
}

fn events(subscription: &Subscription) -> String {
    subscription.events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(", ")
}

fn lines(found: &Subscription) -> String {
    let rows = [
        ("id", found.id.clone()),
        ("name", tables::plain(&found.name)),
        ("url", tables::plain(&found.url)),
        ("events", events(found)),
        ("description", or_dash(found.description.as_deref())),
        ("public key", or_dash(found.public_key.as_deref())),
        ("status", spelled(&found.status)),
        ("reason", or_dash(found.reason.as_deref())),
        ("made", found.created_at.clone()),
        ("changed", found.changed_at.clone()),
        (
            "old secret",
            found.old_secret_until.as_ref().map_or_else(|| "-".into(), |at| format!("signs until {at}")),
        ),
    ];
    rows.map(|(name, value)| format!("{name:<12} {value}\n")).concat()
}

fn table(found: &[Subscription]) -> String {
    let mut table = tables::table(["id", "name", "url", "events", "status", "reason"]);
    for subscription in found {
        table.add_row([
            subscription.id.clone(),
            tables::plain(&subscription.name),
            tables::plain(&subscription.url),
            events(subscription),
            spelled(&subscription.status),
            or_dash(subscription.reason.as_deref()),
        ]);
    }
    format!("{table}\n")
}
