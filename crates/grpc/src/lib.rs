//! The API over gRPC.
//!
//! Each method of `hapax.v1` is a route of the HTTP API, which its option `google.api.http` names. A call becomes a
//! request of that route, in this process. So both transports have the same credentials, roles, limits, idempotency
//! keys and errors, and no rule is written twice.
//!
//! `bytes` hold JSON, which goes through byte for byte.

mod body;
mod call;
mod fault;
mod from_json;
mod health;
mod methods;
mod to_request;

use std::error::Error;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::routing::post;
use hapax_api::Problem;
use http::StatusCode;

use prost::Message as _;
use prost_reflect::DynamicMessage;

use crate::call::Gateway;
use crate::methods::Services;

/// The services, read once.
static SERVICES: LazyLock<Services> = LazyLock::new(Services::read);

/// Limits of calls, and the problem of an unreadable body.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Largest message of a request, in bytes.
    pub max_message_bytes: usize,
    /// Longest path and query that a request may become, in bytes.
    pub max_uri_bytes: usize,
    /// The problem of a body that could not be read.
    pub unreadable: fn(&(dyn Error + 'static)) -> Problem,
}

/// The HTTP status that the route answered with; an extension of the response to a call, whose own status is always 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteStatus(pub StatusCode);

/// Paths of all methods.
pub fn paths() -> impl Iterator<Item = &'static str> {
    let ours = SERVICES.methods.iter().map(|method| method.path.as_str());
    ours.chain([health::PATH, REFLECTION_PATH, OLD_REFLECTION_PATH])
}

/// One method and the route that it is.
#[derive(Debug, Clone)]
pub struct MethodRoute {
    /// `/hapax.v1.Runs/StartRun`.
    pub path: &'static str,
    /// Method of the route.
    pub verb: http::Method,
    /// Path of the route, with the names of fields in braces.
    pub route: &'static str,
    /// Name of the message of the request.
    pub input: &'static str,
    /// Name of the message of the response.
    pub output: &'static str,
}

/// All methods of `hapax.v1`.
pub fn methods() -> impl Iterator<Item = MethodRoute> {
    SERVICES.methods.iter().map(|method| MethodRoute {
        path: &method.path,
        verb: method.verb.clone(),
        route: &method.route,
        input: method.input.name(),
        output: method.output.name(),
    })
}

const REFLECTION_PATH: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const OLD_REFLECTION_PATH: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// The services: calls are answered by the routes of `api`.
pub fn router(api: Router, options: Options) -> Router {
    let gateway = Arc::new(Gateway { api, options });
    let mut router = Router::new();
    for method in &SERVICES.methods {
        let gateway = gateway.clone();
        let answer = move |request| call::answer(gateway.clone(), method, request);
        router = router.route(&method.path, post(answer));
    }
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(hapax_api::grpc::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let now = reflection().build_v1().expect("a test reads the descriptors");
    let before = reflection().build_v1alpha().expect("a test reads the descriptors");
    router
        .route_service(health::PATH, health::service(gateway))
        .route_service(REFLECTION_PATH, now)
        .route_service(OLD_REFLECTION_PATH, before)
}

/// Encodes `json` as the message `hapax.v1.NAME`. Returns `None` for an unknown name, or for JSON that does not fit.
pub fn message_from_json(name: &str, json: &str) -> Option<Vec<u8>> {
    let descriptor = SERVICES.pool.get_message_by_name(&format!("hapax.v1.{name}"))?;
    Some(from_json::message_of(&descriptor, json).ok()?.encode_to_vec())
}

/// Decodes the message `hapax.v1.NAME` as JSON. Returns `None` for an unknown name, or for bytes that are no such message.
pub fn message_to_json(name: &str, bytes: &[u8]) -> Option<String> {
    let descriptor = SERVICES.pool.get_message_by_name(&format!("hapax.v1.{name}"))?;
    to_request::json_of(&DynamicMessage::decode(descriptor, bytes).ok()?).ok()
}
