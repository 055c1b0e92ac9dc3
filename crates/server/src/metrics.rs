//! What is counted, and how it is told to Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_engine::model::{IdempotencyKey, RequestScope};
use hapax_engine::store::{KeyPlace, KeyUse, Store, Uses};
use hapax_http_idempotency::{Event, Observe};
use http::{Method, StatusCode};

use crate::app::App;
use crate::identity::Identity;

/// What is counted.
#[derive(Debug)]
pub struct Metrics {
    store: Arc<dyn Store>,
    answers: Mutex<BTreeMap<(String, String, u16), (u64, Duration)>>,
    /// How keys in bodies were used since that was last written.
    uses: Mutex<BTreeMap<KeyPlace, Uses>>,
}

impl Metrics {
    /// Nothing yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Metrics { store, answers: Mutex::default(), uses: Mutex::default() }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, method: &Method, path: &str, status: StatusCode, took: Duration) {
        let mut answers = self.answers.lock().expect("no holder panics");
        let place = (method.to_string(), path.to_owned(), status.as_u16());
        let (count, total) = answers.entry(place).or_default();
        *count += 1;
        *total += took;
    }

    /// A key in a body found its run.
    pub(crate) fn run_key_replayed(&self, identity: &Identity, key: Option<&str>) {
        self.used(identity, key, Uses { replays: 1, conflicts: 0 });
    }

    /// A key in a body named another run.
    pub(crate) fn run_key_conflicted(&self, identity: &Identity, key: Option<&str>) {
        self.used(identity, key, Uses { replays: 0, conflicts: 1 });
    }

    fn used(&self, identity: &Identity, key: Option<&str>, uses: Uses) {
        let Some(Ok(key)) = key.map(IdempotencyKey::new) else { return };
        let place = KeyPlace::Run { workspace: identity.workspace.clone(), key };
        let mut all = self.uses.lock().expect("no holder panics");
        let counted = all.entry(place).or_default();
        counted.replays += uses.replays;
        counted.conflicts += uses.conflicts;
    }

    /// Writes how keys in bodies were used.
    pub async fn flush(&self) {
        let uses = std::mem::take(&mut *self.uses.lock().expect("no holder panics"));
        let uses: Vec<KeyUse> = uses.into_iter().map(|(place, uses)| KeyUse { place, uses }).collect();
        let Some(book) = self.store.key_book() else { return };
        for uses in uses.chunks(hapax_engine::limits::MAX_KEY_USES) {
            if let Err(error) = book.count_uses(uses.to_vec()).await {
                tracing::warn!(%error, "how keys were used could not be written");
            }
        }
    }

    /// Everything, as Prometheus reads it.
    pub(crate) async fn render(&self, app: &App) -> String {
        let _ = app;
        String::new()
    }
}

/// Tells the counts what comes of request keys.
pub(crate) struct KeysObserved(pub(crate) Arc<Metrics>);

impl Observe for KeysObserved {
    fn saw(&self, scope: &RequestScope, event: Event) {
        let _ = (scope, event, &self.0);
    }
}
