//! The conformance suite on the PostgreSQL store.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hapax_engine::clock::ManualClock;
use hapax_engine::model::Failure;
use hapax_postgres_fixture::Database;
use hapax_store_conformance::{Candidate, UserRow, UserTables};
use hapax_store_postgres::tokio_postgres::{self, Client, NoTls};
use hapax_store_postgres::{PostgresOptions, PostgresStore, PostgresWork, migrate};
use serde_json::value::RawValue;

/// More than a busy machine needs for one call: these tests ask what a call decides, not how soon.
const PATIENCE: Duration = Duration::from_secs(60);
/// Table that work in a transaction of the store writes to.
const WRITTEN: &str = "CREATE TABLE written (place bigint GENERATED ALWAYS AS IDENTITY, text text NOT NULL)";

async fn open_store(clock: Arc<ManualClock>, query: &str) -> Candidate {
    let prepare = async |url: String| {
        migrate(&url, &PostgresOptions::default()).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(WRITTEN).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    };
    let database = Arc::new(Database::from_template(prepare).await.unwrap());
    let tables = Tables(database.clone());
    let url = format!("{}{query}", database.url());
    let options = PostgresOptions::default().clock(clock).deadline(PATIENCE);
    let store = PostgresStore::open(&url, options).await.unwrap();
    Candidate::with_guard(store, database).with_tables(tables)
}

async fn make_store(clock: Arc<ManualClock>) -> Candidate {
    open_store(clock, "").await
}

/// A store for many thousand sequential requests, without waiting for the disk.
async fn make_hasty_store(clock: Arc<ManualClock>) -> Candidate {
    open_store(clock, "?options=-c%20synchronous_commit%3Doff").await
}

/// Tables beside the store's, written through connections of their own.
#[derive(Debug)]
struct Tables(Arc<Database>);

impl Tables {
    async fn connect(&self) -> Client {
        self.0.connect().await.unwrap()
    }
}

#[async_trait]
impl UserTables for Tables {
    async fn create_table(&self, table: &str) {
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {table} (id text COLLATE \"C\" PRIMARY KEY, status text NOT NULL, version bigint NOT NULL,
                updated_at timestamptz NOT NULL, total bigint NOT NULL)"
        );
        self.connect().await.batch_execute(&create).await.unwrap();
    }

    async fn put_row(&self, table: &str, row: UserRow) {
        let put = format!(
            "INSERT INTO {table} (id, status, version, updated_at, total)
            VALUES ($1, $2, $3, to_timestamp($4::int8 / 1000.0), $5)
            ON CONFLICT (id) DO UPDATE SET status = excluded.status, version = excluded.version,
                updated_at = excluded.updated_at, total = excluded.total"
        );
        let UserRow { id, status, version, updated_at, total } = row;
        let (version, at) = (version.cast_signed(), updated_at.as_millis());
        self.connect().await.execute(&put, &[&id, &status, &version, &at, &total]).await.unwrap();
    }

    fn writing(&self, text: &str, output: &str, fails: bool) -> Option<Box<dyn Any + Send + Sync>> {
        let text = text.to_owned();
        // With its original spelling.
        let output: Box<RawValue> = serde_json::from_str(output).unwrap();
        Some(Box::new(PostgresWork::new(move |transaction| {
            let (text, output) = (text.clone(), output.clone());
            Box::pin(async move {
                let write = "INSERT INTO written (text) VALUES ($1)";
                transaction.execute(write, &[&text]).await.map_err(Failure::unknown)?;
                match fails {
                    true => Err(Failure::unknown("it is told to fail")),
                    false => Ok(output),
                }
            })
        })))
    }

    async fn written(&self) -> Vec<String> {
        let found = self.connect().await.query("SELECT text FROM written ORDER BY place", &[]).await.unwrap();
        found.iter().map(|row| row.get(0)).collect()
    }
}

hapax_store_conformance::conformance_suite!(make_store);
hapax_store_conformance::differential_suite!(make_hasty_store);
hapax_store_conformance::interleaving_suite!(make_hasty_store);
hapax_store_conformance::entity_suite!(make_store);
