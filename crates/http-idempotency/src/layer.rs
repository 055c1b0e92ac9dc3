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
use crate::shared::LayerState;

/// Applies the contract of `Idempotency-Key` to services. Clones share their state, so one layer serves many routes.
#[derive(Clone)]
pub struct IdempotencyLayer {
    shared: Arc<LayerState>,
}

/// Reason why a layer cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// The store does not support request keys.
    #[error(
        "this store does not support request keys; use one that does, such as the memory or the SQLite store"
    )]
    NoKeyBook,
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl IdempotencyLayer {
    /// Creates a layer that stores keys in `store` under `policy`. The [`RequestScope`](crate::RequestScope) in a
    /// request's extensions identifies its caller, unless [`IdempotencyLayer::identified_by`] sets another way.
    pub fn new(store: Arc<dyn Store>, policy: Policy) -> Result<Self, LayerError> {
        policy.check()?;
        if store.request_key_store().is_none() {
            return Err(LayerError::NoKeyBook);
        }
        Ok(IdempotencyLayer { shared: Arc::new(LayerState::new(store, policy)) })
    }

    /// Sets how callers are identified.
    pub fn identified_by(self, identify: impl IdentifyCaller) -> Self {
        self.with(|shared| shared.identify = Arc::new(identify))
    }

    /// Sets an observer of every event.
    pub fn observed_by(self, observe: impl Observe) -> Self {
        self.with(|shared| shared.observe = Some(Arc::new(observe)))
    }

    /// Sets the renderer of refusals.
    pub fn refusing_with(self, problems: impl Problems) -> Self {
        self.with(|shared| shared.problems = Arc::new(problems))
    }

    /// Sets whether a request needs a key. If `need_of` returns `None`, the policy decides. A [`KeyNeed`] in the
    /// request's extensions overrides both.
    pub fn needed_by(self, need_of: impl Fn(&Parts) -> Option<KeyNeed> + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.need_of = Some(Arc::new(need_of)))
    }

    /// Marks answers as secrets that must not be stored. The body of a successful answer is not stored, and a repeated
    /// request gets 409 `answer_not_kept`. If the first attempt crashed, a retry gets 409 `request_in_doubt`, whatever
    /// the policy says about takeovers, because its result cannot be returned again.
    pub fn confidential(self) -> Self {
        self.with(|shared| shared.is_confidential = true)
    }

    /// Lets services store their answer in the write of their effect, with a [`FreshKey`](crate::FreshKey) in the
    /// extensions of the request. Only for services whose every effect goes through it or is refused, because nothing
    /// is stored under the key while they run. Has no effect on a confidential layer.
    pub fn in_one_write(self) -> Self {
        self.with(|shared| shared.is_in_one_write = true)
    }

    fn with(self, change: impl FnOnce(&mut LayerState)) -> Self {
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

    /// Number of operations in progress in this process.
    pub fn in_flight(&self) -> usize {
        self.shared.flights.count()
    }

    /// Waits until this process has no operation in progress and all counts are written. Call it when a server stops,
    /// after it has stopped accepting requests: operations continue after their callers disconnect.
    pub async fn drain(&self) -> StoreResult<()> {
        self.shared.flights.until_none().await;
        self.flush().await
    }

    /// Writes the counts of key uses now, instead of at the next second.
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
