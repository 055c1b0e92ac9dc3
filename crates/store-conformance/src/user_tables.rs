//! Tables of the user's beside those of a store, as a test of entities needs them.

use std::any::Any;

use async_trait::async_trait;
use hapax_engine::model::Timestamp;

/// Makes tables of the user's in the database that a store lies in, and writes them as the user's own code would.
#[async_trait]
pub trait UserTables: Send + Sync + std::fmt::Debug {
    /// Makes an empty table with the columns `id` (text, its key), `status`, `version`, `updated_at` and `total` (a whole number), and the one in which
    /// [`UserTables::writing`] writes, if that is not there.
    async fn create_table(&self, table: &str);

    /// Writes a row, whether it is there or not.
    async fn put_row(&self, table: &str, row: UserRow);

    /// Work for a transaction of the store's that writes `text` down, where [`UserTables::written`] finds it, and gives `output`; if `fails`, it fails
    /// after that. `None` if the store has no such transactions.
    fn writing(&self, text: &str, output: &str, fails: bool) -> Option<Box<dyn Any + Send + Sync>>;

    /// What was written so and stands.
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
    /// Something else that is known of it.
    pub total: i64,
}
