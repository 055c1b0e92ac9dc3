//! A store under test.

use std::any::Any;
use std::sync::Arc;

use hapax_engine::store::Store;

use crate::UserTables;

/// A fresh store, with everything that must live as long as it does.
#[derive(Debug)]
pub struct Candidate {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tables: Option<Arc<dyn UserTables>>,
    pub(crate) _guard: Box<dyn Any + Send>,
}

impl Candidate {
    /// Wraps a store that needs nothing else.
    pub fn new(store: impl Store) -> Self {
        Candidate::with_guard(store, ())
    }

    /// Wraps a store that others also hold.
    pub fn shared(store: Arc<dyn Store>) -> Self {
        Candidate { store, tables: None, _guard: Box::new(()) }
    }

    /// Wraps a store with what it depends on, such as a temporary directory.
    pub fn with_guard(store: impl Store, guard: impl Any + Send) -> Self {
        Candidate { store: Arc::new(store), tables: None, _guard: Box::new(guard) }
    }

    /// Adds tables that belong to the user.
    #[must_use]
    pub fn with_tables(self, tables: impl UserTables + 'static) -> Self {
        Candidate { tables: Some(Arc::new(tables)), ..self }
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }
}
