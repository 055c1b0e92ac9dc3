//! The shutdown signal, given once and seen everywhere.

use tokio::sync::watch;
use tokio::time::Instant;

/// Sender of the signal. Dropping it sends the signal too, so no task outlives its owner.
#[derive(Debug)]
pub struct Drain(watch::Sender<Option<Instant>>);

/// Receiver of the signal.
#[derive(Debug, Clone)]
pub struct Draining(watch::Receiver<Option<Instant>>);

/// Both ends.
pub fn drain() -> (Drain, Draining) {
    let (sender, receiver) = watch::channel(None);
    (Drain(sender), Draining(receiver))
}

impl Drain {
    /// Sends the signal: no new work starts, and work in flight may end.
    pub fn begin(&self) {
        self.begin_since(Instant::now());
    }

    /// Sends the signal. The time that work in flight has to end counts from `since`.
    pub(crate) fn begin_since(&self, since: Instant) {
        self.0.send_replace(Some(since));
    }
}

impl Draining {
    /// Returns true if the signal was sent.
    pub fn has_begun(&self) -> bool {
        self.0.borrow().is_some() || self.0.has_changed().is_err()
    }

    /// Waits for the signal. Returns the time when work in flight must begin to end.
    pub async fn begun(&mut self) -> Instant {
        // An error means that the sender is gone, which counts as the signal.
        let since = self.0.wait_for(Option::is_some).await.ok().and_then(|since| *since);
        since.unwrap_or_else(Instant::now)
    }
}
