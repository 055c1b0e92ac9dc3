//! The health service: a server is healthy when it is ready, as `/readyz` says.

use std::sync::Arc;

use axum::body::Body;
use http::Request as HttpRequest;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::ServiceExt;

use crate::SERVICES;
use crate::call::Gateway;

/// Path of the method.
pub(crate) const PATH: &str = "/grpc.health.v1.Health/Check";

/// The service.
pub(crate) fn service(gateway: Arc<Gateway>) -> HealthServer<Readiness> {
    HealthServer::new(Readiness { gateway })
}

/// Answers with the readiness of the server.
pub(crate) struct Readiness {
    gateway: Arc<Gateway>,
}

#[tonic::async_trait]
impl Health for Readiness {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        let is_ours = |path: &str| path[1..].split('/').next() == Some(service.as_str());
        if !service.is_empty() && !SERVICES.methods.iter().any(|method| is_ours(&method.path)) {
            return Err(Status::not_found("There is no such service."));
        }
        let mut request = HttpRequest::new(Body::empty());
        *request.uri_mut() = "/readyz".parse().expect("a valid literal");
        let answered = match self.gateway.api.clone().oneshot(request).await {
            Ok(answered) => answered,
            Err(never) => match never {},
        };
        let status = match answered.status().is_success() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }

    type WatchStream = futures_util::stream::Empty<Result<HealthCheckResponse, Status>>;

    /// Not offered: a stream would keep a server that is shutting down from closing its connections.
    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("Ask `Check` again."))
    }
}
