//! The steps of a run on a time axis: one line each, with a bar from beginning to end.

use std::fmt::Write;
use std::time::Duration;

use hapax_api::{Run, RunStatus, Step, StepStatus};
use jiff::Timestamp;

use crate::output::tables::plain;
use crate::wire_text::{between, short_span, spelled};

const BAR_CHARS: usize = 30;
const MAX_NAME_CHARS: usize = 32;

/// State of a run and its steps so far.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    id: String,
    workflow: String,
    status: RunStatus,
    began_at: String,
    ended_at: Option<String>,
    steps: Vec<Step>,
}

impl Timeline {
    pub(super) fn of(run: &Run) -> Self {
        Timeline {
            id: run.id.clone(),
            workflow: plain(&run.workflow),
            status: run.status,
            began_at: run.started_at.clone().unwrap_or_else(|| run.created_at.clone()),
            ended_at: run.closed_at.clone(),
            steps: Vec::new(),
        }
    }

    /// Updates a step.
    pub(super) fn note(&mut self, step: Step) {
        match self.steps.iter_mut().find(|known| known.id == step.id) {
            Some(known) => *known = step,
            None => self.steps.push(step),
        }
    }

    /// Updates the run.
    pub(super) fn note_run(&mut self, run: &Run) {
        *self = Timeline { steps: std::mem::take(&mut self.steps), ..Timeline::of(run) };
    }

    pub(super) fn status(&self) -> RunStatus {
        self.status
    }

    pub(super) fn set_status(&mut self, status: RunStatus) {
        self.status = status;
    }

    /// One line for the run as a whole.
    pub(super) fn headline(&self, now: Timestamp) -> String {
        let span = short_span(between(&self.began_at, self.end(now)));
        format!("{}  {}  {}  {span}", self.id, self.workflow, spelled(&self.status))
    }

    /// One line for each of the last `most` steps.
    pub(super) fn steps(&self, now: Timestamp, most: usize) -> String {
        let now = self.end(now);
        let whole = between(&self.began_at, now);
        let hidden = self.steps.len().saturating_sub(most);
        let shown = &self.steps[hidden..];
        let names: Vec<String> =
            shown.iter().map(|step| plain(&step.id).chars().take(MAX_NAME_CHARS).collect()).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        if hidden > 0 {
            _ = writeln!(text, "  … {hidden} earlier");
        }
        for (step, name) in shown.iter().zip(names) {
            let ended = step.ended_at.as_deref().and_then(|at| at.parse().ok()).unwrap_or(now);
            let (offset, span) = (since(&self.began_at, &step.started_at), between(&step.started_at, ended));
            let mark = mark(step.status);
            let status = spelled(&step.status);
            let bar = bar(offset, span, whole);
            let why = match (step.status, &step.failure) {
                (StepStatus::Completed, _) | (_, None) => String::new(),
                (_, Some(failure)) => format!("  {}", plain(&failure.message)),
            };
            _ = writeln!(
                text,
                "  {mark} {name:<width$}  {status:<9}  ×{:<2} {bar}  {}{why}",
                step.attempts,
                short_span(span)
            );
        }
        text
    }

    fn end(&self, now: Timestamp) -> Timestamp {
        self.ended_at.as_deref().and_then(|at| at.parse().ok()).unwrap_or(now)
    }
}

fn since(from: &str, to: &str) -> Duration {
    to.parse().map(|to| between(from, to)).unwrap_or_default()
}

/// Where in the whole a span lies, as a bar that is never quite invisible.
fn bar(offset: Duration, span: Duration, whole: Duration) -> String {
    let place = |part: Duration| match whole.as_millis() {
        0 => 0,
        whole => (part.as_millis() * BAR_CHARS as u128 / whole).min(BAR_CHARS as u128) as usize,
    };
    let begin = place(offset).min(BAR_CHARS - 1);
    let end = place(offset + span).clamp(begin + 1, BAR_CHARS);
    format!("{}{}{}", "·".repeat(begin), "█".repeat(end - begin), "·".repeat(BAR_CHARS - end))
}

fn mark(status: StepStatus) -> char {
    match status {
        StepStatus::Completed => '✔',
        StepStatus::Failed | StepStatus::Cancelled => '✘',
        StepStatus::InDoubt => '?',
        StepStatus::Running => '▶',
        StepStatus::Pending | StepStatus::Waiting => '…',
        StepStatus::Skipped => '-',
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: u32) -> String {
        format!("2026-01-01T00:00:{second:02}Z")
    }

    fn run() -> Run {
        let run = json!({
            "id": "run_1", "workspaceId": "w", "status": "RUNNING", "workflow": "order@3",
            "version": 1, "generation": 0, "input": {}, "priority": "normal", "createdAt": at(0), "startedAt": at(0),
            "changedAt": at(0)
        });
        serde_json::from_value(run).unwrap()
    }

    fn step(id: &str, status: &str, from: u32, to: Option<u32>) -> Step {
        let step = json!({
            "id": id, "kind": "effect", "status": status, "attempts": 1, "startedAt": at(from), "endedAt": to.map(at),
            "changedVersion": 1, "failure": {"class": "permanent", "message": "no\u{1b}[2J"}
        });
        serde_json::from_value(step).unwrap()
    }

    #[test]
    fn each_step_has_a_line_and_a_bar_in_its_place() {
        let mut timeline = Timeline::of(&run());
        timeline.note(step("reserve", "RUNNING", 0, None));
        timeline.note(step("reserve", "COMPLETED", 0, Some(5)));
        timeline.note(step("charge\u{1b}]0;x", "FAILED", 5, None));
        let now = at(10).parse().unwrap();
        assert_eq!(timeline.headline(now), "run_1  order@3  RUNNING  10.0 s");
        let half = "█".repeat(15);
        let rest = "·".repeat(15);
        assert_eq!(
            timeline.steps(now, 20),
            format!(
                "  ✔ reserve      COMPLETED  ×1  {half}{rest}  5.0 s\n  ✘ charge ]0;x  FAILED     ×1  {rest}{half}  5.0 s  no [2J\n"
            )
        );
        assert!(timeline.steps(now, 1).starts_with("  … 1 earlier\n  ✘ charge"));
    }

    #[test]
    fn a_bar_is_always_there_and_never_too_long() {
        for (offset, span, whole) in [(0, 0, 0), (0, 0, 100), (100, 0, 100), (200, 50, 100), (0, 500, 100)] {
            let [offset, span, whole] = [offset, span, whole].map(Duration::from_millis);
            let bar = bar(offset, span, whole);
            assert_eq!(bar.chars().count(), BAR_CHARS);
            assert!(bar.contains('█'), "{bar}");
        }
    }
}
