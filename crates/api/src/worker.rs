//! Workers: the protocol between the server and processes that run workflow code, tasks and entity actions.
//!
//! Messages to a worker, and the items that it hands in, are described in the worker protocol; here are the envelopes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DurationText, RawJson};

/// A workflow that a worker has the code of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerWorkflow {
    /// Name of the workflow.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Version of the code.
    #[serde(default = "first_version")]
    #[schema(minimum = 1)]
    pub version: u32,
}

fn first_version() -> u32 {
    1
}

/// Opens a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenWorkerSession {
    /// Name of the worker, for people.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Name of one worker slot over restarts. A new session replaces the older one of the same instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub instance: Option<String>,
    /// The SDK, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub sdk: Option<String>,
    /// Version of the SDK, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub sdk_version: Option<String>,
    /// The machine, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 255)]
    pub host: Option<String>,
    /// How many attempts, tasks and actions the worker has under way at once.
    #[schema(minimum = 1, maximum = 10000)]
    pub concurrency: u32,
    /// Workflows that it has the code of.
    #[serde(default)]
    pub workflows: Vec<WorkerWorkflow>,
    /// Tasks that documents can call.
    #[serde(default)]
    pub tasks: Vec<String>,
    /// Actions of entity workflows.
    #[serde(default)]
    pub actions: Vec<String>,
}

/// Limits of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerLimits {
    /// Most items of one run in a commit.
    pub max_items: usize,
    /// Largest body of a commit, in bytes.
    pub max_body_bytes: usize,
    /// Most runs in a commit.
    pub max_runs_per_commit: usize,
    /// Most records in `activate` and in one page of a log.
    pub max_log_page: usize,
    /// Most workflows, tasks and actions of a session together.
    pub max_names: usize,
    /// Most results of tasks and actions in a commit.
    pub max_results: usize,
    /// Most operations of one run that are open at once.
    pub max_open_operations: usize,
    /// Most batches of one run that wait to be carried out.
    pub max_waiting_batches: usize,
    /// Most bytes of messages in one answer, beyond the first message.
    pub max_answer_bytes: usize,
    /// Most bytes of messages that wait for the session. Runs that have more are given back.
    pub max_mailbox_bytes: usize,
    /// Longest time that a commit waits for what it asked for.
    pub commit_wait: DurationText,
    /// Longest time that a worker may take from an outcome to its next batch. After it the run is given back.
    pub batch_within: DurationText,
}

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenedWorkerSession {
    /// Id of the session.
    pub session_id: String,
    /// The session is over when nothing was received from the worker for this long.
    pub lease_for: DurationText,
    /// Longest time that a poll waits for a message.
    pub poll_for: DurationText,
    /// Limits of one request.
    pub limits: WorkerLimits,
}

/// Tells another node that a session of an instance was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnnounceWorkerSession {
    /// The session.
    pub session_id: String,
    /// The instance.
    #[schema(min_length = 1, max_length = 128)]
    pub instance: String,
    /// When the session was opened.
    #[schema(format = DateTime)]
    pub opened_at: String,
}

/// Answer of a node about an announced session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnouncedWorkerSession {
    /// False if the node has a newer session of the instance.
    pub is_newest: bool,
}

/// Waits for messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PollWorkerSession {
    /// Number of the request: 1 for the first one of the session, and higher with each one. The same number again gets
    /// the same answer, and a lower one is refused.
    #[schema(minimum = 1)]
    pub sequence: u64,
    /// How many activations, attempts, tasks and actions the worker can begin now.
    pub free: u32,
}

/// Items of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerRunItems {
    /// The run.
    pub run: String,
    /// The activation that the items belong to.
    pub activation: String,
    /// Items, in the order of the code.
    pub items: Vec<RawJson>,
}

/// Hands in what runs did, and results of tasks and actions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitWorkerSession {
    /// Number of the request: 1 for the first one of the session, and higher with each one. The same number again gets
    /// the same answer, a lower one is refused, and nothing is done twice.
    #[schema(minimum = 1)]
    pub sequence: u64,
    /// How many activations, attempts, tasks and actions the worker can begin now.
    pub free: u32,
    /// Items by run.
    #[serde(default)]
    pub runs: Vec<WorkerRunItems>,
    /// Results of tasks and actions, and late outcomes.
    #[serde(default)]
    pub results: Vec<RawJson>,
}

/// Messages for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerMessages {
    /// How long the worker may begin effects, counted from when its request left.
    pub hold_for: DurationText,
    /// The messages, in their order.
    pub messages: Vec<RawJson>,
}

/// One page of the records of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerLogPage {
    /// The records, in the order of the log.
    pub log: Vec<RawJson>,
    /// True if more records follow.
    pub log_more: bool,
}

/// One version of a workflow whose code workers have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerWorkflowVersion {
    /// Name of the workflow.
    pub name: String,
    /// Version of the code.
    pub version: u32,
    /// Open runs of this version, among the newest 1000 open runs of the workflow.
    pub open_runs: usize,
    /// Sessions that offer this version now, the oldest first; at most 100.
    pub sessions: Vec<String>,
    /// Whether old code can be removed.
    pub status: WorkerVersionStatus,
}

/// Removal state of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerVersionStatus {
    /// It is the newest one that is offered: new runs begin with it.
    Current,
    /// It is older, has open runs, and is offered.
    Draining,
    /// It has open runs that wait, because nobody offers it.
    Stranded,
    /// It has no open runs. Its code can be removed.
    Drained,
}

/// One session, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerSession {
    /// Id of the session.
    pub session_id: String,
    /// Name of the worker.
    pub name: String,
    /// Its instance, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Its SDK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
    /// Version of the SDK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk_version: Option<String>,
    /// Its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How many attempts it has under way at once.
    pub concurrency: u32,
    /// Workflows that it has the code of.
    pub workflows: Vec<WorkerWorkflow>,
    /// Tasks that it offers.
    pub tasks: Vec<String>,
    /// Actions that it offers.
    pub actions: Vec<String>,
    /// When it was opened.
    #[schema(format = DateTime)]
    pub opened_at: String,
    /// When the worker was last heard of.
    #[schema(format = DateTime)]
    pub heard_at: String,
    /// Number of runs whose code it has in memory.
    pub run_count: usize,
    /// Attempts, tasks and actions under way.
    pub under_way: usize,
}
