//! The shutdown signal, given once and seen everywhere.

use tokio::sync::watch;

/// Sender of the signal. Dropping it sends the signal too, so no task outlives its owner.
#[derive(Debug)]
pub struct Drain(watch::Sender<bool>);

/// Receiver of the signal.
#[derive(Debug, Clone)]
pub struct Draining(watch::Receiver<bool>);

/// Both ends.
pub fn drain() -> (Drain, Draining) {
    let (sender, receiver) = watch::channel(false);
    (Drain(sender), Draining(receiver))
}

impl Drain {
    /// Sends the signal: no new work starts, and work in flight may end.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Draining {
    /// Returns true if the signal was sent.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits for the signal.
    pub async fn begun(&mut self) {
        // An error means that the sender is gone, which counts as the signal.
        let _ = self.0.wait_for(|is_draining| *is_draining).await;
    }
}
