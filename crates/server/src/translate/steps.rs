//! Steps and failures.

use hapax_api as api;
use hapax_engine::model::{
    EffectKey, Failure, FailureClass, Generation, RunId, StepKind, StepRecord, StepState, StepStatus,
};
use hapax_engine::store::RunLog;

use super::raw;

/// The steps of a run, in the order they started.
pub(crate) fn steps_to_api(log: &RunLog) -> Vec<api::Step> {
    log.steps.iter().map(|step| step_to_api(log.head.id(), log.head.generation, step)).collect()
}

/// One step of a run.
pub(super) fn step_to_api(run: RunId, generation: Generation, step: &StepRecord) -> api::Step {
    let (mut ended_at, mut due_at, mut output, mut shown) = (None, None, None, None);
    match &step.state {
        StepState::Pending { due_at: at, failure } => {
            due_at = Some(at.to_string());
            shown = Some(failure_to_api(failure));
        }
        StepState::Running => {}
        StepState::Waiting { until } => due_at = until.map(|at| at.to_string()),
        StepState::Completed { at, output: value } => {
            ended_at = Some(at.to_string());
            output = Some(raw(value));
        }
        StepState::Failed { at, failure } => {
            ended_at = Some(at.to_string());
            shown = Some(failure_to_api(failure));
        }
        StepState::Skipped { at } | StepState::Cancelled { at } => ended_at = Some(at.to_string()),
        StepState::InDoubt { failure, .. } => shown = Some(failure_to_api(failure)),
    }
    let has_effect = step.kind.effect_class().is_some();
    api::Step {
        id: step.id.to_string(),
        kind: kind(step.kind),
        status: status(step.state.status()),
        effect_key: has_effect.then(|| EffectKey::new(run, generation, &step.id).to_string()),
        attempts: step.attempts,
        started_at: step.started_at.to_string(),
        ended_at,
        due_at,
        output,
        failure: shown,
        changed_version: step.changed_version.get(),
        child_run_id: step.child.map(|child| child.to_string()),
    }
}

/// Why a step or run failed.
pub(crate) fn failure_to_api(failure: &Failure) -> api::Failure {
    api::Failure {
        class: match failure.class() {
            FailureClass::Retryable => api::FailureClass::Retryable,
            FailureClass::Permanent => api::FailureClass::Permanent,
            FailureClass::Unknown => api::FailureClass::Unknown,
        },
        code: failure.code().map(ToOwned::to_owned),
        message: failure.message().to_owned(),
    }
}

fn kind(kind: StepKind) -> api::StepKind {
    match kind {
        StepKind::Effect => api::StepKind::Effect,
        StepKind::Claimed => api::StepKind::Claimed,
        StepKind::Transaction => api::StepKind::Transaction,
        StepKind::Undo => api::StepKind::Undo,
        StepKind::Sleep => api::StepKind::Sleep,
        StepKind::Promise => api::StepKind::Promise,
        StepKind::Signal => api::StepKind::Signal,
        StepKind::Child => api::StepKind::Child,
        StepKind::Value => api::StepKind::Value,
        StepKind::Select => api::StepKind::Select,
        StepKind::AfterEffect => api::StepKind::AfterEffect,
    }
}

/// Status of a step.
pub(super) fn status(status: StepStatus) -> api::StepStatus {
    match status {
        StepStatus::Pending => api::StepStatus::Pending,
        StepStatus::Running => api::StepStatus::Running,
        StepStatus::Waiting => api::StepStatus::Waiting,
        StepStatus::Completed => api::StepStatus::Completed,
        StepStatus::Failed => api::StepStatus::Failed,
        StepStatus::Skipped => api::StepStatus::Skipped,
        StepStatus::Cancelled => api::StepStatus::Cancelled,
        StepStatus::InDoubt => api::StepStatus::InDoubt,
    }
}
