//! Handle to one run.

use hapax_engine::Error;
use hapax_engine::model::{RunId, RunResult, RunStatus};
#[cfg(feature = "remote")]
use hapax_remote::Remote;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Handle to one run: wait for its result, send it signals, or control it.
#[derive(Debug, Clone)]
pub struct RunHandle {
    at: RunLocation,
    run: RunId,
    /// True if this start created the run. False if the run already existed.
    pub created: bool,
}

#[derive(Debug, Clone)]
enum RunLocation {
    Engine(hapax_engine::RunHandle),
    #[cfg(feature = "remote")]
    Server(Remote),
}

impl RunHandle {
    pub(crate) fn of_engine(handle: hapax_engine::RunHandle) -> Self {
        RunHandle { run: handle.id(), created: handle.created, at: RunLocation::Engine(handle) }
    }

    #[cfg(feature = "remote")]
    pub(crate) fn of_server(remote: Remote, run: RunId, created: bool) -> Self {
        RunHandle { at: RunLocation::Server(remote), run, created }
    }

    /// Id of the run.
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Waits for the run to end and returns its output. A failed or cancelled run is an error.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let run = self.run;
        match self.wait_for_end().await? {
            RunResult::Completed(output) => {
                output.to().map_err(|cause| Error::Mismatch { what: "output", run, cause })
            }
            RunResult::Failed(failure) => Err(Error::Failed { run, failure }),
            RunResult::Cancelled(failure) => Err(Error::Cancelled { run, failure }),
        }
    }

    /// Waits for the run to end and returns its result, whether it completed, failed or was cancelled.
    pub async fn wait_for_end(&self) -> Result<RunResult, Error> {
        match &self.at {
            RunLocation::Engine(handle) => handle.wait_for_end().await,
            #[cfg(feature = "remote")]
            RunLocation::Server(remote) => remote.wait_for_end(self.run).await,
        }
    }

    /// Returns the current status of the run.
    pub async fn status(&self) -> Result<RunStatus, Error> {
        match &self.at {
            RunLocation::Engine(handle) => Ok(handle.view().await?.head.status()),
            #[cfg(feature = "remote")]
            RunLocation::Server(remote) => remote.get_status(self.run).await,
        }
    }

    /// Sends a signal to the run. Returns false if a signal with this id was sent before.
    pub async fn signal<T: Serialize + ?Sized>(
        &self,
        name: &str,
        payload: &T,
        id: Option<&str>,
    ) -> Result<bool, Error> {
        match &self.at {
            RunLocation::Engine(handle) => handle.signal(name, payload, id).await,
            #[cfg(feature = "remote")]
            RunLocation::Server(remote) => {
                remote.signal(self.run, name, &hapax_engine::model::Payload::of(payload)?, id).await
            }
        }
    }

    /// Cancels the run: it undoes its effects where it can and then ends. Returns the status right after.
    pub async fn cancel(&self, reason: &str) -> Result<RunStatus, Error> {
        match &self.at {
            RunLocation::Engine(handle) => Ok(handle.cancel(reason).await?.status()),
            #[cfg(feature = "remote")]
            RunLocation::Server(remote) => remote.cancel(self.run, reason).await,
        }
    }

    /// Pauses the run at the next step boundary. Returns the status right after.
    pub async fn pause(&self) -> Result<RunStatus, Error> {
        match &self.at {
            RunLocation::Engine(handle) => Ok(handle.pause().await?.status()),
            #[cfg(feature = "remote")]
            RunLocation::Server(remote) => remote.pause(self.run).await,
        }
    }

    /// Resumes the run if it is paused. Returns the status right after.
    pub async fn resume(&self) -> Result<RunStatus, Error> {
        match &self.at {
            RunLocation::Engine(handle) => Ok(handle.resume().await?.status()),
            #[cfg(feature = "remote")]
            RunLocation::Server(remote) => remote.resume(self.run).await,
        }
    }

    /// Reopens the run if it failed, from this step on, or from the failed one. Refused if an effect would happen twice.
    pub async fn retry(&self, from: Option<&str>) -> Result<RunStatus, Error> {
        match &self.at {
            RunLocation::Engine(handle) => Ok(handle.retry(from).await?.status()),
            #[cfg(feature = "remote")]
            RunLocation::Server(remote) => remote.retry(self.run, from).await,
        }
    }
}
