//! The word to stop: a first signal asks, a second one insists.

use anyhow::{Context, Result};
use hapax_server::drain::{Draining, drain};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Listens for SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Stopping {
    draining: Draining,
    insisted: watch::Receiver<bool>,
}

impl Stopping {
    pub(crate) fn listen() -> Result<Self> {
        let (drain, draining) = drain();
        let (insist, insisted) = watch::channel(false);
        let about = "signals cannot be listened for";
        let mut interrupt = signal(SignalKind::interrupt()).context(about)?;
        let mut terminate = signal(SignalKind::terminate()).context(about)?;
        let mut hang_up = signal(SignalKind::hangup()).context(about)?;
        tokio::spawn(async move {
            for is_first in [true, false] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hang_up.recv() => {}
                }
                match is_first {
                    true => {
                        crate::output::say("hapax: stopping; a second signal stops at once");
                        drain.begin();
                    }
                    false => drop(insist.send(true)),
                }
            }
        });
        Ok(Stopping { draining, insisted })
    }

    pub(crate) fn draining(&self) -> Draining {
        self.draining.clone()
    }

    /// Waits for the second signal.
    pub(crate) async fn insisted(mut self) {
        if self.insisted.wait_for(|insisted| *insisted).await.is_err() {
            std::future::pending().await
        }
    }
}
