//! Explains why a run waits: finds the objects that a text names, and the waits of the run behind
//! them.

mod family;
mod find;
mod sentence;
mod waits;

use hapax_api as api;
use hapax_api::{Code, Problem};

use crate::app::App;
use crate::identity::Identity;

/// Explains what `query` names in the workspace of the caller.
pub(crate) async fn explain(app: &App, identity: &Identity, query: &str) -> Result<api::Why, Problem> {
    let engine = app.engine_for(identity);
    let found = find::find_matches(app, &engine, identity, query).await?;
    if found.is_empty() {
        let detail = "Nothing in this workspace has this name. It takes a run id, an idempotency key, a subject, a promise (`key:KEY` or \
                      `id:ID`), an operation id, an entity (`type/id`) or a provider's event id.";
        return Err(Problem::new(Code::NotFound, detail));
    }
    let family = match found.iter().find_map(|found| found.run) {
        Some(run) => family::read(app, &engine, run).await?,
        None => family::Family::default(),
    };
    let matches = found
        .into_iter()
        .map(|found| api::WhyMatch {
            kind: found.kind,
            sentence: match (found.sentence, found.run) {
                (Some(sentence), _) => sentence,
                (None, run) => run
                    .and_then(|run| family.sentence_of(&run.to_string()))
                    .unwrap_or_else(|| "is another match; ask for it by its run id".to_owned()),
            },
            id: found.id,
            run_id: found.run.map(|run| run.to_string()),
        })
        .collect();
    Ok(api::Why { query: query.to_owned(), matches, runs: family.runs, is_cut: family.is_cut })
}
