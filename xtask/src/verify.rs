//! `cargo xtask verify`: every check of the project in order, stopping at the first that fails.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::command_line::{CommandLine, show_elapsed};
use crate::requirements;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Skip the steps before this one
    #[arg(long, value_name = "STEP", conflicts_with = "only")]
    from: Option<Step>,
    /// Run this step alone
    #[arg(long, value_name = "STEP")]
    only: Option<Step>,
}

/// The checks, in the order they run: the quick ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Step {
    Formatting,
    Clippy,
    Tests,
    DocTests,
    Examples,
    Docs,
}

/// What became of one chosen step.
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    println!("==> requirements");
    requirements::meet()?;

    let steps = choose_steps(options);
    let mut outcomes = Vec::with_capacity(steps.len());
    let mut failure = None;
    for (index, &step) in steps.iter().enumerate() {
        if failure.is_some() {
            outcomes.push(Outcome::NotRun);
            continue;
        }
        let command = step.command();
        println!("\n==> [{}/{}] {}: {command}", index + 1, steps.len(), step.name());
        let started = Instant::now();
        let status = command.run()?;
        let elapsed = started.elapsed();
        if status.success() {
            println!("<== {} passed in {}", step.name(), show_elapsed(elapsed));
            outcomes.push(Outcome::Passed(elapsed));
        } else {
            println!("<== {} FAILED after {}", step.name(), show_elapsed(elapsed));
            outcomes.push(Outcome::Failed(elapsed));
            failure = Some((step, command, status));
        }
    }

    println!("\n{}", summarise(&steps, &outcomes));
    if let Some((step, command, status)) = failure {
        let name = step.name();
        bail!(
            "{name} failed ({status})\n  reproduce it with: {command}\n{}  then go on with: cargo xtask verify --from {name}",
            step.hint()
        );
    }
    Ok(())
}

fn choose_steps(options: &Options) -> Vec<Step> {
    let is_chosen = |step: Step| match (options.only, options.from) {
        (Some(only), _) => step == only,
        (None, Some(first)) => step >= first,
        (None, None) => true,
    };
    Step::value_variants().iter().copied().filter(|&step| is_chosen(step)).collect()
}

fn summarise(steps: &[Step], outcomes: &[Outcome]) -> String {
    let total = outcomes.iter().filter_map(Outcome::elapsed).sum();
    let mut lines = vec![format!("{:<12} {:<8} {:>8}", "step", "result", "time")];
    for (step, outcome) in steps.iter().zip(outcomes) {
        let elapsed = outcome.elapsed().map_or_else(|| "-".to_owned(), show_elapsed);
        lines.push(format!("{:<12} {:<8} {elapsed:>8}", step.name(), outcome.word()));
    }
    lines.push(format!("{:<12} {:<8} {:>8}", "all", "", show_elapsed(total)));
    lines.join("\n")
}

impl Step {
    /// The word that `--from` and `--only` take.
    fn name(self) -> String {
        self.to_possible_value().expect("no step is hidden").get_name().to_owned()
    }

    fn command(self) -> CommandLine {
        match self {
            Self::Formatting => CommandLine::new("cargo fmt --all --check"),
            Self::Clippy if has_nextest() => {
                linted(CommandLine::new("cargo nextest run --workspace --locked --no-run"))
            }
            Self::Clippy => linted(CommandLine::new("cargo test --workspace --locked --no-run")),
            Self::Tests if has_nextest() => {
                linted(CommandLine::new("cargo nextest run --workspace --locked"))
            }
            Self::Tests => linted(CommandLine::new("cargo test --workspace --locked --lib --bins --tests")),
            Self::DocTests => linted(CommandLine::new("cargo test --workspace --doc --locked")),
            Self::Examples => linted(CommandLine::new("cargo test --workspace --examples --locked")),
            Self::Docs => CommandLine::new("cargo doc --workspace --no-deps --locked")
                .with_env("RUSTDOCFLAGS", "-D warnings"),
        }
    }

    /// A line on the remedy, where the step has one of its own.
    fn hint(self) -> &'static str {
        match self {
            Self::Formatting => "  mend it with: cargo fmt --all\n",
            Self::Clippy | Self::Tests | Self::DocTests | Self::Examples | Self::Docs => "",
        }
    }
}

/// The crates of the workspace are compiled by clippy, which is the compiler and its lints in one: what is linted is what is
/// tested, and nothing is compiled a second time for the lints alone. This is what `cargo clippy` sets for its checks.
fn linted(command: CommandLine) -> CommandLine {
    command
        .with_env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .with_env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")
}

impl Outcome {
    fn elapsed(&self) -> Option<Duration> {
        match self {
            Self::Passed(elapsed) | Self::Failed(elapsed) => Some(*elapsed),
            Self::NotRun => None,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed(_) => "FAILED",
            Self::NotRun => "not run",
        }
    }
}

fn has_nextest() -> bool {
    CommandLine::new("cargo nextest --version").succeeds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_flags_every_step_runs() {
        assert_eq!(choose_steps(&Options { from: None, only: None }), Step::value_variants());
    }

    #[test]
    fn from_skips_the_steps_before() {
        let steps = choose_steps(&Options { from: Some(Step::DocTests), only: None });
        assert_eq!(steps, [Step::DocTests, Step::Examples, Step::Docs]);
    }

    #[test]
    fn only_runs_one_step() {
        assert_eq!(choose_steps(&Options { from: None, only: Some(Step::Clippy) }), [Step::Clippy]);
    }

    #[test]
    fn the_summary_tells_a_failed_step_from_one_that_never_ran() {
        let steps = [Step::Formatting, Step::Clippy, Step::Tests];
        let second = Duration::from_secs(1);
        let outcomes = [Outcome::Passed(second), Outcome::Failed(second), Outcome::NotRun];
        let expected = [
            "step         result       time",
            "formatting   passed       1.0s",
            "clippy       FAILED       1.0s",
            "tests        not run         -",
            "all                       2.0s",
        ];
        assert_eq!(summarise(&steps, &outcomes), expected.join("\n"));
    }
}
