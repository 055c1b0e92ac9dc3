//! `cargo xtask verify`: every check of the project. What needs nothing built runs beside the build, and what needs the build runs beside the
//! tests, which take longest. A step that depends on one that failed is not run.

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
    /// Run this step alone. `postgres` runs only if it is named
    #[arg(long, value_name = "STEP")]
    only: Option<Step>,
}

/// The head start of the tests before the documentation. It takes cargo a second or two to see that all is compiled, and two cargos take turns:
/// should the tests come second after all, they wait for the others to compile, and nothing else is lost.
const HEAD_START: Duration = Duration::from_secs(5);

/// The checks, in the order of their needs. `StepGroup` says which of them run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Step {
    Formatting,
    ApiLint,
    Clippy,
    Tests,
    Docs,
    Examples,
    SdkTypescript,
    SdkPython,
    Storm,
    Postgres,
}

/// Result of one chosen step.
enum Outcome {
    Passed(Duration),
    Failed(Duration, ExitStatus),
    NotRun,
}

/// This program, which is rustdoc for the doc-tests. Asked for before anything is built: a build that replaces the file leaves the path as it was.
static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::current_exe().expect("a program knows where it lies"));

/// Where `cargo doc` puts them, too.
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

/// Steps that run one after the other, beside other groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepGroup {
    /// First, with its output shown.
    Build,
    /// Beside the build: needs nothing built.
    BesideBuild,
    /// After the build, with their output shown.
    Tests,
    /// Beside the tests: documentation and examples, which need cargo.
    Documentation,
    /// Beside the tests: the SDKs, which use the server that was built and no cargo.
    Sdks,
    /// Beside the tests. Nodes, clients and tests wait for servers, disks and deadlines more than they compute.
    Storm,
}

impl StepGroup {
    fn steps(self, chosen: &[Step]) -> Vec<Step> {
        chosen.iter().copied().filter(|step| step.lane() == self).collect()
    }

    fn head_start_of_others(self) -> Duration {
        if self == Self::Documentation { HEAD_START } else { Duration::ZERO }
    }
}

/// Runs the build and what needs nothing built, then the tests and what needs the build.
fn run_steps(chosen: &[Step]) -> Result<Vec<Outcome>> {
    let mut done = run_lanes(chosen, StepGroup::Build, &[StepGroup::BesideBuild])?;
    if done.iter().all(|(_, outcome)| outcome.is_passed()) {
        done.extend(run_lanes(
            chosen,
            StepGroup::Tests,
            &[StepGroup::Documentation, StepGroup::Sdks, StepGroup::Storm],
        )?);
    }
    let mut outcome_of = |step| {
        let at = done.iter().position(|(of, _)| *of == step)?;
        Some(done.swap_remove(at).1)
    };
    Ok(chosen.iter().map(|&step| outcome_of(step).unwrap_or(Outcome::NotRun)).collect())
}

/// Runs `main` with its output shown, and the other lanes beside it with theirs captured.
fn run_lanes(chosen: &[Step], main: StepGroup, beside: &[StepGroup]) -> Result<Vec<(Step, Outcome)>> {
    thread::scope(|scope| {
        let mut running = Vec::new();
        let mut waiting = Vec::new();
        for &lane in beside {
            let (main_is_over, over) = mpsc::channel::<()>();
            waiting.push(main_is_over);
            running.push(scope.spawn(move || {
                // Once `main` is over it needs no head start any more.
                let _ = over.recv_timeout(lane.head_start_of_others());
                run_in_order(&lane.steps(chosen), Step::run_captured)
            }));
        }
        let of_main = run_in_order(&main.steps(chosen), Step::run);
        drop(waiting);
        let mut outcomes = of_main?;
        for lane in running {
            outcomes.extend(lane.join().expect("running a step does not panic")?);
        }
        Ok(outcomes)
    })
}

fn run_in_order(steps: &[Step], run: impl Fn(Step) -> Result<Outcome>) -> Result<Vec<(Step, Outcome)>> {
    let mut outcomes: Vec<(Step, Outcome)> = Vec::with_capacity(steps.len());
    for &step in steps {
        let goes_on = outcomes.iter().all(|(_, outcome)| outcome.is_passed());
        outcomes.push((step, if goes_on { run(step)? } else { Outcome::NotRun }));
    }
    Ok(outcomes)
}

fn choose_steps(options: &Options) -> Vec<Step> {
    let is_chosen = |step: Step| match (options.only, options.from) {
        (Some(only), _) => step == only,
        // It takes eight minutes beside the tests, and verify has fifteen for everything.
        (None, _) if step == Step::Postgres => false,
        // Whatever comes after the build runs what it built.
        (None, Some(first)) => step >= first || step == Step::Clippy,
        (None, None) => true,
    };
    Step::value_variants().iter().copied().filter(|&step| is_chosen(step)).collect()
}

