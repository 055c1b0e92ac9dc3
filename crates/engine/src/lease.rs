//! Optional external leases: a run is then driven only while a lease from another system is also held.
//!
//! An external lease does not change what is written: the version and fence of the store guard every write
//! anyway. It prevents two nodes that both believe they hold a run (one was paused, or cut off from the
//! store) from both starting its effects, as long as the external system works.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::clock::Clock;
use crate::model::Timestamp;

/// Identifies one holder of one lease. The caller chooses it, so a request whose answer was lost can be sent
/// again.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseToken(String);

impl LeaseToken {
    /// A fresh token.
    pub fn fresh() -> Self {
        LeaseToken(Uuid::new_v4().simple().to_string())
    }

    /// The token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LeaseToken {
    /// Anyone who knows the token can release the lease, so logs do not show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(…)")
    }
}

/// The external system could not be reached. The lease may or may not be held.
#[derive(Debug, thiserror::Error)]
#[error("the lease could not be asked for: {0}")]
pub struct LeaseError(pub String);

/// Time-limited, exclusive leases on names. Each call is atomic.
#[async_trait]
pub trait Lease: fmt::Debug + Send + Sync + 'static {
    /// Takes `name` for `ttl`, unless another token holds it. Returns true if this token holds it.
    async fn acquire(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError>;

    /// Extends the lease by another `ttl`. Returns false if this token does not hold it.
    async fn renew(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError>;

    /// Releases the lease, if this token holds it.
    async fn release(&self, name: &str, token: &LeaseToken) -> Result<(), LeaseError>;
}

/// Leases within this process, for tests and for engines that share one process.
#[derive(Debug)]
pub struct MemoryLease {
    clock: Arc<dyn Clock>,
    held: Mutex<HashMap<String, (LeaseToken, Timestamp)>>,
}

impl MemoryLease {
    /// Creates an empty set of leases.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        MemoryLease { clock, held: Mutex::default() }
    }

    /// Forgets all holders, like an external system that loses its memory.
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
