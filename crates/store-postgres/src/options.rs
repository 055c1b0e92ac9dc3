//! How to open a database.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::Clock;

/// How to open a database; the default suits a node of a few cores.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) schema: String,
    pub(crate) application_name: String,
    pub(crate) migrate: bool,
    pub(crate) committers: usize,
    pub(crate) readers: usize,
    pub(crate) transactions: usize,
    pub(crate) deadline: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions {
            clock: None,
            schema: "hapax".into(),
            application_name: "hapax".into(),
            migrate: true,
            committers: 2,
            readers: 4,
            transactions: 4,
            deadline: Duration::from_secs(10),
        }
    }
}

impl PostgresOptions {
    /// The clock that leases, timers and deadlines are judged by, for tests. Without it that is the server's clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The schema that holds the tables; `hapax` unless told otherwise.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = schema.into();
        self
    }

    /// How the connections are named in `pg_stat_activity`.
    #[must_use]
    pub fn application_name(mut self, name: &str) -> Self {
        self.application_name = name.into();
        self
    }

    /// Whether opening brings the tables up to date. Without it a database that is not is refused, and
    /// [`crate::migrate`] does it, perhaps in the name of another role.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// How many connections write at the same time, at least one. While one waits for the server's disk, the next fills its batch.
    #[must_use]
    pub fn committers(mut self, committers: usize) -> Self {
        self.committers = committers;
        self
    }

    /// How many reads may be under way at the same time, at least one.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// How many steps may do work of yours in the store's transaction at the same time, at least one. Their connections are made when
    /// they are first needed.
    #[must_use]
    pub fn transactions(mut self, transactions: usize) -> Self {
        self.transactions = transactions;
        self
    }

    /// How long a call may take. A connection that has not answered by then is closed, and the caller of a write is told that
    /// nobody knows what became of it.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.max(Duration::from_millis(100));
        self
    }
}
