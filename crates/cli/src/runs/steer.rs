//! `hapax runs cancel`, `pause`, `resume` and `retry`.

use anyhow::Result;
use hapax_api::client::RequestOptions;
use hapax_api::{CancelRun, PlannedEffect, RetryPlan, RetryRun, Run, SteerRun};

use crate::confirmation::confirm;
use crate::output::shape::ShapeOptions;
use crate::output::tables::plain;
use crate::parsers::word;
use crate::request_options::KeyOptions;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;

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
  hapax runs retry run_018f… --from charge --dry-run
  hapax runs retry run_018f… --from charge --yes
  hapax runs retry run_018f… --from fax --repeat-effect fax --reason 'the paper was empty' --yes

Without --from, what failed runs again. With it, that step and all that started after it are forgotten and run again, which
cannot be taken back. --dry-run shows which effects stay done, which run again, and which of those would happen a second time.
Each of the last must be named with --repeat-effect, by a manager, with a reason.";

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
    /// Also cancel all descendants of the run, and keep them from starting more children.
    #[arg(long)]
    descendants: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = RETRY_EXAMPLES)]
pub(super) struct RetryOptions {
    #[command(flatten)]
    target: Target,
    /// Forget this step and all later ones.
    #[arg(long, value_name = "STEP", value_parser = word)]
    from: Option<String>,
    /// Show what the retry would do to the effects of the run, without changing anything.
    #[arg(long, conflicts_with_all = ["reason", "if_version", "repeat_effect"])]
    dry_run: bool,
    /// Allow the effect of this step to happen again; may be given more than once. Needs the role manager, and --reason.
    #[arg(long, value_name = "STEP", value_parser = word, requires = "reason")]
    repeat_effect: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Target {
    /// Id of the run.
    #[arg(value_parser = word)]
    run: String,
    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = word)]
    reason: Option<String>,
    /// Act only if the run still has this version.
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    #[command(flatten)]
    key: KeyOptions,
    #[command(flatten)]
    shape: ShapeOptions,
}

impl Target {
    fn options(&self) -> RequestOptions {
        RequestOptions { if_version: self.if_version, ..self.key.options() }
    }

    fn asked(&self) -> SteerRun {
        SteerRun { reason: self.reason.clone() }
    }

    fn tell(&self, done: &str, run: &Run) -> Result<()> {
        self.shape.show(run, || {
            let asked = run
                .pending_request
                .as_ref()
                .map(|asked| format!(", asked to {}", spelled(asked)))
                .unwrap_or_default();
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
        true => format!("cancel {run} and all its descendants, and undo their effects"),
        false => format!("cancel {run} and undo its effects"),
    };
    confirm(&what, server).await?;
    let asked = CancelRun { reason: target.reason.clone(), descendants };
    let run = server.connect()?.cancel_run(&target.run, &asked, target.options()).await?;
    let done = if descendants { "will be cancelled with its descendants" } else { "will be cancelled" };
    target.tell(done, &run)
}

pub(super) async fn pause(Options { target }: Options, server: &ServerOptions) -> Result<()> {
    let run = server.connect()?.pause_run(&target.run, &target.asked(), target.options()).await?;
    target.tell("will pause", &run)
}

pub(super) async fn resume(Options { target }: Options, server: &ServerOptions) -> Result<()> {
    let run = server.connect()?.resume_run(&target.run, &target.asked(), target.options()).await?;
    target.tell("continues", &run)
}

pub(super) async fn retry(options: RetryOptions, server: &ServerOptions) -> Result<()> {
    let RetryOptions { target, from, dry_run, repeat_effect } = options;
    if dry_run {
        let plan = server.connect()?.plan_retry(&target.run, from.as_deref()).await?;
        return target.shape.show(&plan, || told_plan(&plan));
    }
    if let Some(step) = &from {
        let (step, run) = (plain(step), plain(&target.run));
        let again: Vec<String> = repeat_effect.iter().map(|step| plain(step).to_string()).collect();
        let again = match again.is_empty() {
            true => String::new(),
            false => format!("; {} will happen a second time", again.join(", ")),
        };
        let what = format!("forget {step} of {run} and all later steps, and run them again{again}");
        confirm(&what, server).await?;
    }
    let asked = RetryRun { from_step: from, reason: target.reason.clone(), repeat_effects: repeat_effect };
    let run = server.connect()?.retry_run(&target.run, &asked, target.options()).await?;
    target.tell("is reopened", &run)
}

/// A plan for people: one line for each effect.
fn told_plan(plan: &RetryPlan) -> String {
    let mut told = format!("A retry of {} at version {} would do this:\n", plain(&plan.run_id), plan.version);
    for effect in &plan.stays_done {
        told.push_str(&format!("  stays done     {}\n", named(effect)));
    }
    for effect in &plan.runs_again {
        let what = match effect.happens_again {
            true => "HAPPENS AGAIN",
            false => "runs again",
        };
        told.push_str(&format!("  {what:<14} {}\n", named(effect)));
    }
    if plan.stays_done.is_empty() && plan.runs_again.is_empty() {
        told.push_str("  no step with an effect is affected\n");
    }
    if !plan.repeat_effects.is_empty() {
        let named: Vec<String> =
            plan.repeat_effects.iter().map(|step| format!("--repeat-effect {}", plain(step))).collect();
        let named = named.join(" ");
        told.push_str(&format!(
            "To allow it, as a manager: {named} --reason WHY --if-version {}\n",
            plan.version
        ));
    }
    told
}

fn named(effect: &PlannedEffect) -> String {
    let kind = match (&effect.class, &effect.child_run_id) {
        (_, Some(child)) => format!("child {}", plain(child)),
        (Some(class), None) => spelled(class),
        (None, None) => "child".into(),
    };
    format!("{} ({kind}, {})", plain(&effect.step_id), spelled(&effect.status))
}
