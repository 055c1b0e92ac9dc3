//! Approvals: open questions to people, and their answers.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query};
use axum::response::Response;
use axum::routing::{get, post};
use hapax_api::{AnswerApproval, Definition, Page, RawJson, Run, RunDetail, Step, StepKind, StepStatus};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Console;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/approvals";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new().route(PATH, get(list)).route("/console/approvals/{run}/{step}/answer", post(answer))
}

/// What a run recorded when it asked, as step `<name>.asked`.
#[derive(Debug, Default, Deserialize)]
struct Question {
    by: Option<Askees>,
    #[serde(default)]
    decisions: Vec<String>,
    fields: Option<Vec<String>>,
    show: Option<RawJson>,
    signal: String,
}

/// Roles and requesters that may answer.
#[derive(Debug, Default, Deserialize)]
struct Askees {
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    requesters: Vec<String>,
}

/// One approval that waits.
struct Waiting {
    run: Run,
    step: Step,
    question: Question,
}

#[derive(Debug, Default, Deserialize)]
struct PageQuery {
    #[serde(default)]
    cursor: String,
}

async fn list(mut visit: Visit, Query(PageQuery { cursor }): Query<PageQuery>) -> Result<Response, Failure> {
    visit.frame.refresh = true;
    let query = [("status", Some("WAITING")), ("limit", Some("50")), ("cursor", Some(cursor.as_str()))];
    let page: Page<Run> = visit.read(&ops::LIST_RUNS, &[], &query).await?;
    let seen = page.items.len();
    let mut waiting = find(&visit, page.items).await?;
    waiting.sort_by(|a, b| a.step.started_at.cmp(&b.step.started_at));
    let content = html! {
        (ui::heading("Approvals", html! { "Runs that wait for people to decide. The one that has waited longest comes first." }))
        div #approvals data-fragment {
            @if waiting.is_empty() {
                @if page.next_cursor.is_some() { (ui::empty("None of these waiting runs asks for an approval. Look at the next ones.")) }
                @else { (ui::empty("Nothing waits for an approval.")) }
            }
            div.inbox { @for one in &waiting { (card(&visit, one)) } }
            @if page.next_cursor.is_some() || !cursor.is_empty() { p.hint { "From " (seen) " waiting runs, the newest first." } }
            (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
        }
    };
    Ok(visit.page("Approvals", content))
}

/// The approvals that these runs wait for. Runs of a document without an approval are not looked into.
async fn find(visit: &Visit, runs: Vec<Run>) -> Result<Vec<Waiting>, Failure> {
    let mut asks: HashMap<String, bool> = HashMap::new();
    let mut waiting = Vec::new();
    for run in runs {
        let Some(id) = run.definition_id.clone() else { continue };
        if !asks.contains_key(&id) {
            let definition: Option<Definition> = visit.find(&ops::SHOW_DEFINITION, &[&id]).await?;
            // A definition that was deleted is no reason to leave out its runs.
            let may_ask = definition.is_none_or(|it| it.document.text().contains("\"approval\""));
            asks.insert(id.clone(), may_ask);
        }
        if !asks[&id] {
            continue;
        }
        let Some(detail) = visit.find::<RunDetail>(&ops::SHOW_RUN, &[&run.id]).await? else { continue };
        for (step, question) in questions(detail.steps) {
            waiting.push(Waiting { run: detail.run.clone(), step, question });
        }
    }
    Ok(waiting)
}

/// The steps that wait for an approval, each with what it asks.
fn questions(steps: Vec<Step>) -> Vec<(Step, Question)> {
    let asked: HashMap<String, Question> = steps
        .iter()
        .filter_map(|step| {
            let name = step.id.strip_suffix(".asked")?;
            let question: Question = serde_json::from_str(step.output.as_ref()?.text()).ok()?;
            (question.signal == format!("approval.{name}")).then(|| (name.to_owned(), question))
        })
        .collect();
    let mut asked = asked;
    let waits = |step: &Step| step.kind == StepKind::Signal && step.status == StepStatus::Waiting;
    steps
        .into_iter()
        .filter(waits)
        .filter_map(|step| asked.remove(&step.id).map(|question| (step, question)))
        .collect()
}

