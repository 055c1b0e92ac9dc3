//! Explains what a key, subject or id names, and what the run behind it waits for.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use hapax_api::Code;
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Caller, QueryOf};
use crate::answer::Refused;
use crate::app::App;
use crate::limits::MAX_WHY_QUERY_CHARS;
use crate::why;

/// Query of an explanation.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WhyQuery {
    /// A run id, an idempotency key, a subject, a promise (`key:KEY` or `id:ID`), an operation id, an entity (`type/id`) or a provider's event id.
    #[param(min_length = 1, max_length = 512)]
    q: String,
}

/// Explains what a key, subject or id names, and what the run behind it waits for.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(query): QueryOf<WhyQuery>,
) -> Result<Json<api::Why>, Refused> {
    let text = query.q.trim();
    if text.is_empty() || text.chars().count() > MAX_WHY_QUERY_CHARS {
        let detail = format!("`q` has 1 to {MAX_WHY_QUERY_CHARS} characters.");
        return Err(Refused::new(Code::InvalidRequest, detail).with("path", "query:q"));
    }
    Ok(Json(why::explain(&app, &identity, text).await?))
}
