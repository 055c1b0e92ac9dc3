//! What is seen of each request: a span, a line in the log, and the counts.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hapax_engine::model::RequestScope;
use tracing::Instrument;
use tracing::field::Empty;

use crate::answer::{answer_dressed, echo};
use crate::app::App;
use crate::trace::TraceId;

/// Who was answered; authentication leaves it on the answer for the log.
#[derive(Debug, Clone)]
pub(crate) struct AnsweredTo(pub(crate) RequestScope);

/// Names the request, has it answered, and tells of it. Never of its body, its query or its headers: they may hold secrets, and
/// the route is a template, so that ids and keys in paths stay out, too.
pub(crate) async fn observe(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let trace_id = TraceId::of_request(request.headers());
    request.extensions_mut().insert(trace_id);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let shown = route.unwrap_or("unmatched");
    let span = tracing::debug_span!(
        target: "hapax::http", parent: None, "request",
        otel.name = Empty, http.request.method = %echo(method.as_str()), http.route = shown,
        http.response.status_code = Empty, hapax.workspace = Empty, hapax.credential = Empty,
        trace_id = %trace_id, parent_span_id = Empty, sampled = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("{} {shown}", echo(method.as_str())));
        if let Some(parent) = TraceId::find_parent(request.headers()) {
            span.record("parent_span_id", parent.span_id);
            span.record("sampled", parent.is_sampled);
        }
    }
    let mut response = answer_dressed(request, next).instrument(span.clone()).await;
    let (took, status) = (began.elapsed(), response.status());
    app.metrics.answered(&method, route, status, took);
    let caller = response.extensions_mut().remove::<AnsweredTo>().map(|AnsweredTo(scope)| scope);
    let workspace = caller.as_ref().map_or("", |scope| scope.workspace.as_str());
    let credential = caller.as_ref().map_or("", |scope| scope.caller.as_str());
    if !span.is_disabled() {
        span.record("http.response.status_code", status.as_u16());
        span.record("hapax.workspace", workspace);
        span.record("hapax.credential", credential);
    }
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        target: "hapax::http", method = %echo(method.as_str()), route = shown, status = status.as_u16(), ms, %trace_id,
        workspace, credential, "request"
    );
    response
}
