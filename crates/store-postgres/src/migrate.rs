//! Bringing the tables up to date.
//!
//! Programs of two versions run side by side while a fleet is renewed: the new one brings the tables up to date, and the old ones
//! go on, also after a restart. So a migration adds and changes nothing that the version before it relies on: no column or table
//! goes, none that is new must be written, and the view `heads`, which is read by place, stays as it is. What has become useless
//! goes one version later.

use hapax_engine::store::SchemaState;
use tokio_postgres::{Client, Config, Row};

use crate::connect::{configure, connect, place};
use crate::open_error::OpenError;
use crate::options::PostgresOptions;

/// 'HAPX': held by whoever migrates.
const MIGRATION_LOCK: i64 = 0x4841_5058;

/// Brings the tables from the version before to its own, which is its place counted from 1.
struct Migration {
    name: &'static str,
    sql: &'static str,
    /// The oldest version of this program that works with the tables afterwards.
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
];

/// The version this program works with.
pub(crate) const KNOWN_VERSION: i32 = MIGRATIONS.len() as i32;

/// The tables as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tables {
    /// 0 if there are none.
    pub(crate) version: i32,
    /// Programs that know older versions only cannot work with them.
    pub(crate) oldest_program: i32,
}

/// What is to be done about tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Nothing.
    Good,
    /// They are to be brought up to date.
    Older,
    /// They are beyond this program.
    Newer,
}

impl Tables {
    /// How they fit a program that knows versions up to `known`.
    pub(crate) fn fit(self, known: i32) -> Fit {
        match self.version {
            version if version < known => Fit::Older,
            version if version > known && self.oldest_program > known => Fit::Newer,
            _ => Fit::Good,
        }
    }
}

/// What bringing a database up to date came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; 0 if there was none.
    pub from: i32,
    /// The version now.
    pub to: i32,
}

/// Brings the tables of a database up to date, all or nothing. Any number of nodes may do so at once; one does it, the others wait.
pub async fn migrate(url: &str, options: &PostgresOptions) -> Result<Migrated, OpenError> {
    let address = configure(url, options)?;
    let mut client = connect(&address).await?;
    apply(&mut client, &address.config).await
}

/// Looks how far the tables of a database are behind; changes nothing.
pub async fn find_schema(url: &str, options: &PostgresOptions) -> Result<SchemaState, OpenError> {
    let address = configure(url, options)?;
    let client = connect(&address).await?;
    let place = place(&address.config);
    let found = look(&client).await.map_err(|error| OpenError::from_postgres(&place, &error))?;
    match found.fit(KNOWN_VERSION) {
        Fit::Newer => Err(OpenError::Newer { place, found: found.version, known: KNOWN_VERSION }),
        Fit::Good | Fit::Older => {
            let names = MIGRATIONS.iter().map(|migration| migration.name);
            Ok(SchemaState::new(found.version.min(KNOWN_VERSION), names))
        }
    }
}

/// Applies what is missing.
pub(crate) async fn apply(client: &mut Client, config: &Config) -> Result<Migrated, OpenError> {
    let place = place(config);
    let failed = |error| OpenError::from_postgres(&place, &error);
    let transaction = client.transaction().await.map_err(failed)?;
    // Waiting for another node, or filling an index, may take its time.
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
        Fit::Newer => return Err(OpenError::Newer { place, found: from, known: KNOWN_VERSION }),
        Fit::Good => return Ok(Migrated { from, to: from }),
        Fit::Older => {}
    }
    for (migration, version) in MIGRATIONS.iter().zip(1..).skip(from as usize) {
        transaction.batch_execute(migration.sql).await.map_err(failed)?;
        let insert = include_str!("../sql/insert_schema_version.sql");
        transaction.execute(insert, &[&version, &migration.oldest_program]).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)?;
    tracing::info!(%place, from, to = KNOWN_VERSION, "the tables were brought up to date");
    Ok(Migrated { from, to: KNOWN_VERSION })
}

fn read(row: &Row) -> Tables {
    Tables { version: row.get(0), oldest_program: row.get(1) }
}

/// Looks at the tables. Changes nothing.
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
        assert_eq!(tables(0, 0).fit(4), Fit::Older);
        assert_eq!(tables(3, 2).fit(4), Fit::Older);
        assert_eq!(tables(4, 3).fit(4), Fit::Good);
        assert_eq!(tables(5, 4).fit(4), Fit::Good, "one version older beside the newest");
        assert_eq!(tables(6, 5).fit(4), Fit::Newer);
        assert_eq!(tables(5, 5).fit(4), Fit::Newer);
    }

    #[test]
    fn every_migration_lets_the_version_before_it_go_on() {
        for (migration, version) in MIGRATIONS.iter().zip(1..) {
            let before = (version - 1).max(1);
            assert!((1..=before).contains(&migration.oldest_program), "version {version}");
        }
    }
}
