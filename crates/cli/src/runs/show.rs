//! `hapax runs show`.

use std::fmt::Write;

use anyhow::Result;
use hapax_api::{RawJson, Run, RunDetail};

use super::timeline::Timeline;
use crate::output::shape::ShapeOptions;
use crate::output::tables::{plain, without_commands};
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::spelled;

const EXAMPLES: &str = "\
Examples:
  hapax runs show run_018f…
  hapax runs show run_018f… --json | jq .steps";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Id of the run.
    #[arg(value_parser = word)]
    run: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

pub(super) async fn run(options: Options, server: &ServerOptions) -> Result<()> {
    let client = server.connect()?;
    let detail = client.get_run(&options.run).await?;
    options.shape.show(&detail, || sheet(&detail, jiff::Timestamp::now()))
}

pub(super) fn sheet(detail: &RunDetail, now: jiff::Timestamp) -> String {
    let run = &detail.run;
    let mut text = String::new();
    for (name, value) in facts(run) {
        _ = writeln!(text, "{name:<10}{value}");
    }
    let mut timeline = Timeline::of(run);
    detail.steps.iter().for_each(|step| timeline.note(step.clone()));
    _ = write!(text, "\n{}", timeline.steps(now, usize::MAX));
    text
}

fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("run", run.id.clone()),
        ("status", spelled(&run.status)),
        ("workflow", plain(&run.workflow)),
        ("version", run.version.to_string()),
        ("workspace", plain(&run.workspace_id)),
        ("created", run.created_at.clone()),
        ("changed", run.changed_at.clone()),
    ];
    let json = |value: &RawJson| without_commands(value.text()).replace('\n', " ");
    let failure = run.failure.as_ref().map(|failure| plain(&failure.message));
    let more = [
        ("key", run.idempotency_key.as_deref().map(plain)),
        ("subject", run.subject.as_deref().map(plain)),
        ("pending request", run.pending_request.as_ref().map(spelled)),
        ("wakes", run.wake_at.clone()),
        ("needs you", run.needs_attention.as_ref().map(|needs| plain(&needs.detail))),
        ("ended", run.closed_at.clone()),
        ("input", Some(json(&run.input))),
        ("output", run.output.as_ref().map(json)),
        ("failure", failure),
    ];
    facts.extend(more.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
    facts
}
