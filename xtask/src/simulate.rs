//! `cargo xtask simulate`: the engine's seeded simulation over a chosen range of seeds.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::command_line::{CommandLine, show_elapsed};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many seeds to run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed; the others follow it one by one
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let last =
        options.from.checked_add(options.seeds - 1).context("the last seed would not fit in 64 bits")?;
    let command = command(options);
    println!("==> seeds {} to {last}\n    {command}", options.from);
    let started = Instant::now();
    let status = command.run()?;
    let elapsed = show_elapsed(started.elapsed());
    ensure!(status.success(), "the simulation failed after {elapsed} ({status}); the same again: {command}");
    println!("<== seeds {} to {last} held, in {elapsed}", options.from);
    Ok(())
}

fn command(options: &Options) -> CommandLine {
    CommandLine::new("cargo test --release -p hapax-engine --test simulation --locked -- --nocapture")
        .with_env("HAPAX_SIM_SEEDS", options.seeds.to_string())
        .with_env("HAPAX_SIM_FIRST_SEED", options.from.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulation_is_told_its_seeds_through_the_environment() {
        let shown = command(&Options { seeds: 500, from: 42 }).to_string();
        assert!(
            shown.starts_with("HAPAX_SIM_SEEDS=500 HAPAX_SIM_FIRST_SEED=42 cargo test --release"),
            "{shown}"
        );
    }

    #[test]
    fn a_range_past_the_last_seed_is_refused() {
        let error = run(&Options { seeds: 2, from: u64::MAX }).unwrap_err();
        assert!(error.to_string().contains("64 bits"), "{error}");
    }
}
