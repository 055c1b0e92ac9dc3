//! `cargo xtask verify`: every check of the project in order, the last ones beside the tests, which
//! take longest; it stops after a failure.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::command_line::{CommandLine, show_elapsed};
use crate::{requirements, rustdoc};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Skip the steps before this one
    #[arg(long, value_name = "STEP", conflicts_with = "only")]
    from: Option<Step>,
    /// Run only this step
    #[arg(long, value_name = "STEP")]
    only: Option<Step>,
}

/// Head start of the tests before the steps that run beside them. Cargo needs a second or two to
/// see that everything is compiled, and two cargos take turns: if the tests came second, they would
/// wait for the others to compile, and nothing else would be lost.
const HEAD_START: Duration = Duration::from_secs(5);

/// The checks, in order. The steps between the tests and the storm run beside the tests, one after
/// the other: the tests wait for disks and servers more than they compute. The storm comes last and
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Step {
    Formatting,
    ApiLint,
    Clippy,
    Tests,
    Docs,
    Examples,
    Storm,
}

/// Result of one chosen step.
enum Outcome {
    Passed(Duration),
    Failed(Duration, ExitStatus),
    NotRun,
}

/// This program, which also serves as rustdoc for the doc-tests. Its path is read before anything
/// is built, because a build replaces the file.
static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::current_exe().expect("a program knows where it lies"));

/// The output folder of `cargo doc`, too.
fn docs_in() -> PathBuf {
    PROGRAM.ancestors().nth(2).unwrap_or(&PROGRAM).join("doc")
}

pub(crate) fn run(options: &Options) -> Result<()> {
    LazyLock::force(&PROGRAM);
    println!("==> requirements");
    requirements::meet()?;

    let steps = choose_steps(options);
    let started = Instant::now();
    let outcomes = run_steps(&steps)?;
    println!("\n{}", summarise(&steps, &outcomes, started.elapsed()));
    for (step, outcome) in steps.iter().zip(outcomes) {
        if let Outcome::Failed(_, status) = outcome {
            let (name, command) = (step.name(), step.command());
            bail!(
                "{name} failed ({status})\n  reproduce it with: {command}\n{}  then go on with: cargo xtask verify --from {name}",
                step.hint()
            );
        }
    }
    Ok(())
}

fn run_steps(steps: &[Step]) -> Result<Vec<Outcome>> {
    let Some(tests) = steps.iter().position(|&step| step == Step::Tests) else {
        return run_in_order(steps, Step::run);
    };
    let storm = steps.iter().position(|&step| step == Step::Storm).unwrap_or(steps.len());
    let (before, beside, last) = (&steps[..tests], &steps[tests + 1..storm], &steps[storm..]);
    let mut outcomes = run_in_order(before, Step::run)?;
    if outcomes.iter().any(|outcome| !outcome.is_passed()) {
        outcomes.resize_with(steps.len(), || Outcome::NotRun);
        return Ok(outcomes);
    }
    let (of_tests, of_beside) = thread::scope(|scope| {
        let (tests_are_over, over) = mpsc::channel::<()>();
        let beside = scope.spawn(move || {
            // If the tests have ended, they need no head start.
            let _ = over.recv_timeout(HEAD_START);
            run_in_order(beside, Step::run_captured)
        });
        let of_tests = Step::Tests.run();
        drop(tests_are_over);
        (of_tests, beside.join().expect("running a step does not panic"))
    });
    outcomes.push(of_tests?);
    outcomes.extend(of_beside?);
    if outcomes.iter().all(Outcome::is_passed) {
        outcomes.extend(run_in_order(last, Step::run)?);
    }
    outcomes.resize_with(steps.len(), || Outcome::NotRun);
    Ok(outcomes)
}

