//! The audit log: the actions of people, with their credential and address.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::model::{AuditSubject, Timestamp};
use hapax_engine::store::{AuditCursor, AuditFilter, StoredJournalEntry};
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Caller, PathOf, QueryOf, page_limit};
use super::runs::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::translate::{action_of, journal_entry_to_api};

/// Filters for audit entries. Several filters narrow each other.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only with this credential, by its id.
    credential: Option<String>,
    /// Only by this person: the one the request named in `by`, or the name of the credential.
    name: Option<String>,
    /// Only of this kind, as `what` spells it: `resolved`, `approval_answered`, `promise_settled`, `step_taken`, `overridden`, `key_released`, ...
    action: Option<String>,
    /// Only about this run.
    run: Option<String>,
    /// Only about this entity: its type, a slash and its id.
    entity: Option<String>,
    /// Only about this promise, by its id.
    promise: Option<String>,
    /// Only about this key: `run/`, `promise/` or `request/`, and the key.
    key: Option<String>,
    /// Not before this time.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Before this time.
    #[param(format = DateTime)]
    until: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

impl AuditQuery {
    fn filter(&self) -> Result<AuditFilter, Refused> {
        Ok(AuditFilter {
            credential: self.credential.clone(),
            name: self.name.clone(),
            action: self.action.as_deref().map(action).transpose()?,
            run: self.run.as_deref().map(run_id).transpose()?,
            subject: self.subject()?,
            since: time("since", self.since.as_deref())?,
            until: time("until", self.until.as_deref())?,
        })
    }

    /// Object of the entry; an entry is about one object.
    fn subject(&self) -> Result<Option<AuditSubject>, Refused> {
        let pair = |name: &str, text: &str| {
            let detail = format!("`{name}` is two parts with a slash between them.");
            let parts = text.split_once('/').map(|(first, rest)| (first.to_owned(), rest.to_owned()));
            parts.ok_or_else(|| invalid(name, detail))
        };
        match (&self.entity, &self.promise, &self.key) {
            (None, None, None) => Ok(None),
            (Some(entity), None, None) => {
                let (kind, id) = pair("entity", entity)?;
                Ok(Some(AuditSubject::entity(&kind, &id)))
            }
            (None, Some(promise), None) => Ok(Some(AuditSubject::promise(promise))),
            (None, None, Some(key)) => {
                let (scope, key) = pair("key", key)?;
                Ok(Some(AuditSubject::key(&scope, &key)))
            }
            _ => Err(invalid("entity", "Send one of `entity`, `promise` and `key`.")),
        }
    }
}

fn action(text: &str) -> Result<String, Refused> {
    let kind: Option<api::JournalKind> = serde_json::from_value(text.into()).ok();
    let refused = || invalid("action", "`action` is what an entry of the audit log has as `what`.");
    kind.and_then(action_of).map(ToOwned::to_owned).ok_or_else(refused)
}

pub(super) fn time(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Refused> {
    let Some(text) = text else { return Ok(None) };
    match text.parse::<jiff::Timestamp>() {
        Ok(at) => Ok(Some(Timestamp::from_millis(at.as_millisecond()))),
        Err(_) => Err(invalid(name, format!("`{name}` is a time such as 2026-01-31T12:00:00Z."))),
    }
}

fn invalid(name: &str, detail: impl Into<String>) -> Refused {
    Refused::new(Code::InvalidRequest, detail.into()).with("path", format!("query:{name}"))
}

fn place_of(text: &str) -> Option<AuditCursor> {
    let (at, place) = text.split_once(' ')?;
    Some(AuditCursor { at: Timestamp::from_millis(at.parse().ok()?), place: place.parse().ok()? })
}

/// Actions of people in the workspace, oldest first: the person, credential and role, the address
/// and the trace.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(query): QueryOf<AuditQuery>,
) -> Result<Json<api::Page<api::JournalEntry>>, Refused> {
    let limit = page_limit(query.limit.as_deref())?;
    let filter = query.filter()?;
    let bound = format!("{filter:?}");
    let pages = app.list(&identity, "audit", &bound);
    let after: Option<String> = pages.open(query.cursor.as_deref())?;
    let after = after.map(|text| {
        let refused = || Refused::new(Code::InvalidCursor, "Begin again without `cursor`.");
        place_of(&text).ok_or_else(refused)
    });
    let found = app.engine_for(&identity).search_audit(filter, after.transpose()?, limit).await;
    let found = found.map_err(|error| problem_of(&error))?;
    let next_cursor = found
        .last()
        .filter(|_| found.len() == limit)
        .map(|last| pages.seal(&format!("{} {}", last.note.at.as_millis(), last.place)));
    let items = found.iter().map(entry_to_api).collect();
    Ok(Json(api::Page { items, next_cursor }))
}

/// One entry of the audit log.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::JournalEntry>, Refused> {
    let absent = || {
        let detail = "There is no such entry in the audit log; list it with GET /api/v1/audit.";
        Refused::new(Code::NotFound, detail)
    };
    let at = parse_id(&id).ok_or_else(absent)?;
    let found = app.engine_for(&identity).find_audit_entry(at).await.map_err(|error| problem_of(&error))?;
    Ok(Json(entry_to_api(&found.ok_or_else(absent)?)))
}

/// An entry with its id, which is its time and its place in the journal.
fn entry_to_api(stored: &StoredJournalEntry) -> api::JournalEntry {
    let id = format!("aud_{}_{}", stored.note.at.as_millis(), stored.place);
    api::JournalEntry { id: Some(id), ..journal_entry_to_api(&stored.note) }
}

fn parse_id(id: &str) -> Option<AuditCursor> {
    let (at, place) = id.strip_prefix("aud_")?.split_once('_')?;
    let at = Timestamp::from_millis(at.parse().ok()?);
    let place = place.parse().ok()?;
    // One spelling per entry: no signs and no leading zeros.
    (id == format!("aud_{}_{place}", at.as_millis())).then_some(AuditCursor { at, place })
}
