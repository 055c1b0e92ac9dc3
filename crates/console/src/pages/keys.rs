//! Keys: what a key stands for, who used it, how often and until when; and freeing it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query};
use axum::response::Response;
use axum::routing::{get, post};
use hapax_api::{
    Credential, IdempotencyPolicy, JournalEntry, KeyHolder, KeyRecord, KeyScope, KeyStatus, Operation, Page,
    Promise, ReleaseKey, Run,
};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Console;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::limits::MAX_DIFFERENCES;
use crate::visit::Visit;
use crate::{json_diff, ops, text, ui};

const PATH: &str = "/console/keys";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route(PATH, get(look_up))
        .route("/console/keys/{scope}/{key}", get(show))
        .route("/console/keys/{scope}/{key}/compare", post(compare))
        .route("/console/keys/{scope}/{key}/release", post(release))
}

#[derive(Debug, Default, Deserialize)]
struct KeyQuery {
    #[serde(default)]
    key: String,
    #[serde(default)]
    credential: String,
}

fn path(scope: &str, key: &str, credential: &str) -> String {
    let query = text::query(&[("credential", Some(credential))]);
    format!("{PATH}/{scope}/{}{query}", text::encode(key))
}

/// Looks for a key of every kind. Keys of requests are looked for under every credential that the caller may list.
async fn look_up(visit: Visit, Query(asked): Query<KeyQuery>) -> Result<Response, Failure> {
    let key = asked.key.trim();
    let credentials = credentials(&visit).await?;
    let found = if key.is_empty() { Vec::new() } else { find(&visit, key, &credentials).await? };
    let history = if key.is_empty() { Vec::new() } else { history_of_any(&visit, key).await? };
    let policy: Option<IdempotencyPolicy> = visit.find(&ops::SHOW_POLICY, &[]).await?;
    let rows = found.iter().map(|record| {
        let credential = record.credential_id.as_deref().unwrap_or_default();
        vec![
            html! { a href=(path(scope(record.scope), &record.key, credential)) { b { (kind(record.scope)) } } },
            badge(record.status),
            html! { @match &record.request {
                Some(request) => { code { (request) } },
                None => { @match &record.holder { Some(holder) => { (holder_link(holder)) }, None => { (ui::none()) } } },
            } },
            ui::ago(&record.first_seen_at, visit.now_ms),
            html! { span.number { @match record.replays { Some(replays) => { (replays) }, None => { (ui::none()) } } } },
            html! { span.number { @match record.conflicts { Some(conflicts) => { (conflicts) }, None => { (ui::none()) } } } },
        ]
    });
    let content = html! {
        (ui::heading("Keys", html! { "What a key stands for, who used it, and until when." }))
        form.filters.look-up action=(PATH) {
            label { span { "Key" } input type="search" name="key" value=(asked.key) placeholder="an idempotency key, as it was sent" autocomplete="off" spellcheck="false" autofocus[key.is_empty()]; }
            button.primary type="submit" { "Look it up" }
        }
        @if !key.is_empty() {
            (ui::table(&["Kind", "Status", "Stands for", "First seen", "Replays", "Conflicts"], rows.collect(), "Nothing in this workspace has this key: it was never used, it was released, or it has expired and was cleared away."))
            @if !history.is_empty() { section { h2 { "What people did with it" } (ui::journal(&history, "")) } }
            @if credentials.is_none() { p.hint { "Keys of requests belong to one credential. Only those of yours were looked for." } }
        }
        @if let Some(policy) = &policy { (rules(policy)) }
    };
    Ok(visit.page("Keys", content))
}

/// The credentials of the workspace; `None` if the caller may not list them.
async fn credentials(visit: &Visit) -> Result<Option<Vec<Credential>>, Failure> {
    if !visit.may(&ops::LIST_CREDENTIALS) {
        return Ok(None);
    }
    let page: Page<Credential> = visit.read(&ops::LIST_CREDENTIALS, &[], &[("limit", Some("200"))]).await?;
    Ok(Some(page.items))
}

