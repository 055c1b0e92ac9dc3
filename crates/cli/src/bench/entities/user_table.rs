//! A table of the user's in the measured database, whose rows are entities.

use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::Connection;
use tokio_postgres::{Client, NoTls};

use crate::bench::place::BenchStore;

const ON_SQLITE: &str = "bench_bills";
const ON_POSTGRES: &str = "public.bench_bills";
/// How long a write waits for one of the store's.
const PATIENCE: Duration = Duration::from_secs(30);

/// The table, and a connection of the user's own to it.
pub(super) enum UserTable {
    Sqlite(Connection),
    Postgres(Client),
}

impl UserTable {
    /// Makes the table; `None` if the store lies in memory, where nobody has tables.
    pub(super) async fn prepare(place: &BenchStore) -> Result<Option<UserTable>> {
        let in_the_way = |table| format!("{table} cannot be made; drop it if it is of an earlier benchmark");
        if let Some(file) = place.url().strip_prefix("sqlite:") {
            let connection = Connection::open(file)?;
            connection.busy_timeout(PATIENCE)?;
            let make = format!(
                "CREATE TABLE {ON_SQLITE} (id TEXT PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL,
                    updated_at TEXT NOT NULL) WITHOUT ROWID"
            );
            connection.execute_batch(&make).with_context(|| in_the_way(ON_SQLITE))?;
            return Ok(Some(UserTable::Sqlite(connection)));
        }
        if !place.is_postgres() {
            return Ok(None);
        }
        let (client, connection) = tokio_postgres::connect(place.url(), NoTls).await?;
        // It ends with its client.
        tokio::spawn(connection);
        let make = format!(
            "CREATE TABLE {ON_POSTGRES} (id text PRIMARY KEY, status text NOT NULL, version int8 NOT NULL,
                updated_at timestamptz NOT NULL)"
        );
        client.batch_execute(&make).await.with_context(|| in_the_way(ON_POSTGRES))?;
        Ok(Some(UserTable::Postgres(client)))
    }

    /// Its name, as documents give it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            UserTable::Sqlite(_) => ON_SQLITE,
            UserTable::Postgres(_) => ON_POSTGRES,
        }
    }

    /// Adds approved bills.
    pub(super) async fn insert(&self, ids: &[String]) -> Result<()> {
        match self {
            UserTable::Sqlite(connection) => {
                let all = connection.unchecked_transaction()?;
                let insert =
                    format!("INSERT INTO {ON_SQLITE} VALUES (?1, 'approved', 1, '2026-01-01T00:00:00Z')");
                let mut insert = all.prepare(&insert)?;
                for id in ids {
                    insert.execute([id])?;
                }
                drop(insert);
                Ok(all.commit()?)
            }
            UserTable::Postgres(client) => {
                let insert = format!(
                    "INSERT INTO {ON_POSTGRES} SELECT id, 'approved', 1, now() FROM unnest($1::text[]) AS id"
                );
                client.execute(&insert, &[&ids]).await?;
                Ok(())
            }
        }
    }

    /// Drops the table.
    pub(super) async fn finish(self) -> Result<()> {
        match self {
            UserTable::Sqlite(connection) => {
                Ok(connection.execute_batch(&format!("DROP TABLE {ON_SQLITE}"))?)
            }
            UserTable::Postgres(client) => {
                Ok(client.batch_execute(&format!("DROP TABLE {ON_POSTGRES}")).await?)
            }
        }
    }
}
