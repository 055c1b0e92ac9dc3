//! Tables that belong to the user, in the store's database, for tests of entities.

use std::any::Any;

use async_trait::async_trait;
use hapax_engine::model::Timestamp;

/// Access to the user's tables in the store's database, written as the user's own code would.
#[async_trait]
pub trait UserTables: Send + Sync + std::fmt::Debug {
    /// Creates an empty table with the columns `id` (text, its key), `status`, `version`, `updated_at` and `total` (an
    /// integer), and the table that [`UserTables::writing`] writes to, if it does not exist.
    async fn create_table(&self, table: &str);

    /// Inserts or replaces a row.
    async fn put_row(&self, table: &str, row: UserRow);

    /// Work for a transaction of the store: it writes `text`, which [`UserTables::written`] then returns, and returns
    /// `output`; if `fails` is set, it fails after the write. `None` if the store has no such transactions.
    fn writing(&self, text: &str, output: &str, fails: bool) -> Option<Box<dyn Any + Send + Sync>>;

    /// Committed texts of such work.
    async fn written(&self) -> Vec<String>;
}

/// A row of such a table.
#[derive(Debug, Clone)]
pub struct UserRow {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: String,
    /// Its version.
    pub version: u64,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Another column.
    pub total: i64,
}
