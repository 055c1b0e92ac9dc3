//! The word that it is time to stop, given once and heard everywhere.

use tokio::sync::watch;

/// Gives the word. Dropping it gives the word too, so that nothing outlives its owner.
#[derive(Debug)]
pub struct Drain(watch::Sender<bool>);

/// Hears the word.
#[derive(Debug, Clone)]
pub struct Draining(watch::Receiver<bool>);

/// Both ends.
pub fn drain() -> (Drain, Draining) {
    let (sender, receiver) = watch::channel(false);
    (Drain(sender), Draining(receiver))
}

impl Drain {
    /// Gives the word: nothing new is taken, what is in flight may end.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Draining {
    /// Was the word given?
    pub fn has_begun(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits for the word.
    pub async fn begun(&mut self) {
        // An error means that the other end is gone, which is the word too.
        let _ = self.0.wait_for(|is_draining| *is_draining).await;
    }
}
