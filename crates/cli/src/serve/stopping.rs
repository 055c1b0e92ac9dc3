//! The word to stop: a first signal asks, a second one insists. While the server starts, the first is enough.

use std::future::Future;

use anyhow::{Context, Error, Result};
use hapax_server::drain::{Draining, drain};
use tokio::sync::watch;

use crate::interrupts::{Interrupted, Signals};

/// Listens for SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Stopping {
    draining: Draining,
    asked: watch::Receiver<Option<Interrupted>>,
    insisted: watch::Receiver<Option<Interrupted>>,
}

impl Stopping {
    pub(crate) fn listen() -> Result<Self> {
        let (drain, draining) = drain();
        let (ask, asked) = watch::channel(None);
        let (insist, insisted) = watch::channel(None);
        let mut signals = Signals::listen().context("signals cannot be listened for")?;
        tokio::spawn(async move {
            ask.send_replace(Some(signals.next().await));
            crate::output::say("hapax: stopping; a second signal stops at once");
            drain.begin();
            insist.send_replace(Some(signals.next().await));
        });
        Ok(Stopping { draining, asked, insisted })
    }

    pub(crate) fn draining(&self) -> Draining {
        self.draining.clone()
    }

    /// Does a part of the start, which may take as long as a database is out of reach, unless a signal ends it.
    pub(crate) async fn starting<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            outcome = work => outcome,
            signal = heard(self.asked.clone()) => Err(Error::from(signal).context("stopped before it had started")),
        }
    }

    /// Waits for the second signal.
    pub(crate) async fn insisted(self) -> Interrupted {
        heard(self.insisted).await
    }
}

async fn heard(mut signal: watch::Receiver<Option<Interrupted>>) -> Interrupted {
    match signal.wait_for(Option::is_some).await.map(|heard| *heard) {
        Ok(Some(heard)) => heard,
        Ok(None) | Err(_) => std::future::pending().await,
    }
}
