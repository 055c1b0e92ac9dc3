//! Tells an open page that its run moved. The page then asks for itself, so that what it shows has one maker.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::time::sleep;

use crate::Console;
use crate::failure::Failure;
use crate::limits::{LIVE_KEEP_ALIVE, LIVE_PAUSE};
use crate::ops;
use crate::visit::Visit;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Seen {
    #[serde(default)]
    seen: String,
}

/// One message whenever the run moved since `seen`, at most one in [`LIVE_PAUSE`], until the session or the run ends.
pub(super) async fn stream(
    visit: Visit,
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Query(Seen { seen }): Query<Seen>,
) -> Result<Response, Failure> {
    let body = visit
        .api()
        .follow(&ops::STREAM_EVENTS, &[&id], &seen)
        .await
        .map_err(|problem| visit.refuse(problem))?;
    let (token, address) = (visit.token.clone(), visit.address);
    let events = stream::unfold(Some(body), move |body| {
        let (console, token) = (console.clone(), token.clone());
        async move {
            let mut body = body?;
            loop {
                let frame = body.frame().await?.ok()?;
                let Ok(data) = frame.into_data() else { continue };
                // Lines that keep the connection alive begin with a colon.
                if data.starts_with(b":") {
                    continue;
                }
                if !matches!(console.host.find_session(&token, address).await, Ok(Some(_))) {
                    return None;
                }
                let moved = Ok::<_, Infallible>(Event::default().event("moved").data("yes"));
                // A stream that has ended must not be asked again.
                let goes_on = drain(&mut body).await;
                return Some((moved, goes_on.then_some(body)));
            }
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(LIVE_KEEP_ALIVE)).into_response())
}

/// Takes what else comes within a moment, so that a busy run does not have its page built anew for each step. Answers whether more may come.
async fn drain(body: &mut axum::body::Body) -> bool {
    let pause = sleep(LIVE_PAUSE);
    tokio::pin!(pause);
    loop {
        tokio::select! {
            () = &mut pause => return true,
            frame = body.frame() => if !matches!(frame, Some(Ok(_))) { return false },
        }
    }
}