async fn find(
    visit: &Visit,
    key: &str,
    credentials: &Option<Vec<Credential>>,
) -> Result<Vec<KeyRecord>, Failure> {
    let mut found = Vec::new();
    let own = [visit.session.credential.as_str()];
    let callers: Vec<&str> = match credentials {
        Some(all) => all.iter().map(|it| it.id.as_str()).take(crate::limits::MAX_KEY_CALLERS).collect(),
        None => own.to_vec(),
    };
    let business = ["run", "promise", "operation"].map(|scope| (scope, ""));
    for (scope, caller) in business.into_iter().chain(callers.into_iter().map(|caller| ("request", caller))) {
        let query = [("credentialId", Some(caller))];
        match visit.api().read::<KeyRecord>(&ops::SHOW_KEY, &[scope, key], &query).await {
            Ok(record) => found.push(record),
            Err(problem) if problem.status == 404 => {}
            Err(problem) => return Err(visit.refuse(problem)),
        }
    }
    Ok(found)
}

fn scope(scope: KeyScope) -> &'static str {
    match scope {
        KeyScope::Request => "request",
        KeyScope::Run => "run",
        KeyScope::Promise => "promise",
        KeyScope::Operation => "operation",
    }
}

fn kind(scope: KeyScope) -> &'static str {
    match scope {
        KeyScope::Request => "HTTP request",
        KeyScope::Run => "Run",
        KeyScope::Promise => "Promise",
        KeyScope::Operation => "Operation on an entity",
    }
}

fn badge(status: KeyStatus) -> Markup {
    let (state, word) = match status {
        KeyStatus::InFlight => (ui::State::Active, "In flight"),
        KeyStatus::Claimed => (ui::State::Waiting, "Claimed"),
        KeyStatus::Live => (ui::State::Good, "Live"),
        KeyStatus::Grace => (ui::State::Held, "Refused for a while"),
        KeyStatus::Expired => (ui::State::Gone, "Expired"),
        KeyStatus::Tombstone => (ui::State::Gone, "Data gone"),
    };
    ui::badge(state, word)
}

/// Effect of the status on the next request under the key.
fn meaning(status: KeyStatus) -> &'static str {
    match status {
        KeyStatus::InFlight => "The first request under it is under way. Another one waits for its answer.",
        KeyStatus::Claimed => {
            "A settlement came early and holds it for the promise that is still to be made."
        }
        KeyStatus::Live => "The same request under it gets what it stands for. Another one is refused.",
        KeyStatus::Grace => {
            "It has expired. Requests under it are refused for a while, so that a late repeat does nothing."
        }
        KeyStatus::Expired => "It has expired and may be used anew.",
        KeyStatus::Tombstone => "What it named is gone. It still refuses a second operation.",
    }
}

fn holder_link(holder: &KeyHolder) -> Markup {
    match holder.kind {
        KeyScope::Run => ui::run_link(&holder.id),
        KeyScope::Operation => ui::operation_link(&holder.id),
        KeyScope::Promise | KeyScope::Request => ui::id(&holder.id),
    }
}

fn rules(policy: &IdempotencyPolicy) -> Markup {
    let (request, business) = (&policy.request_keys, &policy.business_keys);
    html! {
        section {
            h2 { "The rules in force" }
            (ui::known(vec![
                ("Header of a request", Some(html! { code { (request.header) } })),
                ("Answers are kept for", Some(html! { (request.retention.to_string()) ", then refused for " (request.grace.to_string()) })),
                ("Field of a run", Some(html! { code { (business.field) } })),
                ("Keys of runs live", Some(html! { @match business.retention {
                    Some(kept) => { (kept.to_string()) " after the end" },
                    None => { "for ever" },
                } })),
                ("A run that fails", Some(html! { @if business.released_on_failure { "frees its key" } @else { "keeps its key" } })),
                ("Keys of promises live", Some(html! { "at least " (policy.promise_keys.ttl.to_string()) })),
            ]))
            p.hint { a href="/console/admin" { "All settings in force" } }
        }
    }
}

