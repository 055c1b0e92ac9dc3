//! Settles promises for external callers, and counts the outcomes.

use std::time::Duration;

use hapax_engine::model::{Actor, PromiseRef, SettleRequest, WorkspaceId};
use hapax_engine::runtime::SettlePromiseOutcome;
use hapax_engine::{Engine, Error};

use crate::app::App;
use crate::metrics::Metrics;

/// Settles a promise of `workspace`, and counts the outcome. `by` is the person who settles it, if
/// there is one.
pub(crate) async fn settle(
    engine: &Engine,
    metrics: &Metrics,
    workspace: &WorkspaceId,
    promise: PromiseRef,
    wish: SettleRequest,
    keep_for: Option<Duration>,
    by: Option<Actor>,
) -> Result<SettlePromiseOutcome, Error> {
    let answer = engine.workspace(workspace.clone()).settle_by(promise.clone(), wish, keep_for, by).await;
    metrics.settled(workspace, &promise, &answer);
    answer
}

impl App {
    /// Settles a promise of `workspace` for a person. An early settlement is kept for `keep_for`,
    /// if that is set.
    pub(crate) async fn settle(
        &self,
        workspace: &WorkspaceId,
        promise: PromiseRef,
        wish: SettleRequest,
        keep_for: Option<Duration>,
        by: Actor,
    ) -> Result<SettlePromiseOutcome, Error> {
        settle(&self.engine, &self.metrics, workspace, promise, wish, keep_for, Some(by)).await
    }
}
