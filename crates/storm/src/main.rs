//! Real nodes on a real PostgreSQL, under faults, with a provider that writes down every effect. `cargo xtask storm` builds and runs it.

mod checks;
mod clients;
mod documents;
mod event_log;
mod http;
mod limits;
mod nodes;
mod people;
mod plan;
mod provider;
mod proxy;
mod report;
mod storm;
mod webhook;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;

#[derive(Parser)]
#[command(about = "Lets faults loose on nodes of Hapax; `cargo xtask storm --help` explains it")]
struct Arguments {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: u8,
    /// How long it takes in all, healing and checking included
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Seed of the plan; random if absent
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// The `hapax` to run
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Where logs and stories go
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Completes on Ctrl-C or SIGTERM.
async fn until_told_to_end() {
    let told = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    match told {
        Ok(mut told) => {
            tokio::select! {
                _ = told.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

/// Returns whether the storm found no violation.
fn run(arguments: &Arguments) -> Result<bool> {
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000));
    let folder = arguments.folder.join(format!("seed-{seed}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("what the last time left cannot be removed")?;
    }
    std::fs::create_dir_all(&folder).context("no folder for logs and stories")?;
    let options = storm::Options {
        seed,
        nodes: usize::from(arguments.nodes),
        total: Duration::from_secs(arguments.minutes * 60),
        program: arguments.program.canonicalize().context("there is no such program")?,
        folder: folder.canonicalize()?,
    };
    println!("==> seed {seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(async {
        tokio::select! {
            report = storm::run(&options) => report,
            // Dropping the storm ends its nodes and its database.
            () = until_told_to_end() => anyhow::bail!("it was told to end"),
        }
    })?;
    report.write(&options.folder)?;
    println!("\n{}", report.summary());
    if report.violations.is_empty() {
        println!("no violations");
        return Ok(true);
    }
    println!("{}", report.violations_by_check());
    println!("stories and logs: {}", options.folder.display());
    println!("the same plan again: {}", report.again());
    Ok(false)
}