async fn show(
    visit: Visit,
    Path((scope, key)): Path<(String, String)>,
    Query(asked): Query<KeyQuery>,
) -> Result<Response, Failure> {
    let query = [("credentialId", Some(asked.credential.as_str()))];
    let record = match visit.api().read::<KeyRecord>(&ops::SHOW_KEY, &[&scope, &key], &query).await {
        Ok(record) => Some(record),
        Err(problem) if problem.status == 404 => None,
        Err(problem) => return Err(visit.refuse(problem)),
    };
    let history = history(&visit, &scope, &key).await?;
    let stands_for = match &record {
        Some(record) => stands_for(&visit, record).await?,
        None => html! {},
    };
    let used_by = match record.as_ref().and_then(|record| record.credential_id.as_deref()) {
        Some(id) => Some(caller(&visit, id).await?),
        None => record.as_ref().and_then(|record| record.actor.as_ref()).map(ui::actor),
    };
    let content = html! {
        div.heading {
            p.crumb { a href=(PATH) { "Keys" } " / " (scope) }
            h1 { (key) @if let Some(record) = &record { " " (badge(record.status)) } }
            p.about { @match &record {
                Some(record) => { (meaning(record.status)) },
                None => { "There is no such key now: it was never used, it was released, or it has expired and was cleared away." },
            } }
        }
        @if let Some(record) = &record {
            (facts(&visit, record, used_by))
            (stands_for)
            (conflicts(record))
            div.actions {
                (comparing(&visit, record, &scope, &asked.credential))
                (freeing(&visit, record, &scope, &asked.credential))
            }
        }
        section { h2 { "What people did with it" } (ui::journal(&history, "Nobody released it.")) }
    };
    Ok(visit.page(&format!("Key {key}"), content))
}

/// Entries of the audit log about a key of any kind, so that people find out about one that was released and is gone.
pub(super) async fn history_of_any(visit: &Visit, key: &str) -> Result<Vec<JournalEntry>, Failure> {
    let mut found = Vec::new();
    for scope in ["run", "promise", "request"] {
        found.extend(history(visit, scope, key).await?);
    }
    found.sort_by(|a, b| a.at.cmp(&b.at));
    Ok(found)
}

/// Entries of the audit log about the key.
async fn history(visit: &Visit, scope: &str, key: &str) -> Result<Vec<JournalEntry>, Failure> {
    if scope == "operation" || !visit.may(&ops::LIST_AUDIT) {
        return Ok(Vec::new());
    }
    let named = format!("{scope}/{key}");
    let page: Page<JournalEntry> =
        visit.read(&ops::LIST_AUDIT, &[], &[("key", Some(&named)), ("limit", Some("200"))]).await?;
    Ok(page.items)
}

/// Name and id of a credential. Without the right to list credentials, the id alone.
async fn caller(visit: &Visit, id: &str) -> Result<Markup, Failure> {
    let all = credentials(visit).await?.unwrap_or_default();
    let name = all.into_iter().find(|it| it.id == id).map(|it| it.name);
    Ok(html! { @if let Some(name) = name { (name) " " } (ui::id(id)) })
}

fn facts(visit: &Visit, record: &KeyRecord, used_by: Option<Markup>) -> Markup {
    let until = match (&record.expires_at, record.status) {
        (Some(at), _) => html! { (ui::time(at)) " (" (ui::ago(at, visit.now_ms)) ")" },
        (None, KeyStatus::InFlight) => html! { "counted once it is answered" },
        (None, _) => html! { "as long as what it names is open, or for ever" },
    };
    ui::known(vec![
        ("Names", Some(html! { (kind(record.scope)) })),
        ("Request", record.request.as_ref().map(|it| html! { code { (it) } })),
        ("Was answered with", record.answer_status.map(|it| html! { (it) })),
        ("First used by", used_by),
        (
            "First used",
            Some(
                html! { (ui::time(&record.first_seen_at)) " (" (ui::ago(&record.first_seen_at, visit.now_ms)) ")" },
            ),
        ),
        ("Counts until", Some(until)),
        ("Replays", record.replays.map(|it| html! { b { (it) } " got the first answer again" })),
        (
            "Conflicts",
            record.conflicts.map(|it| html! { b { (it) } " asked for something else and were refused" }),
        ),
        ("Fingerprint of the first request", record.fingerprint.as_deref().map(ui::id)),
    ])
}

