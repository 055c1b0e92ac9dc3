//! Sessions of workers, one method per route.

use super::routes::{Paging, segment};
use super::sending::Ask;
use super::{Client, ClientError};
use crate::{
    CommitWorkerSession, OpenWorkerSession, OpenedWorkerSession, Page, PollWorkerSession, WorkerMessages,
    WorkerSession, WorkerWorkflowVersion,
};

impl Client {
    /// Worker sessions of all nodes that answer, the oldest first.
    pub async fn list_worker_sessions(&self, paging: &Paging) -> Result<Page<WorkerSession>, ClientError> {
        self.page("/api/v1/worker-sessions".into(), paging, &[]).await
    }

    /// Versions of workflows whose code workers have, by name and version.
    pub async fn list_worker_workflows(
        &self,
        paging: &Paging,
    ) -> Result<Page<WorkerWorkflowVersion>, ClientError> {
        self.page("/api/v1/worker-workflows".into(), paging, &[]).await
    }

    /// Opens a session.
    pub async fn open_worker_session(
        &self,
        asked: &OpenWorkerSession,
    ) -> Result<OpenedWorkerSession, ClientError> {
        self.call(Ask::change_once("/api/v1/worker-sessions".into(), asked)?).await
    }

    /// Waits for messages. Call it again with the same token if no answer arrives.
    pub async fn poll_worker_session(
        &self,
        session: &str,
        asked: &PollWorkerSession,
    ) -> Result<WorkerMessages, ClientError> {
        self.call(Ask::change_once(path(session, "poll")?, asked)?).await
    }

    /// Hands in what runs did. Call it again with the same token if no answer arrives: nothing is done twice.
    pub async fn commit_worker_session(
        &self,
        session: &str,
        asked: &CommitWorkerSession,
    ) -> Result<WorkerMessages, ClientError> {
        self.call(Ask::change_once(path(session, "commit")?, asked)?).await
    }
}

fn path(session: &str, verb: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/worker-sessions/{}/{verb}", segment(session)?))
}
