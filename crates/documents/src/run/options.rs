//! Workflow options of a document.

use hapax_engine::model::KeyOnFailure;
use hapax_engine::runtime::WorkflowOptions;

use crate::check::Checked;
use crate::input_schema::input_check;
use crate::model::{Effect, Step, StepKind};

/// The options to register a document with: version, key requirement, retention, fingerprint and effect classes.
pub fn options(checked: &Checked) -> WorkflowOptions {
    let document = checked.document();
    let mut options = WorkflowOptions::default().version(document.version);
    if document.key_required {
        options = options.require_key();
    }
    if let Some(retention) = document.retention {
        options = options.keep_keys_for(retention.get());
    }
    if document.on_failure == KeyOnFailure::Release {
        options = options.release_key_on_failure();
    }
    let options =
        options.ignore_in_fingerprint(document.ignored()).check_input(input_check(document.input.clone()));
    declare(options, &document.steps)
}

/// Steps of a loop run under names with item indices, which are not known in advance.
fn declare(mut options: WorkflowOptions, steps: &[Step]) -> WorkflowOptions {
    for step in steps {
        options = match &step.kind {
            StepKind::Task(task) => declare_effect(options, &step.name, &task.effect),
            StepKind::Http(http) => declare_effect(options, &step.name, &http.effect),
            StepKind::Condition(condition) => {
                declare(declare(options, &condition.then), &condition.otherwise)
            }
            StepKind::Parallel(parallel) => {
                parallel.branches.iter().fold(options, |options, steps| declare(options, steps))
            }
            StepKind::Wait(_)
            | StepKind::Promise(_)
            | StepKind::Signal(_)
            | StepKind::Approval(_)
            | StepKind::Child(_)
            | StepKind::ForEach(_) => options,
        };
    }
    options
}

fn declare_effect(options: WorkflowOptions, name: &str, effect: &Effect) -> WorkflowOptions {
    match effect.non_idempotent {
        true => options.non_idempotent_effect(name, effect.class),
        false => options.effect(name, effect.class),
    }
}
