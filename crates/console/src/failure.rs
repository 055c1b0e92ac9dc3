//! Error pages.

use axum::response::{IntoResponse, Redirect, Response};
use hapax_api::{Code, DefinitionProblem, KeyScope, Problem, StoredRequest};
use http::StatusCode;
use maud::{Markup, html};

use crate::layout::{self, Frame};
use crate::ui;

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody is signed in; `next` is where they wanted to go.
    SignedOut { next: String },
    /// A link on another site led here, so the browser left the cookie at home; from here it brings it along.
    FromElsewhere { here: String },
    /// The API, or the console itself, refused. The path leads back.
    Refused { problem: Box<Problem>, frame: Box<Frame> },
    /// The same before it is known who asks.
    Bare(Box<Problem>),
}

impl Failure {
    /// Refuses inside the frame of the caller.
    pub(crate) fn in_frame(problem: Problem, frame: &Frame) -> Self {
        Failure::Refused { problem: Box::new(problem), frame: Box::new(frame.clone()) }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Bare(Box::new(problem))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Failure::SignedOut { next } => {
                let query = crate::text::query(&[("next", Some(&next))]);
                Redirect::to(&format!("/console/sign-in{query}")).into_response()
            }
            Failure::FromElsewhere { here } => layout::again(&here),
            Failure::Refused { problem, frame } => {
                let status = status_of(&problem);
                (
                    status,
                    layout::page(&frame, &problem.title.clone(), explain(&problem, frame.back.as_deref())),
                )
                    .into_response()
            }
            Failure::Bare(problem) => {
                (status_of(&problem), layout::bare("", &problem.title.clone(), explain(&problem, None)))
                    .into_response()
            }
        }
    }
}

fn status_of(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Explains a problem and the next step to people.
pub(crate) fn explain(problem: &Problem, back: Option<&str>) -> Markup {
    let (title, advice) = in_words(problem);
    let operation = problem.more.get("operationId").and_then(|id| id.as_str());
    html! {
        section.notice.refusal role="alert" {
            h1 { (title) }
            @if let Some(advice) = advice { p { (advice) } }
            p { (ui::sentence(&problem.detail)) }
            dl.facts {
                div { dt { "Code" } dd { a href=(problem.kind) { code { (problem.code.to_string()) } } } }
                @if let Some(id) = operation {
                    div { dt { "Operation" } dd { a href={ "/console/operations/" (crate::text::encode(id)) } { code { (id) } } } }
                }
                @if let Some(role) = problem.more.get("requiredRole").and_then(|role| role.as_str()) {
                    div { dt { "Needs the role" } dd { (role) } }
                }
                @if let Some(id) = &problem.trace_id { div { dt { "Trace" } dd { code { (id) } } } }
            }
            (particulars(problem))
            @if let Some(back) = back { p.actions { a.button.primary href=(back) { "See how it stands now" } } }
        }
    }
}

/// Each error of a document or an input; and for a key that stands for something else, what that is and where the two differ.
fn particulars(problem: &Problem) -> Markup {
    let list = |name: &str| problem.more.get(name).and_then(|it| it.as_array().cloned()).unwrap_or_default();
    let problems: Vec<DefinitionProblem> =
        list("problems").into_iter().filter_map(|it| serde_json::from_value(it).ok()).collect();
    let stored = problem.more.get("storedRequest");
    let stored: Option<StoredRequest> = stored.and_then(|it| serde_json::from_value(it.clone()).ok());
    html! {
        @if !problems.is_empty() {
            ul.problems { @for it in &problems { li { code { @if it.path.is_empty() { "/" } @else { (it.path) } } " " (ui::sentence(&it.message)) } } }
        }
        @if let Some(stored) = &stored {
            (ui::known(vec![
                ("Was used first", Some(ui::time(&stored.first_seen_at))),
                ("For", stored.id.as_deref().map(|id| match stored.kind {
                    KeyScope::Run => ui::run_link(id),
                    KeyScope::Operation => ui::operation_link(id),
                    KeyScope::Promise | KeyScope::Request => ui::id(id),
                })),
                ("Workflow", stored.definition.as_ref().map(|name| html! { code { (name) } })),
                ("Differs at", (!stored.differing_paths.is_empty()).then(|| html! { @for path in &stored.differing_paths { div { code { (path) } } } })),
            ]))
        }
    }
}

/// Does the key name a run, a promise or an operation?
fn names_something(problem: &Problem) -> bool {
    let kind = problem.more.get("storedRequest").and_then(|it| it.get("kind")).and_then(|kind| kind.as_str());
    kind.is_some_and(|kind| kind != "request")
}

/// Title and advice, where a page can say more than the API.
fn in_words(problem: &Problem) -> (String, Option<&'static str>) {
    match problem.code {
        Code::Concurrency => (
            "This page is no longer up to date".to_owned(),
            Some(
                "Something changed since the page was shown, so nothing was done. Look at how it stands now, then decide again.",
            ),
        ),
        // A person chose this key. Other keys come with the form.
        Code::IdempotencyKeyConflict if names_something(problem) => (
            "The key belongs to another request".to_owned(),
            Some(
                "What was sent first under it counts, and this was not done. Use another key if you mean something else.",
            ),
        ),
        Code::IdempotencyKeyConflict => (
            "This form was sent before, with other values".to_owned(),
            Some(
                "What was sent first counts, and this was not done. Open the page anew to send something else.",
            ),
        ),
        _ => (problem.title.clone(), None),
    }
}
