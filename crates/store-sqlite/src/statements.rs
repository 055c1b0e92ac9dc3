//! Statements at hand during one transaction.
//!
//! The connection keeps prepared statements by their text, which it hashes whenever one is taken and given back. In a
//! batch the same few come up hundreds of times, so they are taken once and given back when the batch is over.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use rusqlite::{CachedStatement, Connection};

pub(crate) struct Statements<'c> {
    connection: &'c Connection,
    /// Those not in use, the latest used last.
    idle: RefCell<Vec<(&'static str, CachedStatement<'c>)>>,
}

impl<'c> Statements<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Statements { connection, idle: RefCell::default() }
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// A statement from `sql/`; it comes back when it is dropped.
    pub(crate) fn take(&self, sql: &'static str) -> rusqlite::Result<Prepared<'_, 'c>> {
        let mut idle = self.idle.borrow_mut();
        let statement = match idle.iter().rposition(|(text, _)| std::ptr::eq(*text, sql) || *text == sql) {
            Some(place) => idle.swap_remove(place).1,
            None => self.connection.prepare_cached(sql)?,
        };
        Ok(Prepared { home: self, sql, statement: Some(statement) })
    }
}

/// A statement in use.
pub(crate) struct Prepared<'s, 'c> {
    home: &'s Statements<'c>,
    sql: &'static str,
    /// Always there until it is dropped.
    statement: Option<CachedStatement<'c>>,
}

impl<'c> Deref for Prepared<'_, 'c> {
    type Target = CachedStatement<'c>;

    fn deref(&self) -> &Self::Target {
        self.statement.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for Prepared<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.statement.as_mut().expect("there until it is dropped")
    }
}

impl Drop for Prepared<'_, '_> {
    fn drop(&mut self) {
        if let Some(statement) = self.statement.take() {
            self.home.idle.borrow_mut().push((self.sql, statement));
        }
    }
}
