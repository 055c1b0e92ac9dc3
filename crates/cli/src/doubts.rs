//! `hapax doubts`: effects of which nobody knows whether they happened, and what people decide about them.

mod list;
mod resolve;

use anyhow::Result;

use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax doubts list                              what the server holds
  hapax doubts list --store sqlite:orders.db     what a store holds
  hapax doubts resolve RUN STEP --seen 7 --happened '{\"transfer\":\"tx-41\"}' --by ada \\
      --reason 'the bank shows it' --store sqlite:orders.db

An effect in doubt was claimed and begun, and its outcome was lost. Its run waits until somebody who asked the provider
says what became of it.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the effects that wait for a decision, the oldest first.
    List(list::Options),
    /// Decide what is to become of one.
    Resolve(Box<resolve::Options>),
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::List(options) => list::run(options, server).await,
        Command::Resolve(options) => resolve::run(*options, server).await,
    }
}
