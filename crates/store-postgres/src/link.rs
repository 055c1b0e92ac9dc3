//! Executors of statements: a connection of the store, or a transaction that user code shares.

use std::sync::Arc;

use deadpool_postgres::Object;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement, Transaction};

use crate::session::Params;

/// A statement: from a file, or generated for a user's table.
#[derive(Debug, Clone)]
pub(crate) enum Sql {
    Fixed(&'static str),
    Made(Arc<str>),
}

impl Sql {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Sql::Fixed(text) => text,
            Sql::Made(text) => text,
        }
    }
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Sql::Fixed(text)
    }
}

impl From<Arc<str>> for Sql {
    fn from(text: Arc<str>) -> Self {
        Sql::Made(text)
    }
}

/// A connection or a transaction.
#[derive(Clone, Copy)]
pub(crate) enum Link<'c> {
    /// A connection of ours.
    Own(&'c Object),
    /// A transaction of ours, on a connection that user code has used as well.
    Shared(&'c deadpool_postgres::Transaction<'c>),
    /// The user's own transaction, on an unknown connection.
    Foreign(&'c Transaction<'c>),
}

impl Link<'_> {
    /// Prepares a statement: once per connection of the store, and each time on a foreign one,
    /// where it would not be used again.
    pub(crate) async fn prepare(self, sql: &str) -> Result<Statement, Error> {
        match self {
            Link::Own(object) => object.prepare_cached(sql).await,
            Link::Shared(transaction) => transaction.prepare_cached(sql).await,
            Link::Foreign(transaction) => transaction.prepare(sql).await,
        }
    }

    pub(crate) async fn query(
        self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Link::Own(object) => object.query(statement, params).await,
            Link::Shared(transaction) => transaction.query(statement, params).await,
            Link::Foreign(transaction) => transaction.query(statement, params).await,
        }
    }

    /// Returns the number of changed rows.
    pub(crate) async fn execute(self, statement: &Statement, params: Params) -> Result<u64, Error> {
        match self {
            Link::Own(object) => object.execute_raw(statement, params).await,
            Link::Shared(transaction) => transaction.execute_raw(statement, params).await,
            Link::Foreign(transaction) => transaction.execute_raw(statement, params).await,
        }
    }

    pub(crate) async fn batch_execute(self, sql: &'static str) -> Result<(), Error> {
        match self {
            Link::Own(object) => object.batch_execute(sql).await,
            Link::Shared(transaction) => transaction.batch_execute(sql).await,
            Link::Foreign(transaction) => transaction.batch_execute(sql).await,
        }
    }
}
