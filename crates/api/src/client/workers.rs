//! Sessions of workers, one method per route.

use super::routes::{Paging, segment, with_query};
use super::sending::Ask;
use super::{Client, ClientError, RequestOptions};
use crate::{
    CommitWorkerSession, CreatePushWorker, IssuedPushWorker, OpenWorkerSession, OpenedWorkerSession, Page,
    PollWorkerSession, PushWorker, WorkerLogPage, WorkerMessages, WorkerSession, WorkerWorkflowVersion,
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

    /// Registers a function that cannot poll. Only this answer shows its secret.
    pub async fn create_push_worker(
        &self,
        asked: &CreatePushWorker,
    ) -> Result<IssuedPushWorker, ClientError> {
        self.call(Ask::change_once("/api/v1/push-workers".into(), asked)?).await
    }

    /// Functions that work is sent to, without their secrets.
    pub async fn list_push_workers(&self, paging: &Paging) -> Result<Page<PushWorker>, ClientError> {
        self.page("/api/v1/push-workers".into(), paging, &[]).await
    }

    /// One push worker, without its secret.
    pub async fn get_push_worker(&self, id: &str) -> Result<PushWorker, ClientError> {
        self.call(Ask::read(format!("/api/v1/push-workers/{}", segment(id)?))).await
    }

    /// Deletes a push worker: it gets no more work.
    pub async fn delete_push_worker(
        &self,
        id: &str,
        options: RequestOptions,
    ) -> Result<PushWorker, ClientError> {
        self.call(Ask::delete(format!("/api/v1/push-workers/{}", segment(id)?), options)?).await
    }

    /// Opens a session.
    pub async fn open_worker_session(
        &self,
        asked: &OpenWorkerSession,
    ) -> Result<OpenedWorkerSession, ClientError> {
        self.call(Ask::change_once("/api/v1/worker-sessions".into(), asked)?).await
    }

    /// Waits for messages. Call it again with the same number if no answer arrives.
    pub async fn poll_worker_session(
        &self,
        session: &str,
        asked: &PollWorkerSession,
    ) -> Result<WorkerMessages, ClientError> {
        self.call(Ask::change_once(path(session, "poll")?, asked)?).await
    }

    /// Hands in what runs did. Call it again with the same number if no answer arrives: nothing is done twice.
    pub async fn commit_worker_session(
        &self,
        session: &str,
        asked: &CommitWorkerSession,
    ) -> Result<WorkerMessages, ClientError> {
        self.call(Ask::change_once(path(session, "commit")?, asked)?).await
    }

    /// Records of a run, behind the first `after`.
    pub async fn read_worker_log(
        &self,
        session: &str,
        run: &str,
        activation: &str,
        after: usize,
    ) -> Result<WorkerLogPage, ClientError> {
        let path = path(session, &format!("runs/{}/log", segment(run)?))?;
        let query = [("activation", activation.to_owned()), ("after", after.to_string())];
        self.call(Ask::read(with_query(path, &query))).await
    }

    /// Ends a session. Its work is free at once.
    pub async fn close_worker_session(&self, session: &str) -> Result<WorkerSession, ClientError> {
        let path = format!("/api/v1/worker-sessions/{}", segment(session)?);
        self.call(Ask::delete(path, RequestOptions::default())?).await
    }
}

fn path(session: &str, verb: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/worker-sessions/{}/{verb}", segment(session)?))
}