fn card(visit: &Visit, waiting: &Waiting) -> Markup {
    let Waiting { run, step, question } = waiting;
    let name = run.subject.as_ref().or(run.idempotency_key.as_ref());
    html! {
        article.ask {
            div.ask-head {
                h2 { (step.id) }
                span.dim { (run.workflow) @if let Some(name) = name { " · " code { (name) } } " · " (ui::run_link(&run.id)) }
            }
            @if let Some(show) = question.show.as_ref().filter(|show| show.text() != "null") { (ui::json(show.text())) }
            (ui::known(vec![
                ("Asked of", Some(askees(question.by.as_ref()))),
                ("Since", Some(ui::ago(&step.started_at, visit.now_ms))),
                ("Until", Some(html! { @match &step.due_at { Some(at) => { (ui::ago(at, visit.now_ms)) }, None => { "no end" } } })),
            ]))
            (buttons(visit, waiting))
        }
    }
}

fn askees(by: Option<&Askees>) -> Markup {
    let Some(by) = by.filter(|by| !by.roles.is_empty() || !by.requesters.is_empty()) else {
        return html! { "anybody who may operate" };
    };
    html! {
        @if !by.roles.is_empty() { "role " (by.roles.join(" or ")) }
        @if !by.roles.is_empty() && !by.requesters.is_empty() { ", or " }
        (by.requesters.join(", "))
    }
}

fn buttons(visit: &Visit, waiting: &Waiting) -> Markup {
    if !visit.may(&ops::ANSWER_APPROVAL) {
        return form::disabled("Decide", html! { "Your role may look, and not decide." });
    }
    // The session does not know its requester, so a question to a requester is open to everybody. The API decides.
    let by = waiting.question.by.as_ref();
    let is_asked = by.is_none_or(|by| {
        let anybody = by.roles.is_empty() && by.requesters.is_empty();
        anybody
            || !by.requesters.is_empty()
            || by.roles.iter().any(|role| role == visit.session.role.as_str())
    });
    if !is_asked {
        return form::disabled(
            "Decide",
            html! { "It is asked of " (askees(by)) ", and you are signed in as " (visit.session.role.as_str()) "." },
        );
    }
    let action =
        format!("{PATH}/{}/{}/answer", text::encode(&waiting.run.id), text::encode(&waiting.step.id));
    let may = |decision: &str| waiting.question.decisions.iter().any(|it| it == decision);
    let one = |decision: &str, label: &str, tone: Tone, fields: Markup, needs_reason: bool| {
        let inside = html! {
            input type="hidden" name="decision" value=(decision);
            (fields)
            (form::area("comment", "Reason", "", Some("Kept in the audit log, and given to the run."), needs_reason))
            (form::submit(label, tone))
        };
        form::disclosed(&format!("{label}…"), tone, form::form(visit, &action, None, inside))
    };
    let fields = waiting.question.fields.clone().unwrap_or_default();
    let edit = html! {
        (form::code_area("value", "Other values", &edited(&fields, waiting.question.show.as_ref()), Some("A JSON object. It may set the fields that are here."), 5))
    };
    html! {
        div.actions {
            @if may("approve") { (one("approve", "Approve", Tone::Primary, html! {}, false)) }
            @if may("edit") { (one("edit", "Approve with changes", Tone::Plain, edit, false)) }
            @if may("reject") { (one("reject", "Reject", Tone::Danger, html! {}, true)) }
        }
    }
}

/// Initial text of an edit: its fields with the values that the question shows.
fn edited(fields: &[String], show: Option<&RawJson>) -> String {
    let shown: HashMap<String, RawJson> =
        show.and_then(|show| serde_json::from_str(show.text()).ok()).unwrap_or_default();
    let lines = fields.iter().map(|field| {
        let name = serde_json::Value::from(field.as_str());
        format!("  {name}: {}", shown.get(field).map_or("null", RawJson::text))
    });
    format!("{{\n{}\n}}", lines.collect::<Vec<_>>().join(",\n"))
}

async fn answer(Path((run, step)): Path<(String, String)>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(PATH);
    let asked = AnswerApproval {
        decision: form.text("decision").into(),
        comment: form.given("comment"),
        value: if form.text("decision") == "edit" { form.json("value")? } else { None },
    };
    form.send(&ops::ANSWER_APPROVAL, &[&run, &step], &asked).await?;
    let word = match asked.decision.as_str() {
        "reject" => "rejected",
        "edit" => "approved with changes",
        _ => "approved",
    };
    Ok(form.done(PATH, &format!("{step} is {word}. The run goes on.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_begins_with_what_was_shown_byte_for_byte() {
        let show = RawJson::from_text(r#"{"amount":9007199254740993,"who":"x"}"#.into()).unwrap();
        assert_eq!(
            edited(&["amount".into(), "note".into()], Some(&show)),
            "{\n  \"amount\": 9007199254740993,\n  \"note\": null\n}"
        );
    }
}
