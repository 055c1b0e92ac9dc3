//! Sessions of workers, for people.

use super::routes::Paging;
use super::{Client, ClientError};
use crate::{Page, WorkerSession};

impl Client {
    /// Worker sessions of the node that answers, the oldest first.
    pub async fn list_worker_sessions(&self, paging: &Paging) -> Result<Page<WorkerSession>, ClientError> {
        self.page("/api/v1/worker-sessions".into(), paging, &[]).await
    }
}
