//! `hapax admin`: workspaces and credentials of a server, and maintenance of the store behind it.

mod backup;
mod credentials;
mod fsck;
mod migrate;
mod outbox;
mod recover;
mod restore;
mod workspaces;

use anyhow::Result;

use crate::server_options::ServerOptions;

const EXAMPLES: &str = "\
Examples:
  hapax admin workspaces create acme
  hapax admin credentials create --name checkout --role operator
  hapax admin migrate --store sqlite:/var/lib/hapax/hapax.db
  hapax admin backup --store sqlite:/var/lib/hapax/hapax.db --to /backup/monday.db
  hapax admin recover --store sqlite:/var/lib/hapax/hapax.db --by ada --reason 'the first key was lost' --key-file new.key";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List, create and show the workspaces of a server.
    Workspaces(workspaces::Options),
    /// List, create, rotate and revoke the API keys of a workspace.
    Credentials(credentials::Options),
    /// Create the tables of a store or bring them up to date.
    Migrate(migrate::Options),
    /// Check the invariants of a store.
    Fsck(fsck::Options),
    /// Copy a SQLite store to a file while a server uses it.
    Backup(backup::Options),
    /// Check a backup and put it in place of a SQLite store.
    Restore(restore::Options),
    /// List after-effects in a store, and deliver one again.
    Outbox(outbox::Options),
    /// Create a new admin key when all admin keys of the installation are lost.
    Recover(recover::Options),
}

pub(crate) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    match options.command {
        Command::Workspaces(options) => workspaces::run(options, server).await,
        Command::Credentials(options) => credentials::run(options, server).await,
        Command::Migrate(options) => migrate::run(options).await,
        Command::Fsck(options) => fsck::run(options).await,
        Command::Backup(options) => backup::run(options).await,
        Command::Restore(options) => restore::run(options).await,
        Command::Outbox(options) => outbox::run(options).await,
        Command::Recover(options) => recover::run(options).await,
    }
}
