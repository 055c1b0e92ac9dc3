//! Push workers: functions that cannot poll. The server sends them their messages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DurationText, RawJson, WorkerWorkflow};

/// Registers a function that the server sends work to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePushWorker {
    /// Name for people; unique among the push workers of the workspace.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Address of the function.
    #[schema(min_length = 1, max_length = 2048)]
    pub url: String,
    /// Workflows that it has the code of.
    #[serde(default)]
    pub workflows: Vec<WorkerWorkflow>,
    /// Tasks that documents can call.
    #[serde(default)]
    pub tasks: Vec<String>,
    /// Actions of entity workflows.
    #[serde(default)]
    pub actions: Vec<String>,
    /// Longest time that one request may take; 60 seconds if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// Most requests at once from each node; 16 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 256)]
    pub concurrency: Option<u32>,
}

/// A function that the server sends work to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushWorker {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Address of the function.
    pub url: String,
    /// Workflows that it has the code of.
    pub workflows: Vec<WorkerWorkflow>,
    /// Tasks that it runs.
    pub tasks: Vec<String>,
    /// Actions that it runs.
    pub actions: Vec<String>,
    /// Longest time that one request may take.
    pub timeout: DurationText,
    /// Most requests at once from each node.
    pub concurrency: u32,
    /// When it was registered.
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// A push worker with its secret, which is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedPushWorker {
    /// The push worker.
    pub push_worker: PushWorker,
    /// Secret that its requests are signed with.
    pub secret: String,
}

impl std::fmt::Debug for IssuedPushWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedPushWorker").field("push_worker", &self.push_worker).finish_non_exhaustive()
    }
}

/// One exchange with the code of a run, earlier in the same activation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushedTurn {
    /// Messages to the function.
    pub messages: Vec<RawJson>,
    /// Items in its answer.
    pub items: Vec<RawJson>,
}

/// The body of a request to a push worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushedWork<'a> {
    /// How long the function may begin effects, counted from when the request arrives.
    pub hold_for: DurationText,
    /// When it may begin no more effects at the latest, by the clock on the wall.
    pub not_after: String,
    /// Earlier exchanges about the same activation, the first one with `activate`.
    pub turns: &'a [PushedTurn],
    /// Messages that are new.
    pub messages: &'a [RawJson],
}

/// The response of a push worker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushAnswer {
    /// Items of the run, in order.
    #[serde(default)]
    pub items: Vec<RawJson>,
    /// Results of tasks and actions.
    #[serde(default)]
    pub results: Vec<RawJson>,
}
