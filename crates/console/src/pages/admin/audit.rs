//! The audit log: decisions of people, with their credential and reason.

use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use hapax_api::{Actor, JournalEntry, JournalKind, Page};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use maud::{Markup, html};
use serde::Deserialize;

use super::heading;
use crate::failure::Failure;
use crate::form;
use crate::limits::MAX_AUDIT_PAGES;
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/admin/audit";

/// Which entries. The address holds all of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Filter {
    #[serde(default)]
    action: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    credential: String,
    #[serde(default)]
    run: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    entity: String,
    /// A day, such as 2026-11-18.
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    #[serde(default)]
    cursor: String,
    /// Of the export.
    #[serde(default)]
    format: String,
}

/// Kinds of entries that the filter offers.
const ACTIONS: &[JournalKind] = &[
    JournalKind::Resolved,
    JournalKind::RulingProposed,
    JournalKind::PayloadsRevealed,
    JournalKind::SignInsRefused,
    JournalKind::RepeatAllowed,
    JournalKind::Overridden,
    JournalKind::KeyReleased,
    JournalKind::ApprovalAnswered,
    JournalKind::PromiseSettled,
    JournalKind::SettleTokenIssued,
    JournalKind::StepTaken,
    JournalKind::Steered,
    JournalKind::Noted,
    JournalKind::Redelivered,
    JournalKind::WebhookReprocessed,
    JournalKind::WebhookDiscarded,
    JournalKind::CredentialChanged,
    JournalKind::WorkspaceChanged,
    JournalKind::DefinitionUploaded,
    JournalKind::EntityWorkflowChanged,
    JournalKind::SubscriptionChanged,
    JournalKind::PushWorkerChanged,
    JournalKind::SourceChanged,
];

impl Filter {
    fn pairs(&self) -> [(&'static str, Option<&str>); 8] {
        [
            ("action", Some(&self.action)),
            ("name", Some(&self.name)),
            ("credential", Some(&self.credential)),
            ("run", Some(&self.run)),
            ("key", Some(&self.key)),
            ("entity", Some(&self.entity)),
            ("since", Some(&self.since)),
            ("until", Some(&self.until)),
        ]
    }

    async fn read(&self, visit: &Visit, cursor: &str, limit: &str) -> Result<Page<JournalEntry>, Failure> {
        // A day is whole: until its last moment.
        let instant =
            |day: &str, time: &str| if day.len() == 10 { format!("{day}T{time}Z") } else { day.to_owned() };
        let (since, until) = (instant(&self.since, "00:00:00"), instant(&self.until, "23:59:59.999"));
        let mut query = self.pairs().to_vec();
        query[6].1 = Some(&since);
        query[7].1 = Some(&until);
        query.extend([("cursor", Some(cursor)), ("limit", Some(limit))]);
        visit.read(&ops::LIST_AUDIT, &[], &query).await
    }
}

pub(super) async fn list(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let page = filter.read(&visit, &filter.cursor, "50").await?;
    let rows = page.items.iter().map(row).collect();
    let actions: Vec<(String, &str)> =
        ACTIONS.iter().map(|kind| (text::spelled(kind).replace(' ', "_"), ui::word(*kind))).collect();
    let actions: Vec<_> = std::iter::once(("", "any"))
        .chain(actions.iter().map(|(value, word)| (value.as_str(), *word)))
        .collect();
    let pairs = filter.pairs();
    let export = |format: &str| {
        let mut pairs = pairs.to_vec();
        pairs.push(("format", Some(format)));
        format!("{PATH}/export{}", text::query(&pairs))
    };
    let field = |name: &str, label: &str, value: &str, hint: &str| {
        html! { label { span { (label) } input type="search" name=(name) value=(value) placeholder=(hint) autocomplete="off" spellcheck="false"; } }
    };
    let content = html! {
        (heading(&visit, PATH, html! { "What people did, oldest first: who, with which credential, from where, and why. Nothing is taken out of it." }))
        form.filters action=(PATH) {
            (form::choice("action", "What", &actions, &filter.action))
            (field("name", "Who", &filter.name, "a person or a credential"))
            (field("run", "Run", &filter.run, "run_…"))
            (field("key", "Key", &filter.key, "run/KEY, promise/KEY, request/KEY"))
            (field("entity", "Entity", &filter.entity, "type/id"))
            label { span { "Since" } input type="date" name="since" value=(filter.since); }
            label { span { "Until" } input type="date" name="until" value=(filter.until); }
            button.plain type="submit" { "Filter" }
        }
        (periods(&visit, &filter))
        (ui::table(&["When", "Who", "What", "About", "Why"], rows, "Nobody did anything of the kind."))
        (ui::pager(PATH, &pairs, filter.cursor.is_empty(), page.next_cursor.as_deref()))
        div.actions {
            a.button.plain href=(export("csv")) download { "Export as CSV" }
            a.button.plain href=(export("json")) download { "Export as JSON" }
        }
    };
    Ok(visit.page("Audit log", content))
}

/// Links to what was done lately, with the other filters as they are. The list is long, and its oldest entry comes first.
fn periods(visit: &Visit, filter: &Filter) -> Markup {
    let day = |days_ago: i64| {
        let at = jiff::Timestamp::from_millisecond(visit.now_ms - days_ago * 86_400_000);
        at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).strftime("%Y-%m-%d").to_string()
    };
    let periods =
        [("Today", day(0)), ("Since yesterday", day(1)), ("The last 7 days", day(7)), ("All", String::new())];
    let path = |since: &str| {
        let mut pairs = filter.pairs();
        pairs[6].1 = Some(since);
        format!("{PATH}{}", text::query(&pairs))
    };
    html! {
        p.periods { @for (name, since) in &periods { a href=(path(since)) aria-current=[(filter.since == *since).then_some("true")] { (name) } " " } span.dim { "in UTC" } }
    }
}

