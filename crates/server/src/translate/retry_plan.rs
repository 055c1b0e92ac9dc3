//! The retry plan on the wire.

use hapax_api as api;
use hapax_engine::model::{PlannedEffect, RetryPlan, RunId};

use super::ledger::class_to_api;
use super::steps::status;

/// The plan for a retry of `run`.
pub(crate) fn retry_plan_to_api(run: RunId, from_step: Option<String>, plan: &RetryPlan) -> api::RetryPlan {
    let effect = |effect: &PlannedEffect| api::PlannedEffect {
        step_id: effect.step.to_string(),
        effect_key: effect.key.to_string(),
        class: effect.class.map(class_to_api),
        status: status(effect.status),
        child_run_id: effect.child.map(|child| child.to_string()),
        happens_again: effect.happens_again,
    };
    api::RetryPlan {
        run_id: run.to_string(),
        version: plan.version.get(),
        from_step,
        stays_done: plan.stays_done.iter().map(effect).collect(),
        runs_again: plan.runs_again.iter().map(effect).collect(),
        repeat_effects: plan.repeats().iter().map(|step| step.to_string()).collect(),
    }
}
