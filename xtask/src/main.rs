//! The project's chores as commands: `cargo xtask verify` runs everything that CI runs.

mod advisories;
mod chart;
mod command_line;
mod dist;
mod fuzz_api;
mod lint_api;
mod lint_packages;
mod postgres_matrix;
mod requirements;
mod rustdoc;
mod sdk;
mod simulate;
mod storm;
mod tool;
mod try_packages;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The chores of the Hapax project")]
struct Arguments {
    #[command(subcommand)]
    chore: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check, in the order CI runs them
    Verify(verify::Options),
    /// Run the seeded simulation of the engine over more seeds than the tests do
    Simulate(simulate::Options),
    /// Send a server requests generated from its API description, and look for responses that do
    /// not match it
    FuzzApi(fuzz_api::Options),
    /// Check the API description with a linter
    LintApi(lint_api::Options),
    /// Run the tests of the PostgreSQL store on every supported version
    PostgresMatrix(postgres_matrix::Options),
    /// Check and test an SDK against the server
    Sdk(sdk::Options),
    /// Inject faults into real nodes and a real PostgreSQL, and check every promise afterwards
    Storm(storm::Options),
    /// Make the packages of a release, with checksums and a bill of materials
    Dist(dist::Options),
    /// Try the packages on a machine without Rust: a bare Debian in a folder
    TryPackages(try_packages::Options),
    /// Check the crates of this project for known vulnerabilities (needs the network)
    Advisories(advisories::Options),
    /// Check the files for containers and Kubernetes with linters
    LintPackages,
}

fn main() -> ExitCode {
    if let Some(docs_in) = rustdoc::is_asked_for() {
        return rustdoc::stand_in(docs_in, std::env::args_os().skip(1).collect());
    }
    let outcome = match Arguments::parse().chore {
        Task::Verify(options) => verify::run(&options),
        Task::Simulate(options) => simulate::run(&options),
        Task::FuzzApi(options) => fuzz_api::run(&options),
        Task::LintApi(options) => lint_api::run(&options),
        Task::PostgresMatrix(options) => postgres_matrix::run(&options),
        Task::Sdk(options) => sdk::run(&options),
        Task::Storm(options) => storm::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::TryPackages(options) => try_packages::run(&options),
        Task::Advisories(options) => advisories::run(&options),
        Task::LintPackages => lint_packages::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}
