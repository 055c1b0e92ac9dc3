//! `hapax operations`: what became of steps that were taken with entities, and decisions about those in doubt.

mod list;
mod resolve;
mod show;

use anyhow::Result;

use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax operations list --status IN_DOUBT
  hapax operations show op_018f…
  hapax operations resolve op_018f… --happened --result '{\"refund\":\"re_1\"}' --reason 'the bank shows it'

An operation is one requested step of an entity (`hapax entities`). Effects of runs that are in doubt: `hapax doubts`.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List operations, the newest first.
    List(list::Options),
    /// Show one operation and what happened to it.
    Show(show::Options),
    /// Decide about an operation in doubt.
    Resolve(resolve::Options),
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::List(options) => list::run(options, server).await,
        Command::Show(options) => show::run(options, server).await,
        Command::Resolve(options) => resolve::run(options, server).await,
    }
}
