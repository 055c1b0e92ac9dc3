//! Workspaces and credentials. They live in the store's catalog, so all nodes see the same ones.

mod credentials;
mod recovery;
mod sessions;
mod workspaces;

use std::sync::Arc;

use hapax_api::{Code, Problem};
use hapax_engine::model::{
    Actor, CatalogItem, CatalogKind, JournalEntry, JournalEvent, Name, Payload, WorkspaceId,
};
use hapax_engine::store::{Catalog, PutCatalogItem, PutOutcome, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use credentials::hash_as_hex;
pub use credentials::{NewCredential, StoredCredential};
pub use recovery::Recovered;
pub(crate) use sessions::SessionBook;

use crate::errors::problem_of_store;

/// Directory of workspaces and credentials.
#[derive(Debug, Clone)]
pub struct Directory {
    store: Arc<dyn Store>,
}

impl Directory {
    /// The directory in `store`; `None` if the store has no catalog.
    pub fn new(store: Arc<dyn Store>) -> Option<Self> {
        store.catalog()?;
        Some(Directory { store })
    }

    fn catalog(&self) -> &dyn Catalog {
        self.store.catalog().expect("looked at when the directory was made")
    }

    /// Audit entry of a setup change.
    fn set_up(
        &self,
        workspace: &WorkspaceId,
        by: Actor,
        kind: CatalogKind,
        id: &Name,
        change: &str,
    ) -> JournalEntry {
        let what =
            JournalEvent::SetUp { kind: kind.as_str().into(), id: id.to_string(), change: change.into() };
        JournalEntry::on_workspace(workspace.clone(), by, self.store.now(), what)
    }

    async fn put(&self, request: PutCatalogItem) -> Result<PutOutcome, Problem> {
        self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))
    }
}

/// Parses the content of an item.
fn said<T: DeserializeOwned>(item: &CatalogItem) -> Result<T, Problem> {
    item.body.to().map_err(|error| {
        tracing::error!(id = %item.id, %error, "an item of the catalog cannot be read");
        Problem::new(
            Code::StoreBroken,
            "An entry of the catalog cannot be read. Report `traceId` to the operator.",
        )
    })
}

fn body_of<T: Serialize>(value: &T) -> Result<Payload, Problem> {
    Payload::of(value).map_err(|invalid| crate::errors::problem_of_invalid(&invalid))
}
