//! Runs and their history.

use hapax_api as api;
use hapax_engine::model::{
    Attention, AttentionReason, EventKind, PendingRequest, Priority, RunEvent, RunHead, RunId, RunResult,
    RunState, RunStatus, WorkflowSelector, current_step,
};
use hapax_engine::store::{RunLog, RunView};

use super::raw;
use super::steps::{failure_to_api, steps_to_api};

/// One run. `definition` is the id of its definition, if it has one.
pub(crate) fn run_to_api(view: &RunView, definition: Option<String>) -> api::Run {
    let RunView { head, input, result } = view;
    let facts = &head.facts;
    let (output, failure) = ending_to_api(result.as_ref());
    let closed_at = match head.state {
        RunState::Closed { at, .. } => Some(at.to_string()),
        RunState::Pending { .. } | RunState::Running(_) | RunState::Waiting { .. } | RunState::Paused => None,
    };
    let wake_at = match head.state {
        RunState::Pending { due_at } => Some(due_at),
        RunState::Waiting { wake_at } => wake_at,
        RunState::Running(_) | RunState::Paused | RunState::Closed { .. } => None,
    };
    api::Run {
        id: facts.id.to_string(),
        workspace_id: facts.workspace.to_string(),
        status: status(head.status()),
        definition_id: definition,
        workflow: WorkflowSelector::from(facts.workflow.clone()).to_string(),
        version: head.version.get(),
        generation: head.generation.get().into(),
        current_step_name: None,
        input: raw(input),
        output,
        failure,
        idempotency_key: facts.key.as_ref().map(ToString::to_string),
        subject: facts.subject.as_ref().map(ToString::to_string),
        priority: match facts.priority {
            Priority::Low => api::Priority::Low,
            Priority::Normal => api::Priority::Normal,
            Priority::High => api::Priority::High,
        },
        parent: facts.parent.as_ref().map(|parent| api::ParentRun {
            run_id: parent.run.to_string(),
            step_id: parent.step.to_string(),
        }),
        pending_request: pending_request(head),
        created_at: facts.created_at.to_string(),
        started_at: head.started_at.map(|at| at.to_string()),
        changed_at: head.changed_at.to_string(),
        closed_at,
        deadline_at: facts.deadline_at.map(|at| at.to_string()),
        wake_at: wake_at.map(|at| at.to_string()),
        needs_attention: None,
    }
}

/// Result of a run.
pub(crate) fn result_to_api(view: &RunView) -> api::RunResult {
    let (output, failure) = ending_to_api(view.result.as_ref());
    let (run_id, status) = (view.head.id().to_string(), status(view.head.status()));
    api::RunResult { run_id, status, output, failure }
}

fn ending_to_api(result: Option<&RunResult>) -> (Option<api::RawJson>, Option<api::Failure>) {
    match result {
        Some(RunResult::Completed(output)) => (Some(raw(output)), None),
        Some(RunResult::Failed(failure) | RunResult::Cancelled(failure)) => {
            (None, Some(failure_to_api(failure)))
        }
        None => (None, None),
    }
}

/// Problem of a run that needs a person, and the remedy.
pub(crate) fn attention_to_api(run: RunId, attention: &Attention) -> api::Attention {
    let step = attention.step.as_ref().map(ToString::to_string);
    let note = attention.note.as_deref().unwrap_or("it was paused");
    let resolve = format!("POST /api/v1/doubts/{run}/{}/resolve", step.as_deref().unwrap_or("{step}"));
    let (reason, detail) = match attention.reason {
        AttentionReason::RetriesExhausted => (
            api::AttentionReason::RetriesExhausted,
            format!(
                "Paused: {note}. Repair the cause, then POST /api/v1/workflow-runs/{run}/resume, or cancel the run."
            ),
        ),
        AttentionReason::Quarantined => (
            api::AttentionReason::Quarantined,
            format!(
                "Quarantined: {note}. Look for its panics or crashes in the logs, then POST /api/v1/workflow-runs/{run}/resume, or cancel the run."
            ),
        ),
        AttentionReason::InDoubt => (
            api::AttentionReason::InDoubt,
            format!(
                "It is unknown whether the effect happened. Ask the provider for its effect key (GET /api/v1/doubts), then decide with {resolve}."
            ),
        ),
        AttentionReason::CompensationFailed => (
            api::AttentionReason::CompensationFailed,
            format!(
                "The compensation failed. Repair the cause or undo the effect by hand, then decide with {resolve}: `did_not_happen` tries it again, `happened` says that it is undone, `abandon` gives it up."
            ),
        ),
    };
    api::Attention { reason, step_id: step, detail }
}

/// One run with its steps.
pub(crate) fn run_with_steps_to_api(
    view: &RunView,
    log: &RunLog,
    definition: Option<String>,
    is_whole: bool,
) -> api::RunDetail {
    let mut run = run_to_api(view, definition);
    run.current_step_name = current_step(&log.steps).map(|step| step.id.to_string());
    let steps = if is_whole { steps_to_api(log) } else { Vec::new() };
    api::RunDetail { run, steps }
}

fn pending_request(head: &RunHead) -> Option<api::PendingRequest> {
    match head.asked {
        PendingRequest::Nothing => None,
        PendingRequest::Pause => Some(api::PendingRequest::Pause),
        PendingRequest::Cancel => Some(api::PendingRequest::Cancel),
    }
}

fn status(status: RunStatus) -> api::RunStatus {
    match status {
        RunStatus::Pending => api::RunStatus::Pending,
        RunStatus::Running => api::RunStatus::Running,
        RunStatus::Waiting => api::RunStatus::Waiting,
        RunStatus::Paused => api::RunStatus::Paused,
        RunStatus::Completed => api::RunStatus::Completed,
        RunStatus::Failed => api::RunStatus::Failed,
        RunStatus::Cancelled => api::RunStatus::Cancelled,
    }
}

/// The status in a filter.
pub(crate) fn parse_status(text: &str) -> Option<RunStatus> {
    RunStatus::from_name(text)
}

/// One entry of a run's history.
pub(crate) fn event_to_api(event: &RunEvent) -> api::RunEvent {
    api::RunEvent {
        version: event.version.get(),
        at: event.at.to_string(),
        fence: event.fence.get(),
        kind: kind(event.kind),
        note: event.note.clone(),
    }
}

fn kind(kind: EventKind) -> api::EventKind {
    match kind {
        EventKind::Started => api::EventKind::Started,
        EventKind::Claimed => api::EventKind::Claimed,
        EventKind::TakenOver => api::EventKind::TakenOver,
        EventKind::Waited => api::EventKind::Waited,
        EventKind::Released => api::EventKind::Released,
        EventKind::PauseRequested => api::EventKind::PauseAsked,
        EventKind::Paused => api::EventKind::Paused,
        EventKind::Resumed => api::EventKind::Resumed,
        EventKind::CancelRequested => api::EventKind::CancelAsked,
        EventKind::Quarantined => api::EventKind::Quarantined,
        EventKind::ContinuedAsNew => api::EventKind::ContinuedAsNew,
        EventKind::Completed => api::EventKind::Completed,
        EventKind::Failed => api::EventKind::Failed,
        EventKind::Cancelled => api::EventKind::Cancelled,
        EventKind::Retried => api::EventKind::Retried,
    }
}
