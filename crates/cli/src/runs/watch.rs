//! `hapax runs watch`: a run as it happens.

use std::time::Duration;

use anyhow::{Result, anyhow};
use hapax_api::client::{Client, Followed};
use hapax_api::{EventKind, Run, RunStatus, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;

use super::timeline::Timeline;
use crate::limits::MAX_LIVE_STEPS;
use crate::output::shape::{Shape, ShapeOptions};
use crate::output::tables::plain;
use crate::output::{is_watched, print};
use crate::parsers::word;
use crate::server_options::ServerOptions;
use crate::wire_text::{between, short_span, spelled};

const EXAMPLES: &str = "\
Examples:
  hapax runs watch run_018f…
  hapax runs watch run_018f… > steps.log            one line for each thing that happens
  hapax runs watch run_018f… --json | jq -c .step

Exits with 0 if the run completed and with 1 if it failed or was cancelled. Ctrl-C stops watching; the run goes on.";

/// How often spans are drawn anew.
const REDRAW: Duration = Duration::from_millis(100);

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
    watch(&server.connect()?, &options.run, &options.shape).await
}

/// One event, for programs: exactly one of the three fields is set.
#[derive(Debug, Default, Serialize)]
struct WatchedEvent {
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<hapax_api::RunEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Run>,
}

/// Watches a run until it ends.
pub(crate) async fn watch(client: &Client, run: &str, shape: &ShapeOptions) -> Result<()> {
    let is_live = shape.shape() == Shape::Table && is_watched();
    let mut timeline = Timeline::of(&client.get_run(run).await?.run);
    let mut follower = client.follow_run(run)?;
    let board = is_live.then(LiveTimeline::new);
    let mut redraw = tokio::time::interval(REDRAW);
    loop {
        // Cutting `next` short would lose a half-read event, so it is kept while the board is drawn.
        let next = follower.next();
        tokio::pin!(next);
        let happened = loop {
            tokio::select! {
                happened = &mut next => break happened?,
                _ = redraw.tick(), if is_live => {
                    if let Some(board) = &board {
                        board.draw(&timeline);
                    }
                }
            }
        };
        let Some(happened) = happened else { return Err(anyhow!("the stream ended before {run} did")) };
        let end = tell(happened, &mut timeline, shape, is_live)?;
        if let Some(run) = end {
            if let Some(board) = board {
                board.clear();
            }
            return close(&run, &timeline, shape);
        }
    }
}

/// Processes an event and prints it, unless the timeline is drawn; returns the run if it has ended.
fn tell(
    happened: Followed,
    timeline: &mut Timeline,
    shape: &ShapeOptions,
    is_live: bool,
) -> Result<Option<Run>> {
    let for_programs = shape.shape() != Shape::Table;
    match happened {
        Followed::Run(event) => {
            if let Some(status) = status_after(event.kind) {
                timeline.set_status(status);
            }
            if for_programs {
                shape.show_all(
                    &[WatchedEvent { event: Some(event), ..WatchedEvent::default() }],
                    String::new,
                )?;
            } else if !is_live {
                let note = event.note.as_deref().map(|note| format!("  {}", plain(note))).unwrap_or_default();
                print(&format!("{}  run   {}{note}\n", event.at, spelled(&event.kind)))?;
            }
            Ok(None)
        }
        Followed::Step(step) => {
            if for_programs {
                shape.show_all(
                    &[WatchedEvent { step: Some((*step).clone()), ..WatchedEvent::default() }],
                    String::new,
                )?;
            } else if !is_live {
                print(&line_of(&step))?;
            }
            timeline.note(*step);
            Ok(None)
        }
        Followed::End(run) => {
            timeline.note_run(&run);
            if for_programs {
                shape.show_all(
                    &[WatchedEvent { end: Some((*run).clone()), ..WatchedEvent::default() }],
                    String::new,
                )?;
            }
            Ok(Some(*run))
        }
    }
}

fn line_of(step: &Step) -> String {
    let at = step.ended_at.as_ref().unwrap_or(&step.started_at);
    let span = match step.ended_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok()) {
        Some(ended) => format!("  {}", short_span(between(&step.started_at, ended))),
        None => String::new(),
    };
    let why =
        step.failure.as_ref().map(|failure| format!("  {}", plain(&failure.message))).unwrap_or_default();
    format!(
        "{at}  step  {}  {}  attempt {}{span}{why}\n",
        plain(&step.id),
        spelled(&step.status),
        step.attempts
    )
}

/// The last words: the whole timeline, and how it ended.
fn close(run: &Run, timeline: &Timeline, shape: &ShapeOptions) -> Result<()> {
    if shape.shape() == Shape::Table {
        let now = Timestamp::now();
        print(&format!("{}\n{}", timeline.headline(now), timeline.steps(now, usize::MAX)))?;
    }
    match timeline.status() {
        RunStatus::Completed => Ok(()),
        status => {
            let why =
                run.failure.as_ref().map(|failure| format!(": {}", failure.message)).unwrap_or_default();
            Err(anyhow!("{} ended {}{why}", run.id, spelled(&status)))
        }
    }
}

/// Status of a run after an event, if the event implies it.
fn status_after(kind: EventKind) -> Option<RunStatus> {
    match kind {
        EventKind::Started => Some(RunStatus::Pending),
        // A resume also withdraws a pending pause, and then the run continues.
        EventKind::Claimed | EventKind::TakenOver | EventKind::ContinuedAsNew | EventKind::Resumed => {
            Some(RunStatus::Running)
        }
        EventKind::Waited => Some(RunStatus::Waiting),
        EventKind::Paused | EventKind::Quarantined => Some(RunStatus::Paused),
        EventKind::Completed => Some(RunStatus::Completed),
        EventKind::Failed => Some(RunStatus::Failed),
        EventKind::Cancelled => Some(RunStatus::Cancelled),
        EventKind::Retried | EventKind::Released => Some(RunStatus::Pending),
        EventKind::PauseAsked | EventKind::CancelAsked => None,
    }
}

/// The live timeline on standard error, drawn over itself.
struct LiveTimeline(ProgressBar);

impl LiveTimeline {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        LiveTimeline(bar.with_style(ProgressStyle::with_template("{msg}").expect("a valid literal")))
    }

    fn draw(&self, timeline: &Timeline) {
        let now = Timestamp::now();
        self.0.set_message(format!("{}\n{}", timeline.headline(now), timeline.steps(now, MAX_LIVE_STEPS)));
    }

    fn clear(self) {
        self.0.finish_and_clear();
    }
}
