//! Is the process alive, and may traffic be sent to it?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Well.
    Ok,
    /// Not able to serve now.
    Unavailable,
    /// Finishing what it began, and taking nothing new.
    Draining,
}

/// The process is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// How it is.
    pub status: HealthStatus,
    /// The version of Hapax.
    pub server_version: String,
}

/// One thing that readiness depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessCheck {
    /// Which.
    pub name: String,
    /// How it is.
    pub status: HealthStatus,
    /// What is wrong, without addresses or secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// May traffic be sent?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// All checks together.
    pub status: HealthStatus,
    /// Each of them.
    pub checks: Vec<ReadinessCheck>,
}
