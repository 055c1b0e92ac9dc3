//! The replay of a recorded history against code that may have changed.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::lab::Lab;
use crate::Error;
use crate::ctx::Ctx;
use crate::model::{Failure, RunResult};
use crate::runtime::WorkflowOptions;
use crate::store::{RunLog, Store};

/// Runs `workflow` against a recorded history, up to the first effect that is not on record, which is not run. Fails if the code does
/// not ask for what was recorded: runs that are under way would fail with it.
///
/// The history is what [`Engine::get_log`](crate::Engine::get_log) gives.
pub async fn replay<F, Fut, I, O, E>(history: RunLog, workflow: F) -> Result<(), Failure>
where
    F: Fn(Ctx, I) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<Failure> + Send + 'static,
{
    let lab = Lab::new();
    let (run, reference) = (history.head.id(), history.head.facts.workflow.clone());
    let workspace = history.head.facts.workspace.clone();
    lab.store().adopt(history);
    let guarded = move |ctx: Ctx, input: I| {
        // Nothing new may be begun: the history is all there is to find out about.
        ctx.hold_effects();
        workflow(ctx, input)
    };
    let options = WorkflowOptions::default().version(reference.version);
    lab.engine().register_with(reference.name.as_str(), options, guarded).map_err(unusable)?;
    for _ in 0..10 {
        lab.idle().await;
    }
    let view = lab.store().find_run(&workspace, run).await.map_err(|error| unusable(error.into()))?;
    match view.and_then(|view| view.result) {
        Some(RunResult::Failed(failure)) if failure.code() == Some("determinism_violation") => Err(failure),
        _ => Ok(()),
    }
}

fn unusable(error: Error) -> Failure {
    Failure::permanent(format!("the history cannot be replayed: {error}"))
}
