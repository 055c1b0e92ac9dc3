//! The SQLite store does what every store must do.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hapax_engine::clock::ManualClock;
use hapax_engine::model::Failure;
use hapax_store_conformance::{Candidate, UserRow, UserTables};
use hapax_store_sqlite::rusqlite::{Connection, params};
use hapax_store_sqlite::{SqliteOptions, SqliteStore, SqliteWork};
use serde_json::value::RawValue;

/// Tables of the user's in the same file, written by a connection of the user's own.
#[derive(Debug)]
struct Tables(PathBuf);

impl Tables {
    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.0).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
    }
}

#[async_trait]
impl UserTables for Tables {
    async fn create_table(&self, table: &str) {
        let tables = format!(
            "CREATE TABLE IF NOT EXISTS {table} (
                id TEXT PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL, updated_at TEXT NOT NULL, total INTEGER NOT NULL
            );
            CREATE TABLE IF NOT EXISTS written (text TEXT NOT NULL)"
        );
        self.connect().execute_batch(&tables).unwrap();
    }

    async fn put_row(&self, table: &str, row: UserRow) {
        let UserRow { id, status, version, updated_at, total } = row;
        let put = format!("INSERT OR REPLACE INTO {table} VALUES (?1, ?2, ?3, ?4, ?5)");
        let version = i64::try_from(version).unwrap();
        self.connect().execute(&put, params![id, status, version, updated_at.to_string(), total]).unwrap();
    }

    fn writing(&self, text: &str, output: &str, fails: bool) -> Option<Box<dyn Any + Send + Sync>> {
        let (text, output) = (text.to_owned(), output.to_owned());
        Some(Box::new(SqliteWork::new(move |connection| {
            connection.execute("INSERT INTO written VALUES (?1)", [&text])?;
            match fails {
                true => Err(Failure::permanent("it fails after its write")),
                // As it is spelled.
                false => serde_json::from_str::<Box<RawValue>>(&output).map_err(Failure::permanent),
            }
        })))
    }

    async fn written(&self) -> Vec<String> {
        let connection = self.connect();
        let mut list = connection.prepare("SELECT text FROM written ORDER BY rowid").unwrap();
        list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

async fn make_store(clock: Arc<ManualClock>) -> Candidate {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let store = SqliteStore::open(&file, SqliteOptions::default().clock(clock)).await.unwrap();
    Candidate::with_guard(store, folder).with_tables(Tables(file))
}

hapax_store_conformance::conformance_suite!(make_store);
hapax_store_conformance::differential_suite!(make_store);
hapax_store_conformance::interleaving_suite!(make_store);
