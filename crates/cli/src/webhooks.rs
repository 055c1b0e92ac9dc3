//! `hapax webhooks`: incoming webhooks (sources, events) and outgoing webhooks (subscriptions, deliveries).

mod deliveries;
mod events;
pub(crate) mod sources;
mod subscriptions;

use anyhow::Result;

use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax apply stripe.yaml                            create or replace a source
  hapax webhooks sources list
  hapax webhooks events list --status failed
  hapax webhooks subscriptions create https://shop.example/hooks --events run.completed,run.failed
  hapax webhooks deliveries list --status dead";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Manage the providers whose webhooks you accept.
    Sources(sources::Options),
    /// List received webhooks, and process them again.
    Events(events::Options),
    /// Manage outgoing webhook subscriptions.
    Subscriptions(subscriptions::Options),
    /// List outgoing webhooks, and send them again.
    Deliveries(deliveries::Options),
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Sources(options) => sources::run(options, server).await,
        Command::Events(options) => events::run(options, server).await,
        Command::Subscriptions(options) => subscriptions::run(options, server).await,
        Command::Deliveries(options) => deliveries::run(options, server).await,
    }
}
