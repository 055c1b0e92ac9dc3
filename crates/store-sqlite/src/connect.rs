//! Connections to the file: one that writes, some that read.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::limits::{BUSY_TIMEOUT, MAX_STATEMENTS};
use crate::user_work::authorize;

/// A connection that writes, without having looked at what the file is.
pub(crate) fn open_for_writing(path: &Path) -> rusqlite::Result<Connection> {
    open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Makes a connection to a file of ours the writer.
pub(crate) fn set_up_writer(connection: &mut Connection) -> rusqlite::Result<()> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        let why = format!("the file stays in journal mode {mode}; it must lie on a local disk");
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
            Some(why),
        ));
    }
    connection.execute_batch(include_str!("../sql/set_up_writer.sql"))?;
    connection.authorizer(Some(authorize))
}

/// How a connection gets at the pages it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// A call of the system and a copy for each: a disk that fails, fails the read.
    Copied,
    /// Through a mapping of the file, which is quicker: a disk that fails, or a file that is cut short, ends the process.
    Mapped,
}

/// A connection that only reads.
pub(crate) fn open_for_reading(path: &Path, pages: Pages) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.execute_batch(include_str!("../sql/set_up_reader.sql"))?;
    if pages == Pages::Mapped {
        connection.execute_batch(include_str!("../sql/set_up_mapping.sql"))?;
    }
    Ok(connection)
}

fn open(path: &Path, mode: OpenFlags) -> rusqlite::Result<Connection> {
    // Each connection is used by one thread at a time, so SQLite need not guard it.
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(MAX_STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // One plan per statement: without this, SQLite compiles some of them anew for each value that is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::migrate::migrate;

    const FILE: &str = "test.db";

    /// A connection that writes to a file of ours.
    fn migrated() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        std::fs::write(&file, "").unwrap();
        let mut connection = open_for_writing(&file).unwrap();
        migrate(&mut connection).unwrap();
        (folder, connection)
    }

    #[test]
    fn the_file_is_mapped_only_by_who_reads_and_says_so() {
        let (folder, mut writer) = migrated();
        set_up_writer(&mut writer).unwrap();
        let reader = |pages| open_for_reading(&folder.path().join(FILE), pages).unwrap();
        let mapped = |connection: &Connection| -> i64 {
            connection.pragma_query_value(None, "mmap_size", |row| row.get(0)).unwrap()
        };
        assert_eq!((mapped(&writer), mapped(&reader(Pages::Copied))), (0, 0));
        assert!(mapped(&reader(Pages::Mapped)) > 0);
    }

    /// With values that change the plan SQLite would compile the statement anew for each of them.
    #[test]
    fn a_statement_is_compiled_once_whatever_is_bound() {
        let (_folder, connection) = migrated();
        for sql in [include_str!("../sql/list_due_runs.sql"), include_str!("../sql/list_runs.sql")] {
            let mut statement = connection.prepare(sql).unwrap();
            for value in 0..10 {
                for parameter in 1..=statement.parameter_count() {
                    statement.raw_bind_parameter(parameter, value).unwrap();
                }
                assert!(statement.raw_query().next().unwrap().is_none());
            }
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }
}
