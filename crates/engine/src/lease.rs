//! Exclusion outside the store, for those who want it: a run is then driven only while a lease of somebody else's making is held, too.
//!
//! It adds nothing to what is written: every write is guarded by the store's own version and fence, with or without it. What
//! it adds is that two nodes that both believe to hold a run (one was paused, or cut off from the store) do not both begin
//! its effects, as long as the outside keeps its promise.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::clock::Clock;
use crate::model::Timestamp;

/// Names one holder of one lease. Whoever asks chooses it, so that a request whose answer was lost can be sent again.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseToken(String);

impl LeaseToken {
    /// One that nobody had before.
    pub fn fresh() -> Self {
        LeaseToken(Uuid::new_v4().simple().to_string())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LeaseToken {
    /// Whoever knows it can give the lease away, so logs do not show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(…)")
    }
}

/// The outside could not be asked; the lease may or may not be held.
#[derive(Debug, thiserror::Error)]
#[error("the lease could not be asked for: {0}")]
pub struct LeaseError(pub String);

/// Time-limited, exclusive holds on names. Each call is atomic.
#[async_trait]
pub trait Lease: fmt::Debug + Send + Sync + 'static {
    /// Takes `name` for `ttl`, unless another token holds it. True: this token holds it.
    async fn acquire(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError>;

    /// Holds on for another `ttl`. False: this token does not hold it (any more).
    async fn renew(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError>;

    /// Gives it back, if this token holds it.
    async fn release(&self, name: &str, token: &LeaseToken) -> Result<(), LeaseError>;
}

/// Leases in this process, exact and gone with it: for tests, and for engines that share one.
#[derive(Debug)]
pub struct MemoryLease {
    clock: Arc<dyn Clock>,
    held: Mutex<HashMap<String, (LeaseToken, Timestamp)>>,
}

impl MemoryLease {
    /// None is held yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        MemoryLease { clock, held: Mutex::default() }
    }

    /// Forgets who holds what, as an outside that loses its memory does.
    pub fn forget_all(&self) {
        self.held.lock().expect("no holder panics").clear();
    }

    fn hold(&self, name: &str, token: &LeaseToken, ttl: Duration, may_be_free: bool) -> bool {
        let now = self.clock.now();
        let mut held = self.held.lock().expect("no holder panics");
        let is_ours = match held.get(name).filter(|(_, until)| *until > now) {
            Some((holder, _)) => holder == token,
            None => may_be_free,
        };
        if is_ours {
            held.insert(name.to_owned(), (token.clone(), now.plus(ttl)));
        }
        is_ours
    }
}

#[async_trait]
impl Lease for MemoryLease {
    async fn acquire(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError> {
        Ok(self.hold(name, token, ttl, true))
    }

    async fn renew(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError> {
        Ok(self.hold(name, token, ttl, false))
    }

    async fn release(&self, name: &str, token: &LeaseToken) -> Result<(), LeaseError> {
        let mut held = self.held.lock().expect("no holder panics");
        if held.get(name).is_some_and(|(holder, _)| holder == token) {
            held.remove(name);
        }
        Ok(())
    }
}
