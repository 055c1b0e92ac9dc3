//! The `hapax` command. Data goes to standard output, everything else to standard error.

mod admin;
mod api_key;
mod arguments;
mod audit;
mod backup;
mod bench;
mod bounded_file;
#[cfg(test)]
mod command_reference;
mod completions;
mod confirmation;
mod conformance;
mod copying;
mod credentials;
mod definitions;
mod deliveries;
mod demo;
mod dev;
mod doubts;
mod effect_store;
mod entities;
mod entity_workflows;
mod exit_codes;
mod fsck;
mod health;
mod interrupts;
mod key_file;
mod keys;
mod ledger;
mod limits;
mod listing;
mod migrate;
mod operations;
mod outbox;
mod output;
mod person;
mod promises;
mod restore;
mod runs;
mod serve;
mod server_options;
mod sources;
mod spelling;
mod store_url;
mod stub;
mod subscriptions;
mod terms;
mod validate;
mod words;
mod workspaces;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use hapax_server::logging::{self, LogOptions};
use hapax_server::otlp::Exporter;

use arguments::{Arguments, Command};

/// A request allocates some hundred times, and what one thread allocates another often frees: faster than with the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough, as `hapax … | head` has.
        Err(error) if error.is::<output::ClosedPipe>() => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&output::refusal::told(&error));
            ExitCode::from(exit_codes::exit_code(&error))
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let logs = |default: &str| LogOptions {
        format: arguments.log_format,
        filter: arguments.log.clone().unwrap_or_else(|| default.into()),
        colour: output::is_colourful(),
    };
    if !matches!(arguments.command, Command::Dev(_) | Command::Serve(_)) {
        logging::start(&logs("error"), None)?;
    }
    let server = arguments.server;
    server.check()?;
    let given: Vec<String> = std::env::args_os().map(|given| given.to_string_lossy().into_owned()).collect();
    if let Some(warning) = store_url::find_warning(given.iter().map(String::as_str)) {
        output::say(warning);
    }
    match arguments.command {
        Command::Dev(options) => serving(&logs("warn"), dev::run(options)),
        Command::Serve(options) => serving(&logs("info"), serve::run(*options)),
        Command::Stub(options) => in_runtime(stub::run(options)),
        Command::Demo(options) => in_runtime(demo::run(options)),
        Command::DemoWorker(options) => in_runtime(demo::work(options)),
        Command::Bench(options) => in_runtime(bench::run(options)),
        Command::BenchNode(options) => in_runtime(bench::work(options)),
        Command::Doubts(options) => in_runtime(doubts::run(options, &server)),
        Command::Ledger(options) => in_runtime(ledger::run(options, &server)),
        Command::Audit(options) => in_runtime(audit::run(options, &server)),
        Command::Outbox(options) => in_runtime(outbox::run(options)),
        Command::Backup(options) => in_runtime(backup::run(options)),
        Command::Restore(options) => in_runtime(restore::run(options)),
        Command::Migrate(options) => in_runtime(migrate::run(options)),
        Command::Definitions(options) => in_runtime(definitions::run(options, &server)),
        Command::Runs(options) => in_runtime(runs::run(options, &server)),
        Command::Promises(options) => in_runtime(promises::run(options, &server)),
        Command::EntityWorkflows(options) => in_runtime(entity_workflows::run(options, &server)),
        Command::Entities(options) => in_runtime(entities::run(options, &server)),
        Command::Operations(options) => in_runtime(operations::run(options, &server)),
        Command::Keys(options) => in_runtime(keys::run(options, &server)),
        Command::Workspaces(options) => in_runtime(workspaces::run(options, &server)),
        Command::Sources(options) => in_runtime(sources::run(options, &server)),
        Command::Subscriptions(options) => in_runtime(subscriptions::run(options, &server)),
        Command::Deliveries(options) => in_runtime(deliveries::run(options, &server)),
        Command::Credentials(options) => in_runtime(credentials::run(options, &server)),
        Command::Admin(options) => in_runtime(admin::run(options)),
        Command::Fsck(options) => in_runtime(fsck::run(options)),
        Command::Health(options) => in_runtime(health::run(options, &server)),
        Command::Conformance(options) => in_runtime(conformance::run(options)),
        Command::Validate(options) => validate::run(&options),
        Command::Completions(options) => completions::print(&options),
    }
}

/// A server sees to signals by itself, and exports traces if the environment says where to.
fn serving(logs: &LogOptions, work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the threads of the server could not be started")?;
    let outcome = runtime.block_on(async {
        let exporter = Exporter::from_env()?;
        logging::start(logs, exporter.as_ref())?;
        logging::log_panics();
        let outcome = work.await;
        if let Some(exporter) = exporter {
            // A collector that is away must not keep the process from its end.
            let _ = tokio::time::timeout(limits::LAST_EXPORT, exporter.flush()).await;
        }
        outcome
    });
    runtime.shutdown_background();
    outcome
}

fn in_runtime(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the threads of the command could not be started")?;
    let outcome = runtime.block_on(async {
        let interrupted = interrupts::first_signal().context("signals cannot be heard")?;
        tokio::select! {
            outcome = work => outcome,
            // What is dropped then takes its temporary folder with it.
            Ok(interrupted) = interrupted => Err(interrupted.into()),
        }
    });
    // What still runs is of no use to anybody once the outcome is known.
    runtime.shutdown_background();
    outcome
}
