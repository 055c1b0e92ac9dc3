//! `hapax admin outbox`: lists and redelivers after-effects.

mod list;
mod redeliver;

use anyhow::Result;

const EXAMPLES: &str = "\
Examples:
  hapax admin outbox list --status dead --store sqlite:orders.db
  hapax admin outbox redeliver ID --by ada --reason 'the receiver is up again' --store sqlite:orders.db";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List after-effects in the order of their runs.
    List(list::Options),
    /// Redeliver an after-effect that was delivered or given up, under the same id.
    Redeliver(redeliver::Options),
}

pub(crate) async fn run(options: Options) -> Result<()> {
    match options.command {
        Command::List(options) => list::run(options).await,
        Command::Redeliver(options) => redeliver::run(options).await,
    }
}
