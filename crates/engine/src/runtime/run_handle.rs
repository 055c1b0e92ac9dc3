//! Handle to one run.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Engine, Error};
use crate::model::{RunHead, RunId, RunResult};
use crate::store::RunView;

/// Handle to one run: wait for its result, send it signals, or control it.
///
/// [`Engine::start`] and [`Engine::run`] return one.
#[derive(Debug, Clone)]
pub struct RunHandle {
    engine: Engine,
    run: RunId,
    head: Option<RunHead>,
    /// True if this start created the run. False if the run already existed.
    pub created: bool,
}

impl RunHandle {
    pub(crate) fn new(engine: Engine, run: RunId) -> Self {
        RunHandle { engine, run, head: None, created: false }
    }

    pub(crate) fn started(engine: Engine, head: RunHead, created: bool) -> Self {
        RunHandle { engine, run: head.id(), head: Some(head), created }
    }

    /// State of the run when it was started or found by its key; `None` for a handle from [`Engine::run`].
    pub fn head(&self) -> Option<&RunHead> {
        self.head.as_ref()
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
        let inner = &self.engine.inner;
        let mut waiter = inner.waiters.wait_for(self.run);
        let mut look_after = inner.options.poll_every;
        loop {
            // A run that is active here notifies this waiter. Any other run may have ended earlier or on
            // another node, so its state must be read.
            if !inner.slots.contains(self.run)
                && let Some(result) = self.engine.get(self.run).await?.result
            {
                return Ok(result);
            }
            let look_at = inner.clock.now().plus(look_after);
            // Many callers may wait long for parked runs. Backing off keeps them from overloading the store.
            look_after = (look_after * 2).min(inner.options.poll_every * 16);
            tokio::select! {
                biased;
                notified = waiter.result() => match notified {
                    Some(result) => return Ok(result),
                    None => waiter = inner.waiters.wait_for(self.run),
                },
                () = inner.clock.sleep_until(look_at) => {}
            }
        }
    }

    /// Returns the current state of the run.
    pub async fn view(&self) -> Result<RunView, Error> {
        self.engine.get(self.run).await
    }

    /// Sends a signal to the run. Returns false if a signal with this id was sent before.
    pub async fn signal<T: Serialize + ?Sized>(
        &self,
        name: &str,
        payload: &T,
        id: Option<&str>,
    ) -> Result<bool, Error> {
        self.engine.signal(self.run, name, payload, id).await
    }

    /// Cancels the run: it undoes its effects where it can and then ends.
    pub async fn cancel(&self, reason: &str) -> Result<RunHead, Error> {
        self.engine.cancel(self.run, reason).await
    }

    /// Pauses the run at the next step boundary.
    pub async fn pause(&self) -> Result<RunHead, Error> {
        self.engine.pause(self.run).await
    }

    /// Resumes the run if it is paused.
    pub async fn resume(&self) -> Result<RunHead, Error> {
        self.engine.resume(self.run).await
    }

    /// Reopens the run if it failed. See [`Engine::retry`].
    pub async fn retry(&self, from: Option<&str>) -> Result<RunHead, Error> {
        self.engine.retry(self.run, from).await
    }
}
