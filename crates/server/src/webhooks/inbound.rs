//! Incoming webhooks: verified sources, events accepted once, and their actions.
//!
//! A webhook is verified on its raw bytes ([`verify`]), stored ([`intake`]), and only then answered
//! with a 2xx. [`act`] executes its actions. They can be repeated without a second effect, so if a
//! process dies in between, [`sweep`] finishes the work.

mod act;
mod change;
mod intake;
mod log;
mod outcome;
mod source;
mod sources;
mod sweep;
mod verify;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use hapax_api::{Code, Problem};
use hapax_documents::HostServices;
use hapax_engine::Engine;
use hapax_engine::model::{Name, Timestamp, WorkspaceId};
use hapax_engine::store::{Catalog, Store, WebhookStore};

use crate::catalog_watcher::LastFullRead;
use crate::definitions::Definitions;
use crate::metrics::Metrics;
use crate::rate_limit::FailedAuth;

pub(crate) use change::Uploading;
pub(crate) use intake::{IntakeResult, ReceivedRequest, SourceAddress};
pub(crate) use log::{EventFilter, event_with_body_to_api, shown};
pub(crate) use verify::DISBELIEVED;

use source::StoredSource;
use verify::Decoy;

/// Incoming webhooks of this node.
pub(crate) struct InboundWebhooks {
    engine: Engine,
    store: Arc<dyn Store>,
    definitions: Arc<Definitions>,
    services: Arc<HostServices>,
    metrics: Arc<Metrics>,
    known: RwLock<KnownSources>,
    last_read: LastFullRead,
    /// Start of the next sweep.
    swept: Mutex<Option<(Timestamp, u64)>>,
    /// Failed verifications by address.
    strangers: FailedAuth,
    decoy: Decoy,
}

/// The sources that this node knows.
#[derive(Default)]
struct KnownSources {
    by_id: HashMap<Name, Arc<StoredSource>>,
    by_name: HashMap<(WorkspaceId, String), Name>,
}

impl InboundWebhooks {
    /// Incoming webhooks over this store; `services` provide the secrets of sources.
    pub(crate) fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        definitions: Arc<Definitions>,
        services: Arc<HostServices>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(InboundWebhooks {
            engine,
            store,
            definitions,
            services,
            metrics,
            known: RwLock::default(),
            last_read: LastFullRead::default(),
            swept: Mutex::default(),
            strangers: FailedAuth::default(),
            decoy: Decoy::default(),
        })
    }

    fn catalog(&self) -> &dyn Catalog {
        self.store.catalog().expect("looked at when the server was made")
    }

    fn book(&self) -> Result<&dyn WebhookStore, Problem> {
        self.store.webhook_store().ok_or_else(|| {
            let detail = "This store keeps no webhooks; use the SQLite or the PostgreSQL store.";
            Problem::new(Code::StoreRefused, detail)
        })
    }
}

impl std::fmt::Debug for InboundWebhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InboundWebhooks").field("known", &self.count()).finish_non_exhaustive()
    }
}