fn run_in_order(steps: &[Step], run: impl Fn(Step) -> Result<Outcome>) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::with_capacity(steps.len());
    let mut goes_on = true;
    for &step in steps {
        let outcome = if goes_on { run(step)? } else { Outcome::NotRun };
        goes_on = outcome.is_passed();
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn choose_steps(options: &Options) -> Vec<Step> {
    let is_chosen = |step: Step| match (options.only, options.from) {
        (Some(only), _) => step == only,
        (None, Some(first)) => step >= first,
        (None, None) => true,
    };
    Step::value_variants().iter().copied().filter(|&step| is_chosen(step)).collect()
}

/// Formats the results. The times of the steps add up to more than `total` if some ran beside
/// others.
fn summarise(steps: &[Step], outcomes: &[Outcome], total: Duration) -> String {
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

    /// Inherits this process's output.
    fn run(self) -> Result<Outcome> {
        let command = self.command();
        println!("\n==> {}: {command}", self.name());
        let started = Instant::now();
        let outcome = Outcome::of(command.run()?, started.elapsed());
        println!("<== {}", outcome.tell(self));
        Ok(outcome)
    }

    /// Runs beside another step: prints its output in one piece at its end.
    fn run_captured(self) -> Result<Outcome> {
        let command = self.command();
        let started = Instant::now();
        let (status, output) = command.run_captured()?;
        let outcome = Outcome::of(status, started.elapsed());
        let mut shown = format!("\n==> {}, beside the tests: {command}\n", self.name()).into_bytes();
        shown.extend(output);
        shown.extend(format!("<== {}\n\n", outcome.tell(self)).into_bytes());
        std::io::stdout().write_all(&shown)?;
        Ok(outcome)
    }

    fn command(self) -> CommandLine {
        match self {
            Self::Formatting => CommandLine::new("cargo fmt --all --check"),
            Self::ApiLint => CommandLine::of(PROGRAM.to_string_lossy(), "lint-api --if-possible"),
            Self::Clippy if has_nextest() => {
                linted(CommandLine::new("cargo nextest run --workspace --locked --no-run"))
            }
            Self::Clippy => linted(CommandLine::new("cargo test --workspace --locked --no-run")),
            Self::Tests if has_nextest() => {
                linted(CommandLine::new("cargo nextest run --workspace --locked"))
            }
            Self::Tests => linted(CommandLine::new("cargo test --workspace --locked --lib --bins --tests")),
            Self::Docs => linted(CommandLine::new("cargo test --workspace --doc --locked"))
                .with_env("RUSTDOC", PROGRAM.to_string_lossy())
                .with_env(rustdoc::DOCS_IN, docs_in().to_string_lossy()),
            Self::Examples => linted(CommandLine::new("cargo test --workspace --examples --locked")),
            // The storm uses the programs that were built for the tests. It has a fixed seed, so
            // that a change is not blamed for the findings of another plan.
            Self::Storm => {
                CommandLine::of(PROGRAM.to_string_lossy(), "storm --as-built --minutes 2 --seed 71")
            }
        }
    }

    /// A hint on the remedy, for steps with one of their own.
    fn hint(self) -> &'static str {
        match self {
            Self::Formatting => "  mend it with: cargo fmt --all\n",
            Self::Storm => {
                "  read the stories in target/storm/seed-71, and repeat it with: cargo xtask storm --minutes 2 --seed 71\n"
            }
            Self::ApiLint | Self::Clippy | Self::Tests | Self::Docs | Self::Examples => "",
        }
    }
}

/// Compiles the crates of the workspace with clippy, which is the compiler plus lints: the linted
/// code is the tested code, and nothing is compiled a second time. `cargo clippy` sets the same
/// variables.
fn linted(command: CommandLine) -> CommandLine {
    command
        .with_env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .with_env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")
}

impl Outcome {
    fn of(status: ExitStatus, elapsed: Duration) -> Self {
        if status.success() { Self::Passed(elapsed) } else { Self::Failed(elapsed, status) }
    }

    fn is_passed(&self) -> bool {
        matches!(self, Self::Passed(_))
    }

    fn elapsed(&self) -> Option<Duration> {
        match self {
            Self::Passed(elapsed) | Self::Failed(elapsed, _) => Some(*elapsed),
            Self::NotRun => None,
        }
    }

    fn tell(&self, step: Step) -> String {
        let elapsed =
            self.elapsed().map_or_else(String::new, |elapsed| format!(" after {}", show_elapsed(elapsed)));
        format!("{} {}{elapsed}", step.name(), self.word())
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed(..) => "FAILED",
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
        assert_eq!(choose_steps(&Options { from: None, only: Some(Step::Storm) }), [Step::Storm]);
    }

    #[test]
    fn from_skips_the_steps_before() {
        let steps = choose_steps(&Options { from: Some(Step::Docs), only: None });
        assert_eq!(steps, [Step::Docs, Step::Examples, Step::Storm]);
    }

    #[test]
    fn only_runs_one_step() {
        assert_eq!(choose_steps(&Options { from: None, only: Some(Step::Clippy) }), [Step::Clippy]);
    }

    #[test]
    fn the_summary_tells_a_failed_step_from_one_that_never_ran() {
        let steps = [Step::Formatting, Step::Clippy, Step::Tests];
        let second = Duration::from_secs(1);
        let outcomes =
            [Outcome::Passed(second), Outcome::Failed(second, ExitStatus::default()), Outcome::NotRun];
        let expected = [
            "step         result       time",
            "formatting   passed       1.0s",
            "clippy       FAILED       1.0s",
            "tests        not run         -",
            "all                       3.0s",
        ];
        assert_eq!(summarise(&steps, &outcomes, 3 * second), expected.join("\n"));
    }
}
