//! Baseline of a plain PostgreSQL client: the rows that the engine writes, with one transaction for each step, in the usual form and
//! in the fastest there is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hapax::postgres::{PostgresOptions, migrate};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use super::load::{KeySeries, Load};
use super::place::BenchStore;

/// Tables of our own beside the measured ones, dropped afterwards.
const SCHEMA: &str = "hapax_bench_baseline";
/// What a pool of such a client usually has. With 256 callers more connections make it no faster on few cores.
const CONNECTIONS: usize = 32;

/// Run, facts, key and first event.
const START: &str = "
WITH head AS (
    INSERT INTO runs (workspace, workflow, id, version, changed_at, fence, wake_at, arrivals, started_at, lease_owner,
        workflow_version, stalls, generation, status, asked, priority)
    VALUES (1, 1, $1::text::uuid, 1, $2::int8, 1, $2 + 30000, 0, $2, $1::text::uuid, 1, 0, 0, 1, 0, 1)
), facts AS (
    INSERT INTO run_facts (workspace, id, created_at, release_on_failure, key, fingerprint, input)
    VALUES (1, $1::text::uuid, $2, false, $3, sha256($3::text::bytea), $4)
), key AS (
    INSERT INTO keys (workspace, kind, run, first_seen_at, key, fingerprint)
    VALUES (1, 0, $1::text::uuid, $2, $3, sha256($3::text::bytea))
)
INSERT INTO events (workspace, run, version, at, fence, kind) VALUES (1, $1::text::uuid, 1, $2, 1, 0)";

/// The guarded head, and the step.
const STEP: &str = "
WITH head AS (
    UPDATE runs SET version = version + 1, changed_at = $2, token = $2
    WHERE workspace = 1 AND id = $1::text::uuid AND version = $3::int8 AND fence = 1
    RETURNING version
)
INSERT INTO steps (workspace, generation, run, started_at, started_version, changed_version, fence, at, attempts, kind, status,
    step, value)
SELECT 1, 0, $1::text::uuid, $2::int8, version, version, 1, $2, 1, 0, 3, $4, $5 FROM head";

/// The same for the last step, with the result and the last event.
const END: &str = "
WITH head AS (
    UPDATE runs SET version = version + 1, changed_at = $2, token = $2, status = 4, closed_at = $2, wake_at = NULL,
        lease_owner = NULL
    WHERE workspace = 1 AND id = $1::text::uuid AND version = $3::int8 AND fence = 1
    RETURNING version
), result AS (
    INSERT INTO run_results (workspace, run, status, value) SELECT 1, $1::text::uuid, 4, $5 FROM head
), event AS (
    INSERT INTO events (workspace, run, version, at, fence, kind) SELECT 1, $1::text::uuid, version, $2, 1, 4 FROM head
)
INSERT INTO steps (workspace, generation, run, started_at, started_version, changed_version, fence, at, attempts, kind, status,
    step, value)
SELECT 1, 0, $1::text::uuid, $2::int8, version, version, 1, $2, 1, 0, 3, $4, $5 FROM head";

/// The same in the usual form: a statement for each table.
const ADVANCE: &str = "
UPDATE runs SET version = version + 1, changed_at = $2, token = $2
WHERE workspace = 1 AND id = $1::text::uuid AND version = $3::int8 AND fence = 1";
const CLOSE: &str = "
UPDATE runs SET version = version + 1, changed_at = $2, token = $2, status = 4, closed_at = $2, wake_at = NULL, lease_owner = NULL
WHERE workspace = 1 AND id = $1::text::uuid AND version = $3::int8 AND fence = 1";
const INSERT_STEP: &str = "
INSERT INTO steps (workspace, generation, run, started_at, started_version, changed_version, fence, at, attempts, kind, status,
    step, value)
VALUES (1, 0, $1::text::uuid, $2::int8, $3::int8 + 1, $3 + 1, 1, $2, 1, 0, 3, $4, $5)";
const INSERT_RESULT: &str =
    "INSERT INTO run_results (workspace, run, status, value) VALUES (1, $1::text::uuid, 4, $2)";
const INSERT_EVENT: &str = "
INSERT INTO events (workspace, run, version, at, fence, kind) VALUES (1, $1::text::uuid, $3::int8 + 1, $2::int8, 1, 4)";

/// How the client writes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementForm {
    /// BEGIN, a statement for each table, COMMIT: what a program does that was not written for speed alone.
    Transaction,
    /// All in one statement, which is a transaction of its own and one round trip.
    OneStatement,
}

/// A pool of plain connections to the server of the measured store.
pub(super) struct Baseline {
    pool: Arc<Pool>,
}

struct Pool {
    free: Mutex<Vec<Plain>>,
    permits: Semaphore,
}

