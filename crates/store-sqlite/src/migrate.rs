//! Kinds of files, and migration of the tables.

use hapax_engine::store::SchemaState;
use rusqlite::{Connection, TransactionBehavior};

/// 'HAPX': marks a file of ours; the first migration writes it.
const APPLICATION_ID: i32 = 0x4841_5058;

/// Name and text. Each brings the file from the version before to its own, which is its place counted from 1.
const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_runs_steps_keys", include_str!("../migrations/0001_runs_steps_keys.sql")),
    ("0002_requests_catalog", include_str!("../migrations/0002_requests_catalog.sql")),
    ("0003_promise_keys_webhooks", include_str!("../migrations/0003_promise_keys_webhooks.sql")),
    ("0004_entities_operations", include_str!("../migrations/0004_entities_operations.sql")),
    ("0005_evidence_audit", include_str!("../migrations/0005_evidence_audit.sql")),
    ("0006_effects_of_operations", include_str!("../migrations/0006_effects_of_operations.sql")),
    ("0007_audit_filters", include_str!("../migrations/0007_audit_filters.sql")),
    ("0008_families", include_str!("../migrations/0008_families.sql")),
    ("0009_pending_operations", include_str!("../migrations/0009_pending_operations.sql")),
    ("0010_runs_by_subject", include_str!("../migrations/0010_runs_by_subject.sql")),
];

/// The version this program writes.
pub(crate) const KNOWN_VERSION: i32 = MIGRATIONS.len() as i32;

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing is in it.
    Empty,
    /// A file of ours, at this version.
    Ours { version: i32 },
    /// A database of another program.
    Foreign,
}

/// Looks without changing anything.
pub(crate) fn look(connection: &Connection) -> rusqlite::Result<Kind> {
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let is_empty = !connection.prepare(include_str!("../sql/find_any_table.sql"))?.exists([])?;
    Ok(match application {
        APPLICATION_ID => Kind::Ours { version },
        0 if is_empty && version == 0 => Kind::Empty,
        _ => Kind::Foreign,
    })
}

/// State of a file at `version`.
pub(crate) fn state(version: i32) -> SchemaState {
    SchemaState::new(version, MIGRATIONS.iter().map(|(name, _)| *name))
}

/// Applies the missing migrations, all or nothing. Another process may have done so in the
/// meantime.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let done = usize::try_from(version).unwrap_or(0);
    for (_, migration) in MIGRATIONS.iter().skip(done) {
        transaction.execute_batch(migration)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_migration_writes_its_own_version_and_the_mark_is_there() {
        let mut connection = Connection::open_in_memory().unwrap();
        assert_eq!(look(&connection).unwrap(), Kind::Empty);
        migrate(&mut connection).unwrap();
        assert_eq!(look(&connection).unwrap(), Kind::Ours { version: KNOWN_VERSION });
        migrate(&mut connection).unwrap();
    }

    /// Fault 47: a migration that dies half way leaves nothing behind.
    #[test]
    fn a_migration_that_fails_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE hapax_steps (x)").unwrap();
        assert!(migrate(&mut connection).is_err());
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!((tables, look(&connection).unwrap()), (1, Kind::Foreign));
    }
}
