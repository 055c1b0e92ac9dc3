//! A handle on one run.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Engine, Error};
use crate::model::{RunHead, RunId, RunResult};
use crate::store::RunView;

/// One run, to wait for or to act upon.
#[derive(Debug, Clone)]
pub struct RunHandle {
    engine: Engine,
    run: RunId,
    head: Option<RunHead>,
    /// Did this start create the run? False: it was there already.
    pub created: bool,
}

impl RunHandle {
    pub(crate) fn new(engine: Engine, run: RunId) -> Self {
        RunHandle { engine, run, head: None, created: false }
    }

    pub(crate) fn started(engine: Engine, head: RunHead, created: bool) -> Self {
        RunHandle { engine, run: head.id(), head: Some(head), created }
    }

    /// Where the run stood when it was started or found by its key; `None` if this handle came about in another way.
    pub fn head(&self) -> Option<&RunHead> {
        self.head.as_ref()
    }

    /// The run's id.
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Waits for the run to end and reads its output.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let run = self.run;
        match self.ending().await? {
            RunResult::Completed(output) => {
                output.to().map_err(|cause| Error::Mismatch { what: "output", run, cause })
            }
            RunResult::Failed(failure) => Err(Error::Failed { run, failure }),
            RunResult::Cancelled(failure) => Err(Error::Cancelled { run, failure }),
        }
    }

    /// Waits for the run to end, however it does.
    pub async fn ending(&self) -> Result<RunResult, Error> {
        let inner = &self.engine.inner;
        let mut waiter = inner.waiters.wait_for(self.run);
        let mut look_after = inner.options.poll_every;
        loop {
            // A run driven here tells us when it ends. One that is not may have ended before we asked, or may end
            // on another node, so it must be looked at.
            if !inner.active.contains(self.run)
                && let Some(result) = self.engine.get(self.run).await?.result
            {
                return Ok(result);
            }
            let look_at = inner.clock.now().plus(look_after);
            // Many may wait long for runs that are parked; they must not read the store to death.
            look_after = (look_after * 2).min(inner.options.poll_every * 16);
            tokio::select! {
                biased;
                told = waiter.told() => match told {
                    Some(result) => return Ok(result),
                    None => waiter = inner.waiters.wait_for(self.run),
                },
                () = inner.clock.sleep_until(look_at) => {}
            }
        }
    }

    /// The run as it stands.
    pub async fn view(&self) -> Result<RunView, Error> {
        self.engine.get(self.run).await
    }

    /// Sends the run a signal; false if one with this id was sent before.
    pub async fn signal<T: Serialize + ?Sized>(
        &self,
        name: &str,
        payload: &T,
        id: Option<&str>,
    ) -> Result<bool, Error> {
        self.engine.signal(self.run, name, payload, id).await
    }

    /// Asks the run to undo what it can and end.
    pub async fn cancel(&self, reason: &str) -> Result<RunHead, Error> {
        self.engine.cancel(self.run, reason).await
    }

    /// Asks the run to stop at the next boundary.
    pub async fn pause(&self) -> Result<RunHead, Error> {
        self.engine.pause(self.run).await
    }

    /// Lets the run go on if it is paused.
    pub async fn resume(&self) -> Result<RunHead, Error> {
        self.engine.resume(self.run).await
    }

    /// Reopens the run if it failed.
    pub async fn retry(&self, from: Option<&str>) -> Result<RunHead, Error> {
        self.engine.retry(self.run, from).await
    }
}
