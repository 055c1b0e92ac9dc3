//! Entity workflows: documents in the catalog, known to the engine on every node, with their
//! after-effects.

mod after_effects;
mod change;
mod host;
mod stored;
mod workflows;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use hapax_api::{Code, Problem};
use hapax_documents::HostServices;
use hapax_engine::Engine;
use hapax_engine::model::{Name, TableRef, WorkspaceId};
use hapax_engine::store::{Catalog, Store};
use tokio::sync::Mutex;

use crate::catalog_watcher::LastFullRead;
use crate::options::EntityTables;

pub(crate) use change::Uploading;
pub(crate) use stored::StoredWorkflow;

/// The entity workflows of this node.
pub(crate) struct Entities {
    engine: Engine,
    store: Arc<dyn Store>,
    services: Arc<HostServices>,
    tables: EntityTables,
    /// By id, which follows from the workspace and the type of entity.
    known: RwLock<BTreeMap<Name, Arc<StoredWorkflow>>>,
    /// Serializes loading, so that an older version never replaces a newer one.
    learning: Mutex<()>,
    last_read: LastFullRead,
}

impl Entities {
    /// The entity workflows in `store`. `services` are the host services, and `tables` the allowed
    /// tables.
    pub(crate) fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        services: Arc<HostServices>,
        tables: EntityTables,
    ) -> Arc<Self> {
        let (known, learning, last_read) = (RwLock::default(), Mutex::default(), LastFullRead::default());
        let entities = Arc::new(Entities { engine, store, services, tables, known, learning, last_read });
        entities.engine.set_entity_workflow_loader(Arc::new(workflows::Loader(Arc::downgrade(&entities))));
        entities
    }

    fn catalog(&self) -> &dyn Catalog {
        self.store.catalog().expect("looked at when the server was made")
    }

    /// Checks that the operator has allowed the table for the workspace.
    fn check_allowed(&self, workspace: &WorkspaceId, table: &TableRef) -> Result<(), Problem> {
        match self.tables.allows(workspace, &table.table) {
            true => Ok(()),
            false => Err(Problem::new(
                Code::TableNotAllowed,
                format!(
                    "The operator has not allowed the table {} for the workspace {workspace}; ask them to add `{workspace}:{0}` to \
                     `entity-tables`, or omit `table`.",
                    table.table
                ),
            )
            .with("table", table.table.clone())),
        }
    }
}

impl std::fmt::Debug for Entities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entities").field("known", &self.count()).finish_non_exhaustive()
    }
}
