//! State shared by all requests of a layer.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use hapax_engine::model::RequestScope;
use hapax_engine::store::{RequestKeyStore, Store, StoreError, StoreResult};
use http::request::Parts;
use http::{Extensions, Response};
use tokio::sync::Semaphore;

use crate::caller::{FromExtensions, IdentifyCaller};
use crate::in_flight::InFlightRequests;
use crate::limits::{MAX_UNSAVED, STORE_WAIT};
use crate::observe::{Counters, Event, Observe};
use crate::policy::{KeyNeed, Policy};
use crate::problem::{PlainProblems, Problem, Problems};
use crate::uses::UseCounts;

pub(crate) type KeyNeedRule = dyn Fn(&Parts) -> Option<KeyNeed> + Send + Sync;

#[derive(Clone)]
pub(crate) struct LayerState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) identify: Arc<dyn IdentifyCaller>,
    pub(crate) problems: Arc<dyn Problems>,
    pub(crate) observe: Option<Arc<dyn Observe>>,
    pub(crate) need_of: Option<Arc<KeyNeedRule>>,
    /// True if answers contain secrets that must not be stored.
    pub(crate) is_confidential: bool,
    /// True if services store their answer in the write of their effect ([`crate::FreshKey`]).
    pub(crate) is_in_one_write: bool,
    pub(crate) counters: Arc<Counters>,
    pub(crate) flights: Arc<InFlightRequests>,
    pub(crate) uses: Arc<UseCounts>,
    /// Number of further ends that may be recorded after their answers were sent.
    pub(crate) unsaved: Arc<Semaphore>,
}

impl LayerState {
    pub(crate) fn new(store: Arc<dyn Store>, policy: Policy) -> Self {
        LayerState {
            policy: Arc::new(policy),
            identify: Arc::new(FromExtensions),
            problems: Arc::new(PlainProblems),
            observe: None,
            need_of: None,
            is_confidential: false,
            is_in_one_write: false,
            counters: Arc::default(),
            flights: InFlightRequests::new(),
            uses: UseCounts::new(store.clone()),
            unsaved: Arc::new(Semaphore::new(MAX_UNSAVED)),
            store,
        }
    }

    pub(crate) fn book(&self) -> &dyn RequestKeyStore {
        book(&self.store)
    }

    pub(crate) fn saw(&self, scope: &RequestScope, event: Event) {
        self.counters.count(event);
        if let Some(observe) = &self.observe {
            observe.saw(scope, event);
        }
    }

    pub(crate) fn write(&self, problem: &Problem, extensions: &Extensions) -> Response<Bytes> {
        self.problems.write(problem, extensions)
    }
}

/// The request keys of a store that was checked to support them.
pub(crate) fn book(store: &Arc<dyn Store>) -> &dyn RequestKeyStore {
    store.request_key_store().expect("checked when the layer was made")
}

/// Waits for the store up to the timeout; after it the outcome is unknown.
pub(crate) async fn within_store_wait<T>(call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    let unknown = || StoreError::Unknown(format!("no answer within {STORE_WAIT:?}"));
    tokio::time::timeout(STORE_WAIT, call).await.unwrap_or_else(|_| Err(unknown()))
}
