//! What can be said on the command line.

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use crate::{audit, bench, completions, demo, dev, doubts, ledger, migrate, outbox, serve};

const AFTER_HELP: &str = "\
Exit codes:
  0  it worked
  1  it failed; standard error says why and what to do
  2  the command line was not understood

Data goes to standard output, everything else to standard error. NO_COLOR turns colours off.";

const EXAMPLES: &str = "\
Examples:
  hapax dev                                    a server to try things out with
  hapax demo                                   see what Hapax is for, in ten seconds
  hapax bench steps                            see how fast it is on this disk
  hapax bench all --json > figures.json        every workload, for a program to read
  hapax migrate --store sqlite:orders.db       bring its tables up to date
  hapax doubts list --store sqlite:orders.db   see which effects wait for a decision
  hapax ledger --store sqlite:orders.db        every effect, for an auditor
  hapax completions bash > ~/.local/share/bash-completion/completions/hapax";

/// Durable workflows whose effects happen once.
#[derive(Debug, Parser)]
#[command(name = "hapax", version, after_help = AFTER_HELP, after_long_help = format!("{EXAMPLES}\n\n{AFTER_HELP}"))]
pub(crate) struct Arguments {
    /// How much to log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, global = true, env = "HAPAX_LOG", default_value = "error", value_name = "LEVEL")]
    pub(crate) log: LevelFilter,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Try Hapax out: a server on this machine, with a key and a sample, ready in a moment.
    Dev(dev::Options),
    /// Serve Hapax over HTTP, for production.
    Serve(Box<serve::settings::ServeOptions>),
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
    /// See effects of which nobody knows whether they happened, and decide what became of them.
    Doubts(doubts::Options),
    /// Print every effect and every attempt at it, for an auditor.
    Ledger(ledger::Options),
    /// Print what people did, and why.
    Audit(audit::Options),
    /// See after-effects, and have one delivered once more.
    Outbox(outbox::Options),
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
}
