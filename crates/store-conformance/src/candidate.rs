//! A store to be judged.

use std::any::Any;
use std::sync::Arc;

use hapax_engine::store::Store;

use crate::UserTables;

/// A fresh store, with what must live as long as it.
#[derive(Debug)]
pub struct Candidate {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tables: Option<Arc<dyn UserTables>>,
    pub(crate) _guard: Box<dyn Any + Send>,
}

impl Candidate {
    /// A store that needs nothing else.
    pub fn new(store: impl Store) -> Self {
        Candidate::with_guard(store, ())
    }

    /// A store that others hold as well.
    pub fn shared(store: Arc<dyn Store>) -> Self {
        Candidate { store, tables: None, _guard: Box::new(()) }
    }

    /// A store and what it stands on, such as a temporary directory.
    pub fn with_guard(store: impl Store, guard: impl Any + Send) -> Self {
        Candidate { store: Arc::new(store), tables: None, _guard: Box::new(guard) }
    }

    /// The same, with tables of the user's beside those of the store.
    #[must_use]
    pub fn with_tables(self, tables: impl UserTables + 'static) -> Self {
        Candidate { tables: Some(Arc::new(tables)), ..self }
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }
}
