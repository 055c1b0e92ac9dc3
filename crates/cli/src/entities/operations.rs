//! `hapax entities operations`: steps that were taken with entities, and their outcomes.

mod list;
mod show;

use anyhow::Result;

use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax entities operations list --status IN_DOUBT
  hapax entities operations show op_018f…

An operation is one step that somebody took with an entity. `hapax doubts` lists those with an unknown outcome and decides them.";

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
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::List(options) => list::run(options, server).await,
        Command::Show(options) => show::run(options, server).await,
    }
}
