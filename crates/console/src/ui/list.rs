//! Tables, lists of facts, tabs, and the way to the next page.

use maud::{Markup, html};

use crate::text;

/// A table; `nothing` is said where it has no rows. On a phone each row becomes a card with the names of its columns.
pub(crate) fn table(columns: &[&str], rows: Vec<Vec<Markup>>, nothing: &str) -> Markup {
    if rows.is_empty() {
        return super::empty(nothing);
    }
    html! {
        div.table {
            table {
                thead { tr { @for column in columns { @if column.is_empty() { td {} } @else { th scope="col" { (column) } } } } }
                tbody {
                    @for row in rows {
                        tr { @for (place, cell) in row.into_iter().enumerate() { td data-column=(columns.get(place).unwrap_or(&"")) { div { (cell) } } } }
                    }
                }
            }
        }
    }
}

/// Names and values.
pub(crate) fn facts(facts: Vec<(&str, Markup)>) -> Markup {
    html! {
        dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
    }
}

/// Names and values; entries without a value are left out.
pub(crate) fn known(known: Vec<(&str, Option<Markup>)>) -> Markup {
    facts(known.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect())
}

/// Where a list goes on: the same address with another cursor, so that the back button leads back.
pub(crate) fn pager(
    path: &str,
    filters: &[(&str, Option<&str>)],
    is_first: bool,
    next: Option<&str>,
) -> Markup {
    let first = format!("{path}{}", text::query(filters));
    let next = next.map(|cursor| {
        let mut pairs = filters.to_vec();
        pairs.push(("cursor", Some(cursor)));
        format!("{path}{}", text::query(&pairs))
    });
    html! {
        @if !is_first || next.is_some() {
            nav.pager aria-label="Pages of the list" {
                @if !is_first { a.button.plain href=(first) { "First page" } }
                @if let Some(next) = next { a.button.plain href=(next) rel="next" { "Next page" } }
            }
        }
    }
}

/// One of several views of the same thing.
pub(crate) struct Tab<'a> {
    pub(crate) name: &'a str,
    pub(crate) path: String,
    pub(crate) is_here: bool,
}

/// Links between several views of the same thing.
pub(crate) fn tabs(tabs: &[Tab<'_>]) -> Markup {
    html! {
        nav.tabs aria-label="Views" {
            @for tab in tabs { a href=(tab.path) aria-current=[tab.is_here.then_some("page")] { (tab.name) } }
        }
    }
}