/// The holder of the key, with the input of the first request.
async fn stands_for(visit: &Visit, record: &KeyRecord) -> Result<Markup, Failure> {
    let Some(holder) = &record.holder else { return Ok(html! {}) };
    Ok(match holder.kind {
        KeyScope::Run => {
            let detail: Option<hapax_api::RunDetail> = visit.find(&ops::SHOW_RUN, &[&holder.id]).await?;
            let run: Option<Run> = detail.map(|detail| detail.run);
            html! { section { h2 { "The run" } p { (ui::run_link(&holder.id)) @if let Some(run) = &run { " " (ui::run_badge(run.status)) " " (run.workflow) } }
            @if let Some(run) = &run { h3 { "First request: the input" } (ui::json(run.input.text())) } } }
        }
        KeyScope::Promise => {
            let promise: Option<Promise> = visit.find(&ops::SHOW_PROMISE, &[&holder.id]).await?;
            html! { section { h2 { "The promise" } p { (ui::id(&holder.id)) @if let Some(run) = promise.as_ref().and_then(|it| it.run_id.as_deref()) { " of " (ui::run_link(run)) } }
            @if let Some(promise) = &promise { p { (text::spelled(&promise.status)) } @if let Some(value) = &promise.value { (ui::json(value.text())) } } } }
        }
        KeyScope::Operation => {
            let detail: Option<hapax_api::OperationDetail> =
                visit.find(&ops::SHOW_OPERATION, &[&holder.id]).await?;
            let operation: Option<Operation> = detail.map(|detail| detail.operation);
            html! { section { h2 { "The operation" } p { (ui::operation_link(&holder.id))
            @if let Some(it) = &operation { " " (ui::operation_badge(it.status)) " " (it.step_key) " of " (ui::entity_link(&it.entity_type, &it.entity_id)) } } } }
        }
        KeyScope::Request => html! {},
    })
}

fn has_conflicts(record: &KeyRecord) -> bool {
    record.conflicts.is_some_and(|count| count > 0)
}

/// A notice about conflicting requests.
fn conflicts(record: &KeyRecord) -> Markup {
    html! {
        @if has_conflicts(record) {
            div.notice.doubt {
                p.sentence { "Somebody used this key for something else" }
                p { "What was sent first counts. Those requests were refused with 422, and did nothing. They are not kept: each answer named the paths at which it differs from the first request." }
            }
        }
    }
}

/// A form that finds where another request differs from the first one.
fn comparing(visit: &Visit, record: &KeyRecord, scope: &str, credential: &str) -> Markup {
    let has_input = matches!(record.scope, KeyScope::Run | KeyScope::Operation);
    let action = format!("{PATH}/{scope}/{}/compare", text::encode(&record.key));
    html! {
        @if has_input && has_conflicts(record) {
            (form::disclosed("Compare a request…", Tone::Plain, form::form(visit, &action, None, html! {
                input type="hidden" name="credential" value=(credential);
                (form::code_area("input", "Input of the other request", "", Some("JSON, as the log of the client has it. It is compared here, and not kept."), 6))
                (form::submit("Compare", Tone::Primary))
            })))
        }
    }
}

