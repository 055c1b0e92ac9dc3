//! Early settlements: settlements that wait for their promise.

use axum::extract::Query;
use axum::response::Response;
use hapax_api::{EarlySettlement, Page, PromiseStatus};
use maud::html;
use serde::Deserialize;

use super::heading;
use crate::failure::Failure;
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/webhooks/early";

#[derive(Debug, Default, Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    cursor: String,
}

pub(super) async fn list(
    visit: Visit,
    Query(PageQuery { cursor }): Query<PageQuery>,
) -> Result<Response, Failure> {
    let query = [("cursor", Some(cursor.as_str()))];
    let page: Page<EarlySettlement> = visit.read(&ops::LIST_EARLY_SETTLEMENTS, &[], &query).await?;
    let rows = page.items.iter().map(|early| {
        let key = format!("/console/keys/promise/{}", text::encode(&early.idempotency_key));
        vec![
            ui::id_link(&key, &early.idempotency_key),
            match early.status {
                PromiseStatus::Resolved => ui::badge(ui::State::Good, "Resolves it"),
                _ => ui::badge(ui::State::Bad, "Rejects it"),
            },
            ui::ago(&early.received_at, visit.now_ms),
            ui::ago(&early.expires_at, visit.now_ms),
            html! {
                @if let Some(value) = &early.value { details.more { summary { "Value" } (ui::json(value.text())) } }
                @if let Some(failure) = &early.failure { (ui::sentence(&failure.message)) }
            },
        ]
    });
    let about = html! { "Settlements that came before their promise was made. Each waits for it, and is dropped if it is never made." };
    let content = html! {
        (heading(&visit, PATH, about))
        (ui::table(&["Key of the promise", "What it will do", "Came", "Is dropped", "What it brings"], rows.collect(), "Nothing waits for its promise."))
        (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Early settlements", content))
}
