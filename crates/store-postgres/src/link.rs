//! What statements go through: a connection of ours, or a transaction that user code shares.

use std::sync::Arc;

use deadpool_postgres::Object;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement, Transaction};

use crate::session::Params;

/// A statement: out of a file, or made for a table of the user's.
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

/// A way to the server.
#[derive(Clone, Copy)]
pub(crate) enum Link<'c> {
    /// A connection of ours.
    Own(&'c Object),
    /// A transaction of ours, on a connection that user code has used as well.
    Shared(&'c deadpool_postgres::Transaction<'c>),
    /// A transaction of the user's, on a connection that we know nothing about.
    Foreign(&'c Transaction<'c>),
}

impl Link<'_> {
    /// Prepared once for each connection of ours; each time on one that is not, since nobody would ever use it again.
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

    /// Answers how many rows were changed.
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