/// Splits an entry into its command and its reason. Some entries keep both in one text.
fn told(entry: &JournalEntry) -> (Option<&str>, Option<&str>) {
    match (entry.command.as_deref(), entry.reason.as_deref()) {
        (Some(command), None) => match command.split_once(": ") {
            Some((command, reason)) => (Some(command), Some(reason)),
            None => (Some(command), None),
        },
        both => both,
    }
}

fn row(entry: &JournalEntry) -> Vec<Markup> {
    let (command, reason) = told(entry);
    vec![
        ui::time(&entry.at),
        html! {
            @match &entry.actor { Some(actor) => { (who(actor)) }, None => { (ui::none()) } }
            @if let Some(second) = &entry.seconded_by { div { "agreed by " (ui::actor(second)) } }
        },
        html! {
            b { (ui::word(entry.what)) }
            @if let Some(command) = command { " " (command) }
            @if let Some(resolution) = entry.resolution { " " (ui::tag(&text::spelled(&resolution))) }
        },
        about(entry),
        html! { @match reason { Some(reason) => { (reason) }, None => { (ui::none()) } } },
    ]
}

fn who(actor: &Actor) -> Markup {
    html! { (ui::actor(actor)) @if let Some(address) = &actor.address { div.dim { "from " (address) } } }
}

fn about(entry: &JournalEntry) -> Markup {
    html! {
        @if let Some(run) = &entry.run_id { div { (ui::run_link(run)) } }
        @if let Some(step) = &entry.step_id { div { "step " code { (step) } } }
        @if let Some(it) = &entry.entity { div { (ui::entity_link(&it.kind, &it.id)) } }
        @if let Some(id) = &entry.operation_id { div { (ui::operation_link(id)) } }
        @if let Some(target) = &entry.target { div { (ui::id(target)) } }
    }
}

pub(super) async fn export(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let mut entries = Vec::new();
    let mut next = Some(filter.cursor.clone());
    for _ in 0..MAX_AUDIT_PAGES {
        let Some(cursor) = next.take() else { break };
        let page = filter.read(&visit, &cursor, "200").await?;
        entries.extend(page.items);
        next = page.next_cursor;
    }
    let (kind, ending, body) = match filter.format.as_str() {
        "csv" => ("text/csv; charset=utf-8", "csv", csv(&entries)),
        _ => {
            // The cursor leads to the rest.
            let all = Page { items: entries, next_cursor: next };
            ("application/json", "json", serde_json::to_string_pretty(&all).unwrap_or_default())
        }
    };
    let name = format!("attachment; filename=\"hapax-audit.{ending}\"");
    Ok(([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)], body).into_response())
}

fn csv(entries: &[JournalEntry]) -> String {
    let mut csv = String::from(
        "at,what,command,name,person,role,credential,address,run,step,entity,operation,target,reason\n",
    );
    for entry in entries {
        let actor = entry.actor.as_ref();
        let (command, reason) = told(entry);
        let plain = |text: Option<&String>| text.cloned().unwrap_or_default();
        let cells = [
            entry.at.clone(),
            text::spelled(&entry.what),
            command.unwrap_or_default().to_owned(),
            plain(actor.map(|it| &it.name)),
            plain(actor.and_then(|it| it.person.as_ref())),
            actor.map(|it| it.role.as_str().to_owned()).unwrap_or_default(),
            plain(actor.and_then(|it| it.credential_id.as_ref())),
            plain(actor.and_then(|it| it.address.as_ref())),
            plain(entry.run_id.as_ref()),
            plain(entry.step_id.as_ref()),
            entry.entity.as_ref().map(|it| format!("{}/{}", it.kind, it.id)).unwrap_or_default(),
            plain(entry.operation_id.as_ref()),
            plain(entry.target.as_ref()),
            reason.unwrap_or_default().to_owned(),
        ];
        csv.push_str(&cells.map(|cell| text::csv_cell(&cell)).join(","));
        csv.push('\n');
    }
    csv
}