struct Plain {
    client: Client,
    start: Statement,
    step: Statement,
    end: Statement,
    advance: Statement,
    close: Statement,
    insert_step: Statement,
    insert_result: Statement,
    insert_event: Statement,
}

impl Baseline {
    /// Makes the tables; `None` if the store is not PostgreSQL.
    pub(super) async fn prepare(place: &BenchStore) -> Result<Option<Baseline>> {
        if !place.is_postgres() {
            return Ok(None);
        }
        migrate(place.url(), &PostgresOptions::default().schema(SCHEMA)).await?;
        let mut free = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            free.push(Plain::connect(place.url()).await?);
        }
        let pool = Pool { free: Mutex::new(free), permits: Semaphore::new(CONNECTIONS) };
        Ok(Some(Baseline { pool: Arc::new(pool) }))
    }

    /// Takes `load` from starts to ends, as many runs outstanding.
    pub(super) async fn round(
        &self,
        load: Load,
        keys: &Arc<KeySeries>,
        form: StatementForm,
    ) -> Result<Duration> {
        let next = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..u64::from(load.concurrency).min(load.runs) {
            let (pool, next, keys) = (self.pool.clone(), next.clone(), keys.clone());
            callers.spawn(async move {
                while next.fetch_add(1, Ordering::Relaxed) < load.runs {
                    pool.write_run(load.steps, &keys.next(), form).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(caller) = callers.join_next().await {
            caller??;
        }
        Ok(began.elapsed())
    }

    /// Drops the tables.
    pub(super) async fn finish(self) -> Result<()> {
        let plain = self.pool.free.lock().expect("no holder panics").pop().context("all have come back")?;
        Ok(plain.client.batch_execute(&format!("DROP SCHEMA {SCHEMA} CASCADE")).await?)
    }
}

impl Plain {
    async fn connect(url: &str) -> Result<Plain> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // It ends with its client.
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = {SCHEMA}")).await?;
        Ok(Plain {
            start: client.prepare(START).await?,
            step: client.prepare(STEP).await?,
            end: client.prepare(END).await?,
            advance: client.prepare(ADVANCE).await?,
            close: client.prepare(CLOSE).await?,
            insert_step: client.prepare(INSERT_STEP).await?,
            insert_result: client.prepare(INSERT_RESULT).await?,
            insert_event: client.prepare(INSERT_EVENT).await?,
            client,
        })
    }

    async fn write_step(&self, step: &StepRow<'_>) -> Result<u64, tokio_postgres::Error> {
        let StepRow { run, nth, is_last, name, value } = *step;
        let now = now_ms();
        self.client.batch_execute("BEGIN").await?;
        let head = if is_last { &self.close } else { &self.advance };
        let changed = self.client.execute(head, &[&run, &now, &nth]).await?;
        self.client.execute(&self.insert_step, &[&run, &now, &nth, &name, &value]).await?;
        if is_last {
            self.client.execute(&self.insert_result, &[&run, &value]).await?;
            self.client.execute(&self.insert_event, &[&run, &now, &nth]).await?;
        }
        self.client.batch_execute("COMMIT").await?;
        Ok(changed)
    }
}

/// One step of a run.
#[derive(Clone, Copy)]
struct StepRow<'a> {
    run: &'a str,
    nth: i64,
    is_last: bool,
    name: &'a str,
    value: &'a str,
}

impl Pool {
    async fn write_run(&self, steps: u32, key: &str, form: StatementForm) -> Result<()> {
        let run = hapax::RunId::new(hapax::Timestamp::from_millis(now_ms()));
        let run = format!("{:032x}", run.as_u128());
        let input = "{\"order\":1,\"steps\":5}";
        self.write(async |plain| plain.client.execute(&plain.start, &[&run, &now_ms(), &key, &input]).await)
            .await?;
        for nth in 1..=i64::from(steps) {
            let (name, value) = (format!("step-{nth}"), nth.to_string());
            let is_last = nth == i64::from(steps);
            let row = StepRow { run: &run, nth, is_last, name: &name, value: &value };
            self.write(async |plain| match form {
                StatementForm::Transaction => plain.write_step(&row).await,
                StatementForm::OneStatement => {
                    let statement = if is_last { &plain.end } else { &plain.step };
                    plain.client.execute(statement, &[&run, &now_ms(), &nth, &name, &value]).await
                }
            })
            .await?;
        }
        Ok(())
    }

    /// One transaction on a free connection.
    async fn write(
        &self,
        work: impl AsyncFnOnce(&Plain) -> Result<u64, tokio_postgres::Error>,
    ) -> Result<()> {
        let _permit = self.permits.acquire().await?;
        let plain =
            self.free.lock().expect("no holder panics").pop().context("there is one for each permit")?;
        let written = work(&plain).await;
        self.free.lock().expect("no holder panics").push(plain);
        ensure!(written? == 1, "the guard refused a write of the baseline");
        Ok(())
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
