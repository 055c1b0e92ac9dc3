//! Whether the store takes writes: a small one is tried every few seconds. A store on a full disk answers reads as if nothing was wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use hapax_engine::model::{CatalogKind, Name, Payload, WorkspaceId};
use hapax_engine::store::{PutCatalogItem, PutOutcome, Store, StoreError, StoreResult};
use serde::Serialize;

use crate::identity::INSTALLATION;
use crate::limits::{STORE_PROBE_BYTES, STORE_PROBE_EVERY, STORE_PROBE_PATIENCE};

/// Tries writes.
#[derive(Debug)]
pub(crate) struct StoreProbe {
    store: Arc<dyn Store>,
    /// Was the last one written?
    is_writable: AtomicBool,
}

/// What is written.
#[derive(Serialize)]
struct Probe {
    at: String,
    /// Room that the store has to find.
    padding: String,
}

impl StoreProbe {
    /// The store was written to when the server was started, so it counts as writable until a write fails.
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(StoreProbe { store, is_writable: AtomicBool::new(true) })
    }

    /// Could the last write be made?
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable.load(Ordering::Relaxed)
    }

    /// Tries a write every few seconds, for as long as anybody wants to know.
    pub(crate) async fn keep_probing(this: Weak<Self>) {
        loop {
            tokio::time::sleep(STORE_PROBE_EVERY).await;
            let Some(probe) = this.upgrade() else { return };
            probe.probe().await;
        }
    }

    /// Tries a write now.
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
