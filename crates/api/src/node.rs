//! The node that answers: its background loops and its settings; and the leases of runs on all nodes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A background loop of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeLoop {
    /// Its name, such as `scheduler` or `janitor of billing`.
    pub name: String,
    /// When it last finished a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub last_run_at: Option<String>,
    /// Has it panicked, and will it restart in a moment?
    pub is_down: bool,
    /// Panics since the node was started. Each was followed by a restart.
    pub panics: u64,
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetting {
    /// Its name, as in the configuration.
    pub name: String,
    /// Its value, without secrets.
    pub in_force: String,
}

/// The node that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its id, which its leases name as their owner. A node has another one after each start.
    pub id: String,
    /// The version of Hapax.
    pub server_version: String,
    /// Its time, by the clock of the store.
    #[schema(format = DateTime)]
    pub now: String,
    /// Its background loops.
    pub loops: Vec<NodeLoop>,
    /// Its settings.
    pub settings: Vec<NodeSetting>,
}

/// The lease of a run that a node drives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunLease {
    /// The run.
    pub run_id: String,
    /// Its workflow, such as `order@2`.
    pub workflow: String,
    /// Id of the node that drives it.
    pub owner: String,
    /// Number of leases the run has had. A writer with an older one is refused.
    pub fence: u64,
    /// When another node may take over, unless the lease is renewed.
    #[schema(format = DateTime)]
    pub expires_at: String,
}
