//! Options for opening a database.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::Clock;

/// Options for opening a database; the default suits a node of a few cores.
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
    /// Sets the clock for leases, timers and deadlines, for tests. The default is the server's
    /// clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the schema of the tables; `hapax` by default.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets the name of the connections in `pg_stat_activity`.
    #[must_use]
    pub fn application_name(mut self, name: &str) -> Self {
        self.application_name = name.into();
        self
    }

    /// Sets whether opening migrates the tables. Without it, a database with old tables is
    /// rejected, and [`crate::migrate`] upgrades it, perhaps under another role.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Sets the number of connections that write at the same time, at least one. While one waits
    /// for the server's disk, the next fills its batch.
    #[must_use]
    pub fn committers(mut self, committers: usize) -> Self {
        self.committers = committers;
        self
    }

    /// Sets the number of concurrent reads, at least one.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets the number of steps that may do your work in the store's transaction at the same time,
    /// at least one. Their connections are opened at the first use.
    #[must_use]
    pub fn transactions(mut self, transactions: usize) -> Self {
        self.transactions = transactions;
        self
    }

    /// Sets the longest time of a call. A connection that has not answered by then is closed, and
    /// the caller of a write gets an unknown outcome.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.max(Duration::from_millis(100));
        self
    }
}
