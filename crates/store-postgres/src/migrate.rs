//! Bringing the tables up to date.

use hapax_engine::store::SchemaState;
use tokio_postgres::{Client, Config};

use crate::connect::{configure, connect, place};
use crate::open_error::OpenError;
use crate::options::PostgresOptions;

/// 'HAPX': held by whoever migrates.
const MIGRATION_LOCK: i64 = 0x4841_5058;

/// Name and text. Each brings the tables from the version before to its own, which is its place counted from 1.
const MIGRATIONS: &[(&str, &str)] =
    &[("0001_runs_steps_keys", include_str!("../migrations/0001_runs_steps_keys.sql"))];

/// The version this program works with.
pub(crate) const KNOWN_VERSION: i32 = MIGRATIONS.len() as i32;

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
    let config = configure(url, options)?;
    let mut client = connect(&config).await?;
    apply(&mut client, &config).await
}

/// Looks how far the tables of a database are behind; changes nothing.
pub async fn find_schema(url: &str, options: &PostgresOptions) -> Result<SchemaState, OpenError> {
    let config = configure(url, options)?;
    let client = connect(&config).await?;
    let place = place(&config);
    let found = look(&client).await.map_err(|error| OpenError::from_postgres(&place, &error))?;
    match found > KNOWN_VERSION {
        true => Err(OpenError::Newer { place, found, known: KNOWN_VERSION }),
        false => Ok(SchemaState::new(found, MIGRATIONS.iter().map(|(name, _)| *name))),
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
    let from: i32 = found.map_err(failed)?.get(0);
    if from > KNOWN_VERSION {
        return Err(OpenError::Newer { place, found: from, known: KNOWN_VERSION });
    }
    for ((_, migration), version) in MIGRATIONS.iter().zip(1..).skip(from as usize) {
        transaction.batch_execute(migration).await.map_err(failed)?;
        let insert = include_str!("../sql/insert_schema_version.sql");
        transaction.execute(insert, &[&version]).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)?;
    if from < KNOWN_VERSION {
        tracing::info!(%place, from, to = KNOWN_VERSION, "the tables were brought up to date");
    }
    Ok(Migrated { from, to: KNOWN_VERSION })
}

/// The version of the tables; 0 if there are none. Changes nothing.
pub(crate) async fn look(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let is_there: bool = client.query_one(include_str!("../sql/find_schema_table.sql"), &[]).await?.get(0);
    match is_there {
        false => Ok(0),
        true => Ok(client.query_one(include_str!("../sql/find_schema_version.sql"), &[]).await?.get(0)),
    }
}
