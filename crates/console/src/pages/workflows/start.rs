//! Starting a run, with a form made from the schema of its input.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use hapax_api::{
    Code, CreateRun, CreatedRun, Definition, DefinitionStatus, JsonObject, KeyRule, Problem, RunDetail,
};
use http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::input::{self, Field, Typed};
use super::{PATH, path};
use crate::failure::{self, Failure};
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, ui};

pub(super) async fn show(visit: Visit, Path(id): Path<String>) -> Result<Response, Failure> {
    let definition: Definition = visit.read(&ops::SHOW_DEFINITION, &[&id], &[]).await?;
    let content = page(&visit, &definition, &|_| None, html! {});
    Ok(visit.page(&format!("Start {}", definition.name), content))
}

/// The fields that the schema of the input asks for.
fn fields(definition: &Definition) -> Vec<Field> {
    let document: Value = serde_json::from_str(definition.document.text()).unwrap_or_default();
    document.get("input").map(input::fields).unwrap_or_default()
}

fn page(visit: &Visit, it: &Definition, typed: Typed<'_>, above: Markup) -> Markup {
    let fields = fields(it);
    let typed_or = |name: &str, otherwise: &str| typed(name).unwrap_or_else(|| otherwise.to_owned());
    let raw = typed_or("raw", if fields.is_empty() { "{}" } else { "" });
    let is_key_required = it.idempotency == KeyRule::Required;
    html! {
        div.heading {
            p.crumb { a href=(PATH) { "Workflows" } " / " a href=(path(&it.id)) { (it.name) " version " (it.version) } }
            h1 { "Start a run of " (it.name) }
            @if let Some(about) = &it.description { p.about { (about) } }
        }
        (above)
        @if it.status == DefinitionStatus::Archived { div.notice { p { "It is archived, so it starts no runs." } } }
        @else if !visit.may(&ops::START_RUN) { (form::disabled("Start", html! { "Your role may look, and not start runs." })) }
        @else {
            div.start { (form::form(visit, &format!("{}/start", path(&it.id)), None, html! {
                @if !fields.is_empty() { fieldset { legend { "Input" } (input::render(&fields, typed, raw.is_empty())) } }
                @if fields.is_empty() { (form::code_area("raw", "Input", &raw, Some("A JSON object."), 8)) }
                @else {
                    details.more open[!raw.is_empty()] { summary { "Give the input as JSON instead" }
                        (form::code_area("raw", "Input as JSON", &raw, Some("If something is here, it counts, and the fields above do not."), 8)) }
                }
                fieldset {
                    legend { "The run" }
                    (form::text_field("run-key", "Idempotency key", &typed_or("run-key", ""), Some("Names the run: to start it twice under one key gives one run. For example the number of the order."), is_key_required))
                    (form::text_field("subject", "Subject", &typed_or("subject", ""), Some("What it is about. At most one run of the workflow is open for one subject."), false))
                    (form::text_field("delay", "Begin later by", &typed_or("delay", ""), Some("For example 30m or 2h."), false))
                }
                (form::submit("Start", Tone::Primary))
            })) }
        }
    }
}

pub(super) async fn start(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(&format!("{}/start", path(&id)));
    let definition: Definition = form.visit.read(&ops::SHOW_DEFINITION, &[&id], &[]).await?;
    let asked = match asked(&form, &definition) {
        Ok(asked) => asked,
        Err(detail) => {
            return refused(&form, &definition, Problem::new(Code::InvalidRequest, detail), None).await;
        }
    };
    match form.try_send(&ops::START_RUN, &[], &asked).await {
        Ok(answer) => {
            let created: CreatedRun = form.read(&answer)?;
            let said = if created.created {
                "The run has started."
            } else {
                "This run was there already: its key names it."
            };
            Ok(form.done(&ui::run_path(&created.run.id), said))
        }
        Err(problem) => refused(&form, &definition, problem, Some(asked.input.text())).await,
    }
}

fn asked(form: &Submitted, definition: &Definition) -> Result<CreateRun, String> {
    let typed = |name: &str| form.all(name).into_iter().next();
    let text = match form.given("raw") {
        Some(raw) => raw,
        None => input::read(&fields(definition), &typed)?,
    };
    let input: JsonObject =
        serde_json::from_str(&text).map_err(|error| format!("The input is a JSON object: {error}."))?;
    let delay = form.given("delay").map(|text| text.parse()).transpose();
    let delay = delay.map_err(|_| "`Begin later by` is a span of time such as 30m or 2h.".to_owned())?;
    Ok(CreateRun {
        definition_id: Some(definition.id.clone()),
        input,
        idempotency_key: form.given("run-key"),
        subject: form.given("subject"),
        delay,
        ..CreateRun::default()
    })
}

/// The form once more with what was typed, and why no run was started. For a key that names another request, both inputs.
async fn refused(
    form: &Submitted,
    definition: &Definition,
    problem: Problem,
    sent: Option<&str>,
) -> Result<Response, Failure> {
    let visit = &form.visit;
    let first = match problem.more.get("storedRequest").and_then(|it| it.get("id")).and_then(Value::as_str) {
        Some(run) => visit.find::<RunDetail>(&ops::SHOW_RUN, &[run]).await?,
        None => None,
    };
    let above = html! {
        (failure::explain(&problem, None))
        @if let (Some(first), Some(sent)) = (&first, sent) {
            div.plan {
                section { h2 { "First request, which counts" } p { (ui::run_link(&first.run.id)) " " (first.run.workflow) } (ui::json(first.run.input.text())) }
                section { h2 { "This request, which did nothing" } p { (definition.name) "@" (definition.version) } (ui::json(sent)) }
            }
        }
    };
    let typed = |name: &str| form.all(name).into_iter().next();
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
    let content = page(visit, definition, &typed, above);
    Ok((status, visit.page(&format!("Start {}", definition.name), content)).into_response())
}
