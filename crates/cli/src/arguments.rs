//! What can be said on the command line.

use clap::{Parser, Subcommand};
use hapax_server::logging::LogFormat;

use crate::exit_codes;
use crate::server_options::ServerOptions;
use crate::{
    admin, audit, backup, bench, completions, conformance, credentials, definitions, deliveries, demo, dev,
    doubts, entities, entity_workflows, fsck, health, keys, ledger, migrate, operations, outbox, promises,
    restore, runs, serve, sources, stub, subscriptions, validate, workspaces,
};

const AFTER_HELP: &str = "\
Data goes to standard output, everything else to standard error. Tables are for people; -o json and -o yaml are for programs.
The API key is read from HAPAX_API_KEY or from --api-key-file, never from the command line. NO_COLOR turns colours off.";

const EXAMPLES: &str = "\
Examples:
  hapax dev                                    a server to try things out with
  hapax demo                                   see what Hapax is for, in ten seconds
  hapax bench steps                            see how fast it is on this disk
  hapax bench all --json > figures.json        every workload, for a program to read
  hapax migrate --store sqlite:orders.db       bring its tables up to date
  hapax validate order.yaml                    see what is wrong with a definition
  hapax definitions upload order.yaml          have a server run it
  hapax runs start DEFINITION --key order-789 --watch
  hapax entities show invoice INV-7            see what may be done with a business object
  hapax doubts list                            see which effects wait for a decision
  hapax fsck --store sqlite:orders.db          see whether a store holds only what it may
  hapax ledger --store sqlite:orders.db        every effect, for an auditor
  hapax completions bash > ~/.local/share/bash-completion/completions/hapax";

/// Durable workflows whose effects happen once.
#[derive(Debug, Parser)]
#[command(
    name = "hapax",
    version = env!("HAPAX_VERSION"),
    after_help = format!("{}\n\n{AFTER_HELP}", exit_codes::table()),
    after_long_help = format!("{EXAMPLES}\n\n{}\n\n{AFTER_HELP}", exit_codes::table())
)]
pub(crate) struct Arguments {
    /// How much to log on standard error: off, error, warn, info, debug or trace, or by target as in info,hapax_engine=debug
    /// [default: error; info for serve, warn for dev].
    #[arg(long, global = true, env = "HAPAX_LOG", value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// What log lines look like: pretty or json.
    #[arg(long, global = true, env = "HAPAX_LOG_FORMAT", value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Try Hapax out: a server on this machine, with a key and a sample, ready in a moment.
    Dev(dev::Options),
    /// Serve Hapax over HTTP, for production.
    Serve(Box<serve::settings::ServeOptions>),
    /// Serve a stub payment provider, to try workflows against.
    Stub(stub::Options),
    /// Take orders, crash in the middle, and charge every card exactly once.
    Demo(demo::Options),
    /// The process that the demo crashes.
    #[command(hide = true)]
    DemoWorker(demo::WorkerOptions),
    /// Measure how fast a store is, and how near to what its disk allows.
    Bench(bench::Options),
    /// A process that the benchmark measures or kills.
    #[command(hide = true)]
    BenchNode(bench::NodeOptions),
    /// Bring the tables of a store up to date, or see what they lack.
    Migrate(migrate::Options),
    /// Copy a SQLite store to a file while a server works on it.
    Backup(backup::Options),
    /// Check a backup, and put it in the place of a SQLite store.
    Restore(restore::Options),
    /// Check documents, and see all that is wrong with them.
    Validate(validate::Options),
    /// List, show and upload documents that a server runs.
    Definitions(definitions::Options),
    /// Start runs on a server, look at them, watch them, steer them.
    Runs(runs::Options),
    /// Make promises on a server, look at them, settle them, hand them to others.
    Promises(promises::Options),
    /// Upload, list and draw the workflows that business objects are moved by.
    EntityWorkflows(entity_workflows::Options),
    /// Make business objects on a server, take steps with them, see what may be done, leave notes.
    Entities(entities::Options),
    /// See what became of steps, and decide about those of which nobody knows whether they happened.
    Operations(operations::Options),
    /// See what an idempotency key stands for, or free it.
    Keys(keys::Options),
    /// See effects of which nobody knows whether they happened, and decide what became of them.
    Doubts(doubts::Options),
    /// Print every effect and every attempt at it, for an auditor.
    Ledger(ledger::Options),
    /// Print what people did, and why.
    Audit(audit::Options),
    /// See after-effects, and have one delivered once more.
    Outbox(outbox::Options),
    /// List, make and show workspaces of a server.
    Workspaces(workspaces::Options),
    /// List, make, rotate and revoke API keys of a server.
    Credentials(credentials::Options),
    /// Say whose webhooks are believed and what is done about them; see what came in.
    Sources(sources::Options),
    /// See who is told by webhook what becomes of runs; make, change and test subscriptions.
    Subscriptions(subscriptions::Options),
    /// See what became of webhooks, and have one sent once more.
    Deliveries(deliveries::Options),
    /// Get back in when all admin keys of an installation are lost.
    Admin(admin::Options),
    /// Check that a store holds only what it may hold.
    Fsck(fsck::Options),
    /// See whether a server is alive, or ready for requests; for health checks.
    Health(health::Options),
    /// Judge a service by the contract on idempotency.
    Conformance(conformance::Options),
    /// Print a script that completes this command in a shell.
    Completions(completions::Options),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn look(command: &clap::Command, path: &str) {
            let help = [command.get_after_help(), command.get_after_long_help()];
            let has_examples = help.into_iter().flatten().any(|help| help.to_string().contains("Examples:"));
            assert!(has_examples || command.is_hide_set(), "{path} has no examples");
            command.get_subcommands().for_each(|inner| look(inner, &format!("{path} {}", inner.get_name())));
        }
        look(&Arguments::command(), "hapax");
    }
}
