//! Replays a recorded history against code that may have changed.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::test_environment::TestEnvironment;
use crate::Error;
use crate::ctx::Ctx;
use crate::model::{Failure, RunResult};
use crate::runtime::WorkflowOptions;
use crate::store::{RunLog, Store};

/// Checks that changed workflow code still fits a recorded history.
///
/// It replays `workflow` up to the first effect without a record, which does not run. It fails if the code
/// does not request the recorded steps; open runs would fail in the same way.
///
/// Get the history with [`Engine::get_log`](crate::Engine::get_log).
pub async fn replay<F, Fut, I, O, E>(history: RunLog, workflow: F) -> Result<(), Failure>
where
    F: Fn(Ctx, I) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<Failure> + Send + 'static,
{
    let env = TestEnvironment::new();
    let (run, reference) = (history.head.id(), history.head.facts.workflow.clone());
    let workspace = history.head.facts.workspace.clone();
    env.store().adopt(history);
    let guarded = move |ctx: Ctx, input: I| {
        // Only the history is checked, so no new effect may begin.
        ctx.hold_effects();
        workflow(ctx, input)
    };
    let options = WorkflowOptions::default().version(reference.version);
    env.engine().register_with(reference.name.as_str(), options, guarded).map_err(unusable)?;
    for _ in 0..10 {
        env.idle().await;
    }
    let view = env.store().find_run(&workspace, run).await.map_err(|error| unusable(error.into()))?;
    match view.and_then(|view| view.result) {
        Some(RunResult::Failed(failure)) if failure.code() == Some("determinism_violation") => Err(failure),
        _ => Ok(()),
    }
}

fn unusable(error: Error) -> Failure {
    Failure::permanent(format!("the history cannot be replayed: {error}"))
}
