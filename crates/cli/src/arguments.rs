//! The command line: every command and the options that all of them have.

use std::fmt::Write;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use hapax_server::logging::LogFormat;

use crate::exit_codes;
use crate::server_options::ServerOptions;
use crate::{
    admin, apply, audit, bench, completions, conformance, demo, dev, doubts, entities, health, keys, ledger,
    login, profiles, promises, runs, serve, start, stub, validate, webhooks, why, workers, workflows,
};

const AFTER_HELP: &str = "\
Data goes to standard output, everything else to standard error. Tables are for people; -o json and -o yaml are for programs.
The API key is read from HAPAX_API_KEY, from --api-key-file or from a profile, never from the command line. NO_COLOR turns colours off.";

const EXAMPLES: &str = "\
Examples:
  hapax dev                                    start a server to try things out
  hapax demo                                   see what Hapax is for, in ten seconds
  hapax apply order.yaml                       upload a workflow
  hapax start order --input '{\"amount\":100}' --key order-789 --watch
  hapax why order-789                          what a run waits for, and what settles it
  hapax runs list --status FAILED,PAUSED
  hapax entities show invoice INV-7            a business object and the steps it can take
  hapax doubts                                 effects with an unknown outcome, which wait for a decision
  hapax ledger --store sqlite:orders.db        every effect, for an auditor
  hapax admin migrate --store sqlite:orders.db bring the tables of a store up to date
  hapax bench all --json > figures.json        measure every workload
  hapax completions bash > ~/.local/share/bash-completion/completions/hapax";

/// Headings of `hapax --help`, and the commands under each.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("Get started", &["dev", "demo", "stub", "login", "profiles"]),
    ("Workflows and runs", &["validate", "apply", "workflows", "start", "runs", "why"]),
    ("Promises, entities and webhooks", &["promises", "entities", "webhooks", "workers"]),
    ("Decide and audit", &["doubts", "keys", "ledger", "audit"]),
    ("Operate", &["serve", "health", "admin", "bench", "conformance", "completions"]),
];

/// Durable workflows whose effects happen once.
#[derive(Debug, Parser)]
#[command(
    name = "hapax",
    version = env!("HAPAX_VERSION"),
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = format!("{}\n\n{AFTER_HELP}", exit_codes::table()),
    after_long_help = format!("{EXAMPLES}\n\n{}\n\n{AFTER_HELP}", exit_codes::table())
)]
pub(crate) struct Arguments {
    /// How much to log on standard error: off, error, warn, info, debug or trace, or by target as in info,hapax_engine=debug
    /// [default: error; info for serve, warn for dev].
    #[arg(long, global = true, env = "HAPAX_LOG", value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// Format of log lines: pretty or json.
    #[arg(long, global = true, env = "HAPAX_LOG_FORMAT", value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl Arguments {
    /// Reads the command line. Prints help or an error and exits where there is nothing to run.
    pub(crate) fn read() -> Self {
        let matches = command().get_matches();
        let read = Arguments::from_arg_matches(&matches);
        let mut arguments = read.unwrap_or_else(|error| error.format(&mut command()).exit());
        arguments.server.set_sources(&matches);
        arguments
    }
}

/// The whole command, with its subcommands under headings in `--help`.
pub(crate) fn command() -> clap::Command {
    let command = Arguments::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        command_groups(&command)
    );
    command.help_template(template)
}

fn command_groups(command: &clap::Command) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (heading, names) in GROUPS {
        _ = writeln!(text, "{heading}:");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            _ = writeln!(text, "  {name:<width$}  {}", about.trim_end_matches('.'));
        }
        text.push('\n');
    }
    text
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a local server for development, with a key, a sample and a stub provider.
    Dev(dev::Options),
    /// Take orders, crash in the middle, and charge every card exactly once.
    Demo(demo::Options),
    /// Serve a stub payment provider to try workflows against.
    Stub(stub::Options),
    /// Store the address of a server and an API key as a profile.
    Login(login::Options),
    /// List and remove stored profiles.
    Profiles(profiles::Options),
    /// Check documents without a server, and list all errors.
    Validate(validate::Options),
    /// Upload documents of any kind: workflows, webhook sources, entity workflows.
    Apply(apply::Options),
    /// List and show the workflows on a server.
    Workflows(workflows::Options),
    /// Start a run of a workflow, once per key.
    Start(start::Options),
    /// List, show, watch and control runs.
    Runs(runs::Options),
    /// Explain what a run waits for, found by any key, subject or id.
    Why(why::Options),
    /// Create, list, show and settle durable promises.
    Promises(promises::Options),
    /// Create business objects, take steps with them, and see which steps are possible.
    Entities(entities::Options),
    /// Manage incoming and outgoing webhooks.
    Webhooks(webhooks::Options),
    /// List the workers that are connected to a server, and the versions whose code they have.
    Workers(workers::Options),
    /// List and resolve effects with an unknown outcome.
    Doubts(Box<doubts::Options>),
    /// Show what an idempotency key names, or release it.
    Keys(keys::Options),
    /// Print every effect and every attempt at it, for an auditor.
    Ledger(ledger::Options),
    /// Print what people did, and why.
    Audit(audit::Options),
    /// Serve Hapax over HTTP, for production.
    Serve(Box<serve::settings::ServeOptions>),
    /// Check whether a server is alive or ready, for health checks.
    Health(health::Options),
    /// Manage workspaces, API keys and the store of an installation.
    Admin(admin::Options),
    /// Measure how fast a store is, and how near to what its disk allows.
    Bench(bench::Options),
    /// Test a service against the contract of idempotency keys.
    Conformance(conformance::Options),
    /// Print a script that completes this command in a shell.
    Completions(completions::Options),
    /// The process that the demo crashes.
    #[command(hide = true)]
    DemoWorker(demo::WorkerOptions),
    /// A process that the benchmark measures or kills.
    #[command(hide = true)]
    BenchNode(bench::NodeOptions),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn every_command_stands_under_one_heading() {
        let command = command();
        let shown: Vec<&str> =
            command.get_subcommands().filter(|it| !it.is_hide_set()).map(clap::Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped.len(), grouped.iter().collect::<BTreeSet<_>>().len());
        assert_eq!(shown.iter().collect::<BTreeSet<_>>(), grouped.iter().collect::<BTreeSet<_>>());
    }

    #[test]
    fn every_command_shows_examples() {
        fn look(command: &clap::Command, path: &str) {
            let help = [command.get_after_help(), command.get_after_long_help()];
            let has_examples = help.into_iter().flatten().any(|help| help.to_string().contains("Examples:"));
            assert!(has_examples || command.is_hide_set(), "{path} has no examples");
            command.get_subcommands().for_each(|inner| look(inner, &format!("{path} {}", inner.get_name())));
        }
        look(&command(), "hapax");
    }
}
