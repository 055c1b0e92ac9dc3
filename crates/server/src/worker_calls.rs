//! Tasks of documents and actions of entity workflows, run by workers.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use hapax_api::RawJson;
use hapax_documents::{TaskCall, TasksElsewhere};
use hapax_engine::Failure;
use hapax_engine::model::{Name, WorkspaceId};
use hapax_engine::runtime::{ActionAnswer, ActionsElsewhere, StepCall};
use hapax_workers::RemoteTask;
use serde_json::Value;

use crate::worker_names::WorkerNames;

/// Work for workers. It does not keep the server alive.
#[derive(Debug, Clone)]
pub(crate) struct WorkerCalls(Weak<WorkerNames>);

impl WorkerCalls {
    pub(crate) fn new(names: &Arc<WorkerNames>) -> Self {
        WorkerCalls(Arc::downgrade(names))
    }

    fn names(&self) -> Result<Arc<WorkerNames>, Failure> {
        self.0
            .upgrade()
            .ok_or_else(|| Failure::retryable("the server is shutting down").with_code("shutting_down"))
    }
}

#[async_trait]
impl TasksElsewhere for WorkerCalls {
    fn tasks(&self, workspace: &WorkspaceId) -> BTreeSet<String> {
        self.0.upgrade().map(|names| names.tasks(workspace)).unwrap_or_default()
    }

    fn has_action(&self, workspace: &WorkspaceId, name: &str) -> bool {
        self.0.upgrade().is_some_and(|names| names.actions(workspace).contains(name))
    }

    async fn call(&self, workspace: &WorkspaceId, call: TaskCall) -> Result<Value, Failure> {
        let names = self.names()?;
        if !names.tasks(workspace).contains(&call.name) {
            // Another node may have it, or a worker that is deployed next.
            let text = format!("no worker has ever offered the task {:?}", call.name);
            return Err(Failure::retryable(text).with_code("unknown_task"));
        }
        let unreadable = |error: serde_json::Error| Failure::permanent(format!("it cannot be sent: {error}"));
        let TaskCall { name, input, key, attempt, fence, hold, is_claimed } = call;
        let input = RawJson::from_value(&input).map_err(unreadable)?;
        let task = RemoteTask { name, input, key, attempt, fence, hold, is_claimed };
        let output = names.workers().call_task(workspace, &task).await?;
        serde_json::from_str(output.text()).map_err(unreadable)
    }
}

#[async_trait]
impl ActionsElsewhere for WorkerCalls {
    async fn act(&self, name: &Name, call: StepCall) -> Result<ActionAnswer, Failure> {
        let names = self.names()?;
        if !names.actions(&call.workspace).contains(name.as_str()) {
            let text =
                format!("no worker has ever offered the action {name}; start one before its steps are taken");
            return Err(Failure::permanent(text).with_code("unknown_action"));
        }
        names.workers().call_action(name, &call).await
    }
}
