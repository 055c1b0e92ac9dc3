//! Observation of each request: a span, a log line, and the counts.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use futures_util::future::BoxFuture;
use hapax_engine::model::RequestScope;
use hapax_grpc::RouteStatus;
use http::Method;
use tower_layer::Layer;
use tower_service::Service;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::answer::{echo, with_response_headers};
use crate::app::App;
use crate::connection::Peer;
use crate::trace::TraceId;

/// Scope of the caller; authentication attaches it to the response for the log.
#[derive(Debug, Clone)]
pub(crate) struct CallerScope(pub(crate) RequestScope);

/// Assigns an id to each request, and logs and counts its response.
///
/// It is a layer of its own because axum's `from_fn` boxes all inner services for every request.
#[derive(Clone)]
pub(crate) struct TraceLayer(pub(crate) Arc<App>);

impl<S> Layer<S> for TraceLayer {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { app: self.0.clone(), inner }
    }
}

#[derive(Clone)]
pub(crate) struct Observed<S> {
    app: Arc<App>,
    inner: S,
}

impl<S> Service<Request> for Observed<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let began = Instant::now();
        let trace_id = TraceId::from_request(request.headers());
        request.extensions_mut().insert(trace_id);
        let is_tls = Peer::is_tls(&request);
        let seen = RequestFacts {
            began,
            trace_id,
            method: request.method().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
        };
        let span = seen.span(&request);
        let answer = self.inner.call(request);
        let answer = with_response_headers(trace_id, is_tls, answer).instrument(span.clone());
        let app = self.app.clone();
        Box::pin(async move {
            let mut response = answer.await;
            seen.tell(&app, &span, &mut response);
            Ok(response)
        })
    }
}

/// Recorded facts about a request. Never its body, query or headers, which may hold secrets. The
/// route is a template, so ids and keys in paths stay out, too.
struct RequestFacts {
    began: Instant,
    trace_id: TraceId,
    method: Method,
    route: Option<MatchedPath>,
}

impl RequestFacts {
    fn route(&self) -> Option<&str> {
        self.route.as_ref().map(MatchedPath::as_str)
    }

    fn route_label(&self) -> &str {
        self.route().unwrap_or("unmatched")
    }

    fn span(&self, request: &Request) -> Span {
        let (method, shown, trace_id) = (self.method.as_str(), self.route_label(), self.trace_id);
        let span = tracing::debug_span!(
            target: "hapax::http", parent: None, "request",
            otel.name = Empty, http.request.method = %echo(method), http.route = shown,
            http.response.status_code = Empty, hapax.workspace = Empty, hapax.credential = Empty,
            trace_id = %trace_id, parent_span_id = Empty, sampled = Empty,
        );
        if !span.is_disabled() {
            span.record("otel.name", format!("{} {shown}", echo(method)));
            if let Some(parent) = TraceId::find_parent(request.headers()) {
                span.record("parent_span_id", parent.span_id);
                span.record("sampled", parent.is_sampled);
            }
        }
        span
    }

    fn tell(&self, app: &App, span: &Span, response: &mut Response) {
        // A call of gRPC is 200 over HTTP, whatever became of it.
        let status = response.extensions().get::<RouteStatus>().map_or(response.status(), |told| told.0);
        let took = self.began.elapsed();
        app.metrics.answered(&self.method, self.route(), status, took);
        let caller = response.extensions_mut().remove::<CallerScope>().map(|CallerScope(scope)| scope);
        let workspace = caller.as_ref().map_or("", |scope| scope.workspace.as_str());
        let credential = caller.as_ref().map_or("", |scope| scope.caller.as_str());
        if !span.is_disabled() {
            span.record("http.response.status_code", status.as_u16());
            span.record("hapax.workspace", workspace);
            span.record("hapax.credential", credential);
        }
        let (method, shown, trace_id) = (self.method.as_str(), self.route_label(), self.trace_id);
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "hapax::http", method = %echo(method), route = shown, status = status.as_u16(), ms, %trace_id,
            workspace, credential, "request"
        );
    }
}