/// The input of the first request under a key of a run or an operation.
async fn first_input(visit: &Visit, record: &KeyRecord) -> Result<Option<String>, Failure> {
    let Some(holder) = &record.holder else { return Ok(None) };
    Ok(match holder.kind {
        KeyScope::Run => {
            let run: Option<hapax_api::RunDetail> = visit.find(&ops::SHOW_RUN, &[&holder.id]).await?;
            run.map(|detail| detail.run.input.text().to_owned())
        }
        KeyScope::Operation => {
            let found: Option<hapax_api::OperationDetail> =
                visit.find(&ops::SHOW_OPERATION, &[&holder.id]).await?;
            found.map(|detail| detail.operation.input.text().to_owned())
        }
        KeyScope::Promise | KeyScope::Request => None,
    })
}

/// Both requests side by side, and the paths at which they differ. It changes nothing.
async fn compare(
    Path((scope, key)): Path<(String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    let credential = form.text("credential").to_owned();
    let back = path(&scope, &key, &credential);
    form.leads_back_to(&back);
    let given = form.text("input").trim().to_owned();
    let visit = &form.visit;
    let query = [("credentialId", Some(credential.as_str()))];
    let record: KeyRecord = visit.read(&ops::SHOW_KEY, &[&scope, &key], &query).await?;
    let gone = || {
        let detail = "What the key stands for is gone, so there is nothing to compare with.";
        visit.refuse(hapax_api::Problem::new(hapax_api::Code::NotFound, detail))
    };
    let first = first_input(visit, &record).await?.ok_or_else(gone)?;
    let is_json = serde_json::from_str::<&serde_json::value::RawValue>(&given).is_ok();
    let paths = json_diff::differences(&first, &given, MAX_DIFFERENCES);
    let content = html! {
        div.heading {
            p.crumb { a href=(PATH) { "Keys" } " / " a href=(back) { (key) } }
            h1 { "Two requests under one key" }
        }
        @if !is_json { div.notice.bad { p.sentence { "The other input is not JSON." } p { "It is compared as text." } } }
        @else if paths.is_empty() { div.notice.good { p.sentence { "They say the same" } p { "This request would get the first answer again." } } }
        @else {
            div.notice.doubt {
                p.sentence { "They differ at " (text::count(paths.len(), "place")) @if paths.len() == MAX_DIFFERENCES { " or more" } }
                ul.problems { @for path in &paths { li { code { @if path.is_empty() { "/" } @else { (path) } } } } }
            }
        }
        div.plan {
            section { h2 { "First request: what counts" } (ui::json(&first)) }
            section { h2 { "The other request" } (ui::json(&given)) }
        }
        p.hint { "A definition may ignore fields when it compares: then a request that differs only there is the same." }
    };
    Ok(visit.page("Compare", content))
}

fn freeing(visit: &Visit, record: &KeyRecord, scope: &str, credential: &str) -> Markup {
    if record.status == KeyStatus::Expired {
        return html! {};
    }
    if record.scope == KeyScope::Operation {
        return html! { p.hint { "The key of an operation is not freed: it stands for what is recorded of that. Take the step again under a new key." } };
    }
    if !visit.may(&ops::RELEASE_KEY) {
        return form::disabled(
            "Release key",
            html! { "To free a key takes a manager: what it kept from happening again may then happen again." },
        );
    }
    let fields = html! {
        p { "The key may then be used anew, so the same request under it is done again. What it names must be over." }
        input type="hidden" name="credential" value=(credential);
        (form::area("reason", "Reason", "", Some("Kept in the audit log, under your name."), true))
        (form::submit("Release key", Tone::Danger))
    };
    let action = format!("{PATH}/{scope}/{}/release", text::encode(&record.key));
    form::disclosed("Release key…", Tone::Danger, form::form(visit, &action, None, fields))
}

async fn release(
    Path((scope, key)): Path<(String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    let credential = form.text("credential").to_owned();
    let path = path(&scope, &key, &credential);
    form.leads_back_to(&path);
    let asked = ReleaseKey { reason: form.text("reason").into() };
    let query = [("credentialId", Some(credential.as_str()))];
    form.send_with(&ops::RELEASE_KEY, &[&scope, &key], &query, Some(&asked)).await?;
    Ok(form.done(&path, "The key was released. It may be used anew."))
}
