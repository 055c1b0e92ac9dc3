//! Preview of a retry.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::routes::request::{Caller, PathOf, QueryOf};
use crate::translate::retry_plan_to_api;

/// Options of the retry.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PlannedRetry {
    /// Forget this step and all later ones, as in the retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_step: Option<String>,
}

/// Preview of a retry: effects that stay done, effects that run again, and effects that would
/// happen a second time. Changes nothing.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(PlannedRetry { from_step }): QueryOf<PlannedRetry>,
) -> Result<Json<api::RetryPlan>, Refused> {
    let run = run_id(&id)?;
    let plan = app.engine_for(&identity).plan_retry(run, from_step.as_deref()).await;
    let plan = plan.map_err(|error| problem_of(&error))?;
    Ok(Json(retry_plan_to_api(run, from_step, &plan)))
}
