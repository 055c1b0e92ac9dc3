//! Approvals: open questions to people, and their answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, Query};
use axum::response::Response;
use axum::routing::{get, post};
use hapax_api::{
    AnswerApproval, Definition, DefinitionSummary, Page, RawJson, Run, RunDetail, Step, StepKind, StepStatus,
};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Console;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::limits::{
    MAX_ASKING_WORKFLOWS, MAX_COMMITS_WITH_ATTEMPTS, MAX_DEFINITION_PAGES, MAX_KNOWN_DEFINITIONS,
};
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

/// Which approvals. The address holds all of it.
#[derive(Debug, Default, Deserialize)]
struct Filter {
    /// A workflow with its version: `refund@2`.
    #[serde(default)]
    workflow: String,
    /// Only with a workflow.
    #[serde(default)]
    cursor: String,
}

/// Which definitions ask for approvals, by id. A definition never changes, so its document is read once.
#[derive(Debug, Default)]
pub(crate) struct AskingDefinitions(Mutex<HashMap<String, bool>>);

impl AskingDefinitions {
    fn get(&self, id: &str) -> Option<bool> {
        self.0.lock().expect("no holder panics").get(id).copied()
    }

    fn insert(&self, id: &str, asks: bool) {
        let mut known = self.0.lock().expect("no holder panics");
        if known.len() >= MAX_KNOWN_DEFINITIONS {
            known.clear();
        }
        known.insert(id.to_owned(), asks);
    }
}

async fn list(mut visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    visit.frame.refresh = filter.cursor.is_empty();
    let asking = asking(&visit).await?;
    let chosen: Vec<&str> = match filter.workflow.as_str() {
        "" => asking.iter().take(MAX_ASKING_WORKFLOWS).map(String::as_str).collect(),
        workflow => vec![workflow],
    };
    let (mut waiting, mut further) = (Vec::new(), Vec::new());
    for workflow in &chosen {
        let cursor = if filter.workflow.is_empty() { "" } else { &filter.cursor };
        let query = [("status", Some("WAITING")), ("workflow", Some(workflow)), ("cursor", Some(cursor))];
        let page: Page<Run> = visit.read(&ops::LIST_RUNS, &[], &query).await?;
        further.extend(page.next_cursor.map(|next| (*workflow, next)));
        waiting.extend(find(&visit, page.items).await?);
    }
    waiting.sort_by(|a, b| a.step.started_at.cmp(&b.step.started_at));
    let is_whole = further.is_empty() && chosen.len() >= asking.len();
    let content = html! {
        (ui::heading("Approvals", html! { "Runs that wait for people to decide. The one that has waited longest comes first." }))
        @if asking.len() > 1 || !filter.workflow.is_empty() { (choice(&asking, &filter)) }
        div #approvals data-fragment {
            @if waiting.is_empty() {
                @if is_whole || filter.workflow.is_empty() { (ui::empty("Nothing waits for an approval.")) }
                @else { (ui::empty("None of these runs waits for an approval.")) }
            }
            div.inbox { @for one in &waiting { (card(&visit, one)) } }
            @if filter.workflow.is_empty() {
                @if !further.is_empty() {
                    p.hint { "These are the newest runs. There are older ones of "
                        @for (place, (workflow, next)) in further.iter().enumerate() {
                            @if place > 0 { ", " }
                            a href={ (PATH) (text::query(&[("workflow", Some(workflow)), ("cursor", Some(next))])) } { (workflow) }
                        }
                        "."
                    }
                }
                @if chosen.len() < asking.len() { p.hint { "These are of " (chosen.len()) " workflows that ask. Choose another one above." } }
            } @else {
                (ui::pager(PATH, &[("workflow", Some(&filter.workflow))], filter.cursor.is_empty(), further.first().map(|(_, next)| next.as_str())))
            }
        }
    };
    Ok(visit.page("Approvals", content))
}

fn choice(asking: &[String], filter: &Filter) -> Markup {
    let names = asking.iter().map(|name| (name.as_str(), name.as_str()));
    let names: Vec<_> = std::iter::once(("", "any")).chain(names).collect();
    html! {
        form.filters action=(PATH) { (form::choice("workflow", "Workflow", &names, &filter.workflow)) button.plain type="submit" { "Filter" } }
    }
}

/// Workflows whose document asks for an approval, with their versions. Runs of others are not looked into.
async fn asking(visit: &Visit) -> Result<Vec<String>, Failure> {
    let known = &visit.console.asking;
    let (mut asking, mut cursor) = (Vec::new(), String::new());
    for _ in 0..MAX_DEFINITION_PAGES {
        let query = [("limit", Some("200")), ("cursor", Some(cursor.as_str()))];
        let page: Page<DefinitionSummary> = visit.read(&ops::LIST_DEFINITIONS, &[], &query).await?;
        for it in page.items {
            let asks = match known.get(&it.id) {
                Some(asks) => asks,
                None => {
                    // A definition that somebody just deleted has no open run.
                    let definition: Option<Definition> = visit.find(&ops::SHOW_DEFINITION, &[&it.id]).await?;
                    let Some(definition) = definition else { continue };
                    let asks = definition.document.text().contains("\"approval\"");
                    known.insert(&it.id, asks);
                    asks
                }
            };
            if asks {
                asking.push(format!("{}@{}", it.name, it.version));
            }
        }
        match page.next_cursor {
            Some(next) => cursor = next,
            None => break,
        }
    }
    Ok(asking)
}

/// The approvals that these runs wait for.
async fn find(visit: &Visit, runs: Vec<Run>) -> Result<Vec<Waiting>, Failure> {
    let mut waiting = Vec::new();
    for run in runs {
        let steps = match run.version > MAX_COMMITS_WITH_ATTEMPTS {
            // A long run works at its end.
            true => {
                let query = [("order", Some("desc")), ("limit", Some("200"))];
                visit
                    .look_up_at::<Page<Step>>(&ops::LIST_STEPS, &[&run.id], &query)
                    .await?
                    .map(|page| page.items)
            }
            false => visit.find::<RunDetail>(&ops::SHOW_RUN, &[&run.id]).await?.map(|detail| detail.steps),
        };
        for (step, question) in questions(steps.unwrap_or_default()) {
            waiting.push(Waiting { run: run.clone(), step, question });
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
