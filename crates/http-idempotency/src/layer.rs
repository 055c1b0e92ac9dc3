//! The layer: its store, its policy and the hooks of a service.

use std::sync::Arc;

use hapax_engine::store::{Store, StoreResult};
use http::request::Parts;
use tower_layer::Layer;

use crate::caller::IdentifyCaller;
use crate::observe::{IdempotencyStats, Observe};
use crate::policy::{KeyNeed, Policy, PolicyError};
use crate::problem::Problems;
use crate::service::Idempotency;
use crate::shared::Shared;

/// Puts services under the contract of `Idempotency-Key`. Its copies share what they know, so one layer serves many routes.
#[derive(Clone)]
pub struct IdempotencyLayer {
    shared: Arc<Shared>,
}

/// Why there can be no such layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// The store has no place for the keys of requests.
    #[error("this store keeps no request keys; use one that does, such as the memory or the SQLite store")]
    NoKeyBook,
    /// The policy cannot be kept.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl IdempotencyLayer {
    /// A layer that keeps keys in `store` by `policy`. Callers are told apart by the `RequestScope` among the extensions of a
    /// request, unless [`IdempotencyLayer::identified_by`] says otherwise.
    pub fn new(store: Arc<dyn Store>, policy: Policy) -> Result<Self, LayerError> {
        policy.check()?;
        if store.request_key_store().is_none() {
            return Err(LayerError::NoKeyBook);
        }
        Ok(IdempotencyLayer { shared: Arc::new(Shared::new(store, policy)) })
    }

    /// Sets how callers are identified.
    pub fn identified_by(self, identify: impl IdentifyCaller) -> Self {
        self.with(|shared| shared.identify = Arc::new(identify))
    }

    /// Sets an observer of every event.
    pub fn observed_by(self, observe: impl Observe) -> Self {
        self.with(|shared| shared.observe = Some(Arc::new(observe)))
    }

    /// Refusals are written by `problems`.
    pub fn refusing_with(self, problems: impl Problems) -> Self {
        self.with(|shared| shared.problems = Arc::new(problems))
    }

    /// Whether a request must have a key is decided by `need_of`; where that says `None`, by the policy. A [`KeyNeed`] among the
    /// extensions of a request goes before both.
    pub fn needed_by(self, need_of: impl Fn(&Parts) -> Option<KeyNeed> + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.need_of = Some(Arc::new(need_of)))
    }

    /// Answers hold secrets, which are given once and lie in no store: of a success the body is not kept, and the same request again is
    /// told 409 `answer_not_kept`. One whose first try vanished is told of the doubt, whatever the policy says of takeovers: what it
    /// made cannot be given again.
    pub fn confidential(self) -> Self {
        self.with(|shared| shared.is_confidential = true)
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        change(&mut shared);
        IdempotencyLayer { shared: Arc::new(shared) }
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// Counts of requests with keys in this process.
    pub fn stats(&self) -> IdempotencyStats {
        self.shared.counters.read()
    }

    /// How many operations this process works on.
    pub fn in_flight(&self) -> usize {
        self.shared.flights.count()
    }

    /// Waits until this process works on no operation and everything counted is written. To be called when a server stops, after it
    /// has stopped taking requests in: operations go on without their callers.
    pub async fn drain(&self) -> StoreResult<()> {
        self.shared.flights.until_none().await;
        self.flush().await
    }

    /// Writes how often keys came again, which otherwise happens once a second.
    pub async fn flush(&self) -> StoreResult<()> {
        self.shared.uses.flush().await
    }
}

impl std::fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyLayer").field("policy", &self.shared.policy).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, self.shared.clone())
    }
}
