//! The `hapax` command. Data goes to standard output, everything else to standard error.
//!
//! A library, because cargo compiles a library while its dependencies are still being optimised, and a program only afterwards.

mod admin;
mod api_key;
mod apply;
mod arguments;
mod audit;
mod bench;
mod bounded_file;
#[cfg(test)]
mod command_reference;
mod completions;
mod confirmation;
mod conformance;
mod copying;
mod demo;
mod dev;
mod document_kind;
mod doubts;
mod effect_store;
mod entities;
mod exit_codes;
mod health;
mod interrupts;
mod key_file;
mod keys;
mod ledger;
mod limits;
mod listing;
mod login;
mod output;
mod parsers;
mod person;
mod profiles;
mod promises;
mod request_options;
mod runs;
mod serve;
mod server_options;
mod start;
mod store_url;
mod stub;
mod validate;
mod webhooks;
mod why;
mod wire_text;
mod workers;
mod workflow_ref;
mod workflows;

use std::process::ExitCode;

use anyhow::{Context, Result};
use hapax_server::logging::{self, LogOptions};
use hapax_server::otlp::Exporter;

use arguments::{Arguments, Command};
use output::refusal::Connection;

/// A request allocates some hundred times, and what one thread allocates another often frees: faster than with the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reads the command line, carries it out, and returns the exit code.
pub fn main() -> ExitCode {
    let mut arguments = Arguments::read();
    let outcome = run(&mut arguments);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough, as in `hapax … | head`.
        Err(error) if error.is::<output::ClosedPipe>() => ExitCode::SUCCESS,
        Err(error) => {
            let server = &arguments.server;
            let connection = || Connection { server: server.server_origin(), key_from: server.key_origin() };
            output::say(&output::refusal::describe(&error, connection));
            ExitCode::from(exit_codes::exit_code(&error))
        }
    }
}

fn run(arguments: &mut Arguments) -> Result<()> {
    let Arguments { log, log_format, server, command } = arguments;
    let (server, Some(command)) = (&*server, command.take()) else { return Ok(()) };
    let logs = |default: &str| LogOptions {
        format: *log_format,
        filter: log.clone().unwrap_or_else(|| default.into()),
        colour: output::is_colourful(),
    };
    if !matches!(command, Command::Dev(_) | Command::Serve(_)) {
        logging::start(&logs("error"), None)?;
    }
    server.check()?;
    let given: Vec<String> = std::env::args_os().map(|given| given.to_string_lossy().into_owned()).collect();
    if let Some(warning) = store_url::find_warning(given.iter().map(String::as_str)) {
        output::say(warning);
    }
    match command {
        Command::Dev(options) => serving(&logs("warn"), dev::run(options)),
        Command::Serve(options) => serving(&logs("info"), serve::run(*options)),
        Command::Stub(options) => in_runtime(stub::run(options)),
        Command::Demo(options) => in_runtime(demo::run(options)),
        Command::DemoWorker(options) => in_runtime(demo::work(options)),
        Command::Bench(options) => in_runtime(bench::run(options)),
        Command::BenchNode(options) => in_runtime(bench::work(options)),
        Command::Login(options) => in_runtime(login::run(options, server)),
        Command::Profiles(options) => profiles::run(options),
        Command::Validate(options) => validate::run(&options),
        Command::Apply(options) => in_runtime(apply::run(options, server)),
        Command::Workflows(options) => in_runtime(workflows::run(options, server)),
        Command::Start(options) => in_runtime(start::run(options, server)),
        Command::Runs(options) => in_runtime(runs::run(options, server)),
        Command::Entities(options) => in_runtime(entities::run(options, server)),
        Command::Promises(options) => in_runtime(promises::run(options, server)),
        Command::Webhooks(options) => in_runtime(webhooks::run(options, server)),
        Command::Workers(options) => in_runtime(workers::run(options, server)),
        Command::Why(options) => in_runtime(why::run(options, server)),
        Command::Doubts(options) => in_runtime(doubts::run(*options, server)),
        Command::Ledger(options) => in_runtime(ledger::run(options, server)),
        Command::Audit(options) => in_runtime(audit::run(options, server)),
        Command::Keys(options) => in_runtime(keys::run(options, server)),
        Command::Admin(options) => in_runtime(admin::run(options, server)),
        Command::Health(options) => in_runtime(health::run(options, server)),
        Command::Conformance(options) => in_runtime(conformance::run(options)),
        Command::Completions(options) => completions::print(&options),
    }
}

/// Runs a server, which handles signals itself and exports traces if the environment says where.
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
            // Dropping the future removes its temporary folder.
            Ok(interrupted) = interrupted => Err(interrupted.into()),
        }
    });
    // Background tasks are of no use once the outcome is known.
    runtime.shutdown_background();
    outcome
}
