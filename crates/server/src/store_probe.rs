//! Write probe of the store: it tries a small write every few seconds. A store on a full disk still
//! answers reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use hapax_engine::model::{CatalogKind, Name, Payload, WorkspaceId};
use hapax_engine::store::{PutCatalogItem, PutOutcome, Store, StoreError, StoreResult};
use serde::Serialize;

use crate::identity::INSTALLATION;
use crate::limits::{STORE_PROBE_BYTES, STORE_PROBE_EVERY, STORE_PROBE_PATIENCE};

/// Probes the store.
#[derive(Debug)]
pub(crate) struct StoreProbe {
    store: Arc<dyn Store>,
    /// Did the last write succeed?
    is_writable: AtomicBool,
}

/// Content of the probe write.
#[derive(Serialize)]
struct Probe {
    at: String,
    /// Filler, so that the write needs space.
    padding: String,
}

impl StoreProbe {
    /// The server wrote to the store at launch, so it counts as writable until a write fails.
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(StoreProbe { store, is_writable: AtomicBool::new(true) })
    }

    /// Returns true if the last write succeeded.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable.load(Ordering::Relaxed)
    }

    /// Probes every few seconds, for as long as the probe is in use.
    pub(crate) async fn keep_probing(this: Weak<Self>, pass: impl Fn()) {
        loop {
            tokio::time::sleep(STORE_PROBE_EVERY).await;
            let Some(probe) = this.upgrade() else { return };
            probe.probe().await;
            pass();
        }
    }

    /// Probes now.
    pub(crate) async fn probe(&self) {
        let patient = tokio::time::timeout(STORE_PROBE_PATIENCE, self.write()).await;
        let unanswered = |_| Err(StoreError::Unknown(format!("no answer within {STORE_PROBE_PATIENCE:?}")));
        let written = patient.unwrap_or_else(unanswered);
        let was_writable = self.is_writable.swap(written.is_ok(), Ordering::Relaxed);
        match (was_writable, written) {
            (true, Err(error)) => {
                tracing::error!(%error, "the store takes no writes; this server is not ready")
            }
            (false, Ok(())) => tracing::info!("the store takes writes again"),
            (true, Ok(())) | (false, Err(_)) => {}
        }
    }

    async fn write(&self) -> StoreResult<()> {
        let catalog = self.store.catalog().expect("looked at when the server was made");
        let id = Name::new("setting", "write-probe").expect("a plain word");
        let found = catalog.find_item(CatalogKind::Setting, &id).await?;
        let probe = Probe { at: self.store.now().to_string(), padding: "x".repeat(STORE_PROBE_BYTES) };
        let request = PutCatalogItem {
            workspace: WorkspaceId::new(INSTALLATION).expect("a valid literal"),
            kind: CatalogKind::Setting,
            name: id.to_string(),
            id,
            body: Payload::of(&probe).expect("it is JSON"),
            expected: found.map(|item| item.version),
            note: None,
        };
        match catalog.put_item(request).await? {
            // Another node wrote in between, so the store takes writes.
            PutOutcome::Put(_) | PutOutcome::Exists(_) | PutOutcome::NameTaken(_) | PutOutcome::Stale(_) => {
                Ok(())
            }
            PutOutcome::Missing => Err(StoreError::Broken("the write probe vanished".into())),
        }
    }
}
