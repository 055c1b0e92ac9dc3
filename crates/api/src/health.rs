//! Liveness and readiness of the server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Result of a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Healthy.
    Ok,
    /// Not able to serve now.
    Unavailable,
    /// Finishing open work, and accepting nothing new.
    Draining,
}

/// The process is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Result of the check.
    pub status: HealthStatus,
    /// The version of Hapax.
    pub server_version: String,
}

/// One precondition of readiness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessCheck {
    /// Name of the check.
    pub name: String,
    /// Result of the check.
    pub status: HealthStatus,
    /// Cause of a failure, without addresses or secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Readiness of the server for traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// All checks together.
    pub status: HealthStatus,
    /// Each of them.
    pub checks: Vec<ReadinessCheck>,
}
