//! Migration of the tables.
//!
//! During a rolling upgrade, programs of two versions run side by side: the new one migrates the
//! tables, and the old ones keep working, also after a restart. So a migration adds, and changes
//! nothing that the previous version relies on: it removes no column or table, adds none that must
//! be written, and keeps the view `heads`, which is read by position, as it is. Unused columns and
//! tables are removed one version later.

use hapax_engine::store::SchemaState;
use tokio_postgres::{Client, Config, Row};

use crate::connect::place;
use crate::open_error::OpenError;
use crate::options::PostgresOptions;
use crate::reach::reach;

/// 'HAPX': held during a migration.
const MIGRATION_LOCK: i64 = 0x4841_5058;

/// Migrates the tables from the previous version to its own, which is its position counted from 1.
struct Migration {
    name: &'static str,
    sql: &'static str,
    /// The oldest program version that works with the tables afterwards.
    oldest_program: i32,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        name: "0001_runs_steps_keys",
        sql: include_str!("../migrations/0001_runs_steps_keys.sql"),
        oldest_program: 1,
    },
    Migration {
        name: "0002_requests_catalog",
        sql: include_str!("../migrations/0002_requests_catalog.sql"),
        oldest_program: 1,
    },
    Migration {
        name: "0003_promise_keys_webhooks",
        sql: include_str!("../migrations/0003_promise_keys_webhooks.sql"),
        oldest_program: 2,
    },
    Migration {
        name: "0004_entities_operations",
        sql: include_str!("../migrations/0004_entities_operations.sql"),
        oldest_program: 3,
    },
    Migration {
        name: "0005_evidence_audit",
        sql: include_str!("../migrations/0005_evidence_audit.sql"),
        oldest_program: 4,
    },
    Migration {
        name: "0006_effects_of_operations",
        sql: include_str!("../migrations/0006_effects_of_operations.sql"),
        oldest_program: 4,
    },
    Migration {
        name: "0007_audit_filters",
        sql: include_str!("../migrations/0007_audit_filters.sql"),
        oldest_program: 4,
    },
    Migration {
        name: "0008_families",
        sql: include_str!("../migrations/0008_families.sql"),
        oldest_program: 4,
    },
    Migration {
        name: "0009_runs_by_subject",
        sql: include_str!("../migrations/0009_runs_by_subject.sql"),
        oldest_program: 4,
    },
];

/// The version this program works with.
pub(crate) const KNOWN_VERSION: i32 = MIGRATIONS.len() as i32;

/// Version of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tables {
    /// 0 if there are none.
    pub(crate) version: i32,
    /// Programs that know only older versions cannot use the tables.
    pub(crate) oldest_program: i32,
}

/// Required action for the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaFit {
    /// Nothing.
    Good,
    /// Migrate.
    Older,
    /// The tables are too new for this program.
    Newer,
}

impl Tables {
    /// Compares the tables with a program that knows versions up to `known`.
    pub(crate) fn fit(self, known: i32) -> SchemaFit {
        match self.version {
            version if version < known => SchemaFit::Older,
            version if version > known && self.oldest_program > known => SchemaFit::Newer,
            _ => SchemaFit::Good,
        }
    }
}

/// Result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; 0 if there was none.
    pub from: i32,
    /// The version now.
    pub to: i32,
}

/// Migrates the tables of a database, all or nothing. Any number of nodes may call it at once; one
/// migrates, the others wait.
pub async fn migrate(url: &str, options: &PostgresOptions) -> Result<Migrated, OpenError> {
    let (address, mut client) = reach(url, options).await?;
    apply(&mut client, &address.config).await
}

/// Reads the version of the tables; changes nothing.
pub async fn find_schema(url: &str, options: &PostgresOptions) -> Result<SchemaState, OpenError> {
    let (address, client) = reach(url, options).await?;
    let place = place(&address.config);
    let found = look(&client).await.map_err(|error| OpenError::from_postgres(&place, &error))?;
    match found.fit(KNOWN_VERSION) {
        SchemaFit::Newer => Err(OpenError::Newer { place, found: found.version, known: KNOWN_VERSION }),
        SchemaFit::Good | SchemaFit::Older => {
            let names = MIGRATIONS.iter().map(|migration| migration.name);
            Ok(SchemaState::new(found.version.min(KNOWN_VERSION), names))
        }
    }
}

/// Applies the missing migrations.
pub(crate) async fn apply(client: &mut Client, config: &Config) -> Result<Migrated, OpenError> {
    let place = place(config);
    let failed = |error| OpenError::from_postgres(&place, &error);
    let transaction = client.transaction().await.map_err(failed)?;
    // Waiting for another node, or building an index, may take long.
    let patient = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;";
    transaction.batch_execute(patient).await.map_err(failed)?;
    transaction
        .execute(include_str!("../sql/lock_migrations.sql"), &[&MIGRATION_LOCK])
        .await
        .map_err(failed)?;
    transaction.batch_execute(include_str!("../sql/create_schema.sql")).await.map_err(failed)?;
    let found = transaction.query_one(include_str!("../sql/find_schema_version.sql"), &[]).await;
    let found = read(&found.map_err(failed)?);
    let from = found.version;
    match found.fit(KNOWN_VERSION) {
        SchemaFit::Newer => return Err(OpenError::Newer { place, found: from, known: KNOWN_VERSION }),
        SchemaFit::Good => return Ok(Migrated { from, to: from }),
        SchemaFit::Older => {}
    }
    for (migration, version) in MIGRATIONS.iter().zip(1..).skip(from as usize) {
        transaction.batch_execute(migration.sql).await.map_err(failed)?;
        let insert = include_str!("../sql/insert_schema_version.sql");
        transaction.execute(insert, &[&version, &migration.oldest_program]).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)?;
    tracing::info!(%place, from, to = KNOWN_VERSION, "the tables were migrated");
    Ok(Migrated { from, to: KNOWN_VERSION })
}

fn read(row: &Row) -> Tables {
    Tables { version: row.get(0), oldest_program: row.get(1) }
}

/// Reads the version. Changes nothing.
pub(crate) async fn look(client: &Client) -> Result<Tables, tokio_postgres::Error> {
    let is_there: bool = client.query_one(include_str!("../sql/find_schema_table.sql"), &[]).await?.get(0);
    match is_there {
        false => Ok(Tables { version: 0, oldest_program: 0 }),
        true => Ok(read(&client.query_one(include_str!("../sql/find_schema_version.sql"), &[]).await?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariant 62.
    #[test]
    fn a_program_works_with_newer_tables_as_long_as_they_say_so() {
        let tables = |version, oldest_program| Tables { version, oldest_program };
        assert_eq!(tables(0, 0).fit(4), SchemaFit::Older);
        assert_eq!(tables(3, 2).fit(4), SchemaFit::Older);
        assert_eq!(tables(4, 3).fit(4), SchemaFit::Good);
        assert_eq!(tables(5, 4).fit(4), SchemaFit::Good, "one version older beside the newest");
        assert_eq!(tables(6, 5).fit(4), SchemaFit::Newer);
        assert_eq!(tables(5, 5).fit(4), SchemaFit::Newer);
    }

    #[test]
    fn every_migration_lets_the_version_before_it_go_on() {
        for (migration, version) in MIGRATIONS.iter().zip(1..) {
            let before = (version - 1).max(1);
            assert!((1..=before).contains(&migration.oldest_program), "version {version}");
        }
    }
}
