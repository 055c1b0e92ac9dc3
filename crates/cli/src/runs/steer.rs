//! `hapax runs cancel`, `pause`, `resume` and `retry`.

use anyhow::Result;
use hapax_api::client::Terms;
use hapax_api::{CancelRun, RetryRun, Run, SteerRun};

use crate::confirmation::confirm;
use crate::output::for_people::plain;
use crate::output::shape::ShapeOptions;
use crate::server_options::ServerOptions;
use crate::spelling::spelled;
use crate::terms::KeyOptions;
use crate::words::word;

const EXAMPLES: &str = "\
Examples:
  hapax runs pause run_018f…
  hapax runs resume run_018f… --if-version 7

With --if-version it is done only if the run still has the version you saw; else it is refused with 6.";

const CANCEL_EXAMPLES: &str = "\
Examples:
  hapax runs cancel run_018f… --reason 'the customer withdrew' --yes
  hapax runs cancel run_018f… --descendants --reason 'it starts itself without end' --yes

A cancellation undoes what the definition says how to undo, and cannot be taken back. It reaches children, except those that the definition
abandons; --descendants reaches all of them, also if the run itself has ended. With --if-version it is done only if the run still has the version you saw; else it is
refused with 6.";

const RETRY_EXAMPLES: &str = "\
Examples:
  hapax runs retry run_018f… --reason 'the provider is up again'
  hapax runs retry run_018f… --from charge --yes

Without --from, what failed runs again. With it, that step and all that started after it are forgotten and run again, which
cannot be taken back.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
#[command(after_help = CANCEL_EXAMPLES)]
pub(super) struct CancelOptions {
    #[command(flatten)]
    target: Target,
    /// Also cancel everything that descends from the run, and let none of it start another child.
    #[arg(long)]
    descendants: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = RETRY_EXAMPLES)]
pub(super) struct RetryOptions {
    #[command(flatten)]
    target: Target,
    /// Forget this step and all that started after it.
    #[arg(long, value_name = "STEP", value_parser = word)]
    from: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Target {
    /// The run.
    #[arg(value_parser = word)]
    run: String,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: Option<String>,
    /// Only if the run still has this version.
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

impl Target {
    fn terms(&self) -> Terms {
        Terms { if_version: self.if_version, ..self.key.terms() }
    }

    fn asked(&self) -> SteerRun {
        SteerRun { reason: self.reason.clone() }
    }

    fn tell(&self, done: &str, run: &Run) -> Result<()> {
        self.shape.show(run, || {
            let asked =
                run.asked.as_ref().map(|asked| format!(", asked to {}", spelled(asked))).unwrap_or_default();
            format!("{} {done}; it is {}{asked}, at version {}\n", run.id, spelled(&run.status), run.version)
        })
    }
}

pub(super) async fn cancel(
    CancelOptions { target, descendants }: CancelOptions,
    server: &ServerOptions,
) -> Result<()> {
    let run = plain(&target.run);
    let what = match descendants {
        true => format!("cancel {run} and everything that descends from it, and undo what they did"),
        false => format!("cancel {run} and undo what it did"),
    };
    confirm(&what, server).await?;
    let asked = CancelRun { reason: target.reason.clone(), descendants };
    let run = server.connect()?.cancel_run(&target.run, &asked, target.terms()).await?;
    let done = if descendants { "is to be cancelled with its descendants" } else { "is to be cancelled" };
    target.tell(done, &run)
}

pub(super) async fn pause(Options { target }: Options, server: &ServerOptions) -> Result<()> {
    let run = server.connect()?.pause_run(&target.run, &target.asked(), target.terms()).await?;
    target.tell("is to pause", &run)
}

pub(super) async fn resume(Options { target }: Options, server: &ServerOptions) -> Result<()> {
    let run = server.connect()?.resume_run(&target.run, &target.asked(), target.terms()).await?;
    target.tell("goes on", &run)
}

pub(super) async fn retry(RetryOptions { target, from }: RetryOptions, server: &ServerOptions) -> Result<()> {
    if let Some(step) = &from {
        let (step, run) = (plain(step), plain(&target.run));
        confirm(&format!("forget {step} of {run} and all that started after it, and run it again"), server)
            .await?;
    }
    let asked = RetryRun { from_step: from, reason: target.reason.clone() };
    let run = server.connect()?.retry_run(&target.run, &asked, target.terms()).await?;
    target.tell("is reopened", &run)
}