/// The times of the steps add up to more than `total` if some ran beside others.
fn summarise(steps: &[Step], outcomes: &[Outcome], total: Duration) -> String {
    let mut lines = vec![format!("{:<14} {:<8} {:>8}", "step", "result", "time")];
    for (step, outcome) in steps.iter().zip(outcomes) {
        let elapsed = outcome.elapsed().map_or_else(|| "-".to_owned(), show_elapsed);
        lines.push(format!("{:<14} {:<8} {elapsed:>8}", step.name(), outcome.word()));
    }
    lines.push(format!("{:<14} {:<8} {:>8}", "all", "", show_elapsed(total)));
    lines.join("\n")
}

impl Step {
    /// The word that `--from` and `--only` take.
    fn name(self) -> String {
        self.to_possible_value().expect("no step is hidden").get_name().to_owned()
    }

    /// Its output goes where ours goes.
    fn run(self) -> Result<Outcome> {
        let command = self.command();
        println!("\n==> {}: {command}", self.name());
        let started = Instant::now();
        let outcome = Outcome::of(command.run()?, started.elapsed());
        println!("<== {}", outcome.tell(self));
        Ok(outcome)
    }

    fn lane(self) -> StepGroup {
        match self {
            Self::Formatting | Self::Clippy => StepGroup::Build,
            Self::ApiLint => StepGroup::BesideBuild,
            Self::Tests => StepGroup::Tests,
            Self::Docs | Self::Examples => StepGroup::Documentation,
            Self::SdkTypescript | Self::SdkPython => StepGroup::Sdks,
            Self::Storm | Self::Postgres => StepGroup::Storm,
        }
    }

    /// Beside another step: its output is shown in one piece when it is over.
    fn run_captured(self) -> Result<Outcome> {
        let command = self.command();
        let started = Instant::now();
        let (status, output) = command.run_captured()?;
        let outcome = Outcome::of(status, started.elapsed());
        let mut shown = format!("\n==> {}, beside the others: {command}\n", self.name()).into_bytes();
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
            Self::SdkTypescript => {
                CommandLine::of(PROGRAM.to_string_lossy(), "sdk typescript --as-built --if-possible")
            }
            Self::SdkPython => {
                CommandLine::of(PROGRAM.to_string_lossy(), "sdk python --as-built --if-possible")
            }
            // The programs are those that the tests were built with. One seed, so that a change is not blamed for what another plan would find.
            Self::Storm => {
                CommandLine::of(PROGRAM.to_string_lossy(), "storm --as-built --minutes 2 --seed 71")
            }
            // The oldest supported version and the newest; the tests have run on the one that is installed.
            Self::Postgres => linted(CommandLine::of(
                PROGRAM.to_string_lossy(),
                "postgres-matrix --only 14,18 --suite verify --if-possible",
            )),
        }
    }

    /// A line on the remedy, where the step has one of its own.
    fn hint(self) -> &'static str {
        match self {
            Self::Formatting => "  mend it with: cargo fmt --all\n",
            Self::Storm => {
                "  read the stories in target/storm/seed-71, and repeat it with: cargo xtask storm --minutes 2 --seed 71\n"
            }
            Self::Postgres => {
                "  read the logs in target/postgres, and repeat it with: cargo xtask postgres-matrix --only 14,18\n"
            }
            Self::ApiLint | Self::Clippy | Self::Tests | Self::Docs | Self::Examples => "",
            Self::SdkTypescript => {
                "  read its output above, and repeat it with: cargo xtask sdk typescript\n"
            }
            Self::SdkPython => "  read its output above, and repeat it with: cargo xtask sdk python\n",
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
    fn without_flags_every_step_runs_but_the_other_versions_of_postgresql() {
        let (postgres, others) = Step::value_variants().split_last().unwrap();
        assert_eq!(*postgres, Step::Postgres);
        assert_eq!(choose_steps(&Options { from: None, only: None }), others);
        assert_eq!(choose_steps(&Options { from: None, only: Some(Step::Postgres) }), [Step::Postgres]);
        assert_eq!(choose_steps(&Options { from: None, only: Some(Step::Storm) }), [Step::Storm]);
    }

    #[test]
    fn from_skips_the_steps_before_but_the_build() {
        let steps = choose_steps(&Options { from: Some(Step::Docs), only: None });
        assert_eq!(
            steps,
            [Step::Clippy, Step::Docs, Step::Examples, Step::SdkTypescript, Step::SdkPython, Step::Storm]
        );
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
            "step           result       time",
            "formatting     passed       1.0s",
            "clippy         FAILED       1.0s",
            "tests          not run         -",
            "all                         3.0s",
        ];
        assert_eq!(summarise(&steps, &outcomes, 3 * second), expected.join("\n"));
    }
}
