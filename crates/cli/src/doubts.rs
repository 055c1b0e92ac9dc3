//! `hapax doubts`: steps and operations with an unknown outcome, and what people decide about them.

mod confirm;
mod id;
mod list;
mod resolve;
mod row;

use anyhow::Result;

use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax doubts                                   the inbox of the workspace: steps and operations, oldest first
  hapax doubts list --store sqlite:orders.db     the same, read from a store
  hapax doubts resolve run_018f…/charge --seen 7 --happened --result '{\"transfer\":\"tx-41\"}' \\
      --reason 'the bank shows it'
  hapax doubts resolve op_018f… --seen 1 --did-not-happen --reason 'the bank has no such refund' --yes
  hapax doubts confirm run_018f…/charge --proposal 01J… --seen 7 --reason 'I called the bank as well' --yes

An effect is in doubt when it was begun and its outcome was lost. Its run or entity waits until somebody asks the provider
and decides.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: list::ListOptions,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the steps and operations that wait for a decision, oldest first.
    #[command(after_help = list::EXAMPLES)]
    List(list::ListOptions),
    /// Record the outcome of one, or propose it with --propose.
    Resolve(Box<resolve::Options>),
    /// Confirm another person's proposal.
    Confirm(confirm::Options),
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        None => list::run(options.list, server).await,
        Some(Command::List(options)) => list::run(options, server).await,
        Some(Command::Resolve(options)) => resolve::run(*options, server).await,
        Some(Command::Confirm(options)) => confirm::run(options, server).await,
    }
}
