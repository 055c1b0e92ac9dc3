//! Runs: start, read and steer them.

pub(crate) mod retry_plan;
pub(crate) mod showing;
pub(crate) mod starting;
pub(crate) mod steering;

use hapax_api::Code;
use hapax_engine::model::{RunId, Version};
use hapax_engine::store::RunView;
use http::HeaderValue;

use crate::answer::Refused;
use crate::app::App;

/// The id of a run's definition, if it has one.
pub(crate) fn definition_of(app: &App, view: &RunView) -> Option<String> {
    let facts = &view.head.facts;
    app.definitions.id_of(&facts.workspace, &facts.workflow)
}

/// The run id in a path; a malformed one is "not found".
pub(crate) fn run_id(text: &str) -> Result<RunId, Refused> {
    text.parse().map_err(|_| {
        Refused::new(
            Code::NotFound,
            "There is no such run in this workspace; a run id is `run_` and 32 lower-case hex digits.",
        )
    })
}

pub(crate) fn etag(version: Version) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).expect("digits in quotes")
}
