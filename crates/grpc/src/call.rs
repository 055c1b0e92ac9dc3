//! One call: its message becomes a request of its route, and the response a message.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use hapax_api::{Code, PROBLEM_JSON, Problem};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use prost_reflect::DynamicMessage;
use tower::ServiceExt;

use crate::body::{body_of, read_message};
use crate::fault::{problem_in, status_of};
use crate::from_json::message_of;
use crate::methods::Method;
use crate::to_request::request_of;
use crate::{Options, RouteStatus};

/// Media type of gRPC.
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// The API as calls reach it.
pub(crate) struct Gateway {
    pub(crate) api: Router,
    pub(crate) options: Options,
}

/// Answers one call of `method`.
pub(crate) async fn answer(
    gateway: Arc<Gateway>,
    method: &'static Method,
    request: Request<Body>,
) -> Response<Body> {
    if let Err(problem) = check_protocol(&request) {
        return plain_problem(&problem);
    }
    match carry_out(&gateway, method, request).await {
        Ok(response) => response,
        Err(problem) => refused(&problem),
    }
}

/// A caller that speaks no gRPC gets an answer that it can read.
fn check_protocol(request: &Request<Body>) -> Result<(), Problem> {
    let given = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = given.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !matches!(essence, "application/grpc" | "application/grpc+proto") {
        let detail = "This is a method of gRPC: send `Content-Type: application/grpc`. The same call over plain HTTP is in /openapi.json.";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    if request.version() != Version::HTTP_2 {
        return Err(Problem::new(Code::InvalidRequest, "gRPC needs HTTP/2."));
    }
    Ok(())
}

fn plain_problem(problem: &Problem) -> Response<Body> {
    let mut response = Response::new(Body::from(serde_json::to_vec(problem).unwrap_or_default()));
    *response.status_mut() =
        StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}

/// A response that is only a status.
fn refused(problem: &Problem) -> Response<Body> {
    let mut response: Response<Body> = status_of(problem).into_http();
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.extensions_mut().insert(RouteStatus(status));
    if let Some(seconds) = problem.retry_after.map(|wait| wait.0.as_secs()) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

async fn carry_out(
    gateway: &Gateway,
    method: &Method,
    request: Request<Body>,
) -> Result<Response<Body>, Problem> {
    let Options { max_message_bytes, max_uri_bytes, unreadable } = gateway.options;
    let (head, body) = request.into_parts();
    let message = read_message(body, method.input.clone(), max_message_bytes, unreadable).await?;
    let asked = request_of(method, &message, max_uri_bytes)?;
    drop(message);
    let mut route = Request::new(asked.body.map_or_else(Body::empty, Body::from));
    (*route.method_mut(), *route.uri_mut()) = (method.verb.clone(), asked.uri);
    *route.headers_mut() = route_headers(head.headers);
    if method.has_body {
        route.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in asked.headers {
        route.headers_mut().insert(name, value);
    }
    *route.extensions_mut() = head.extensions;
    // The router would append the path of the route to the path of the method.
    route.extensions_mut().remove::<MatchedPath>();
    let answered = match gateway.api.clone().oneshot(route).await {
        Ok(answered) => answered,
        Err(never) => match never {},
    };
    let (head, body) = answered.into_parts();
    let body =
        body.collect().await.map_err(|_| internal("the response of a route could not be read"))?.to_bytes();
    let mut response = match head.status.is_success() {
        true => accepted(method, &body)?,
        false => refused(&problem_in(&body)),
    };
    for (name, value) in response_metadata(&head.headers) {
        response.headers_mut().insert(name.clone(), value.clone());
    }
    response.extensions_mut().extend(head.extensions);
    response.extensions_mut().insert(RouteStatus(head.status));
    Ok(response)
}

fn accepted(method: &Method, body: &[u8]) -> Result<Response<Body>, Problem> {
    let text = std::str::from_utf8(body).map_err(|_| internal("a response is not UTF-8"))?;
    let message: DynamicMessage = message_of(&method.output, text)
        .map_err(|error| internal(&format!("a response is no message: {error}")))?;
    let mut response = Response::new(body_of(&message));
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    Ok(response)
}

fn internal(cause: &str) -> Problem {
    Problem::new(Code::Internal, format!("The server failed: {cause}. Report `traceId` to the operator."))
}

/// Metadata as the headers of a request: all that are not about the body or the protocol.
fn route_headers(mut headers: HeaderMap) -> HeaderMap {
    const OF_THE_CALL: [HeaderName; 6] = [
        header::CONTENT_TYPE,
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
        header::TE,
        header::ACCEPT,
        header::ACCEPT_ENCODING,
    ];
    for name in OF_THE_CALL {
        headers.remove(name);
    }
    headers
}

/// Headers of a response as metadata: all that are not about its body.
fn response_metadata(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let is_of_body = |name: &HeaderName| {
        [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::WWW_AUTHENTICATE].contains(name)
    };
    headers.iter().filter(move |(name, _)| !is_of_body(name))
}
