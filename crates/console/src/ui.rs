//! Components of pages: all texts are escaped by maud, and none takes ready-made HTML from outside.

mod badge;
mod diagram;
mod journal;
mod json;
mod list;
mod time;

use maud::{Markup, html};

pub(crate) use badge::{State, badge, dot, operation_badge, run_badge, state, step_badge};
pub(crate) use diagram::diagram;
pub(crate) use journal::{actor, journal, word};
pub(crate) use json::json;
pub(crate) use list::{Tab, facts, known, pager, table, tabs};
pub(crate) use time::{ago, span_between, span_text, time, until_ms};

/// The heading of a page with one sentence under it.
pub(crate) fn heading(title: &str, about: Markup) -> Markup {
    html! { div.heading { h1 { (title) } p.about { (about) } } }
}

/// Nothing where something could be.
pub(crate) fn none() -> Markup {
    html! { span.dim.none { "–" } }
}

/// A short word in a frame.
pub(crate) fn tag(text: &str) -> Markup {
    html! { span.tag { (text) } }
}

/// An id or a key, in full, to be copied.
pub(crate) fn id(text: &str) -> Markup {
    html! { code.id { (text) } }
}

/// An id that leads to its page.
pub(crate) fn id_link(path: &str, text: &str) -> Markup {
    html! { a.id href=(path) { (text) } }
}

/// The path of a run's page.
pub(crate) fn run_path(id: &str) -> String {
    format!("/console/runs/{}", crate::text::encode(id))
}

/// A run that leads to its page.
pub(crate) fn run_link(id: &str) -> Markup {
    id_link(&run_path(id), id)
}

/// An entity that leads to its page.
pub(crate) fn entity_link(kind: &str, id: &str) -> Markup {
    id_link(&entity_path(kind, id), &format!("{kind}/{id}"))
}

/// The path of an entity's page.
pub(crate) fn entity_path(kind: &str, id: &str) -> String {
    format!("/console/entities/{}/{}", crate::text::encode(kind), crate::text::encode(id))
}

/// An operation that leads to its page.
pub(crate) fn operation_link(id: &str) -> Markup {
    id_link(&format!("/console/operations/{}", crate::text::encode(id)), id)
}

/// A sentence of the API: what stands between backticks is code.
pub(crate) fn sentence(text: &str) -> Markup {
    let parts = text.split('`').enumerate();
    html! { @for (place, part) in parts { @if place % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// A text of the API, with its instants in the viewer's format.
pub(crate) fn told(text: &str) -> Markup {
    let words = text.split(' ').enumerate();
    let is_instant = |word: &str| word.ends_with('Z') && word.parse::<jiff::Timestamp>().is_ok();
    html! { @for (place, word) in words { @if place > 0 { " " } @if is_instant(word) { (time(word)) } @else { (word) } } }
}

/// Turns an id inside a text into a link.
pub(crate) fn linked(text: &str, id: &str, link: &Markup) -> Markup {
    match text.split_once(id) {
        Some((before, after)) => html! { (before) (link) (after) },
        None => html! { (text) " " (link) },
    }
}

/// A secret that is shown this once, and what it is for.
pub(crate) fn secret(about: &str, secret: &str) -> Markup {
    html! {
        div.notice.doubt {
            p.sentence { (about) }
            input.secret type="text" readonly value=(secret) aria-label="The secret" spellcheck="false" autocomplete="off";
        }
    }
}

/// Warnings about a document.
pub(crate) fn warnings(warnings: &[hapax_api::DefinitionProblem]) -> Markup {
    html! {
        @if !warnings.is_empty() {
            div.notice.doubt {
                p.sentence { "Somebody should look at this" }
                ul.problems { @for warning in warnings { li { code { @if warning.path.is_empty() { "/" } @else { (warning.path) } } " " (sentence(&warning.message)) " " (tag(&warning.rule)) } } }
            }
        }
    }
}

/// A page, or a part of one, that has nothing to show yet, and why.
pub(crate) fn empty(text: &str) -> Markup {
    html! { p.empty { (text) } }
}

/// The mark of Hapax.
pub(crate) fn logo() -> Markup {
    html! {
        svg.logo viewBox="0 0 16 16" aria-hidden="true" {
            rect width="16" height="16" rx="4" {}
            path d="M5 3.5v9M11 3.5v9M5 8h6" {}
        }
    }
}

/// A drawing of lines, beside a word that says the same.
pub(crate) fn icon(path: &str) -> Markup {
    html! { svg.icon viewBox="0 0 16 16" aria-hidden="true" { path d=(path) {} } }
}
