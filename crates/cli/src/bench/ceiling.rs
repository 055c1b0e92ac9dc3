//! Ceiling of the disk and SQLite: the rows that the engine writes, written by bare batched SQL on one connection.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hapax::model::{RunId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Statement, params};

use super::histogram::Histogram;
use super::load::{KeySeries, Keys, Load, MAX_WARM_UPS, WARM_UP};
use super::place::{BenchStore, Log, TempDatabase};
use super::sqlite_template::{Template, TemplateRow};

/// The store's own settings and guarded updates, so that the comparison is with the same work.
const SETTINGS: &str = include_str!("../../../store-sqlite/sql/set_up_writer.sql");
const ADVANCE: &str = include_str!("../../../store-sqlite/sql/advance_run_steps.sql");
const CLOSE: &str = include_str!("../../../store-sqlite/sql/advance_run_close.sql");
/// The store empties its log at this length, too.
const CHECKPOINT: &str = "PRAGMA wal_autocheckpoint = 4096";
const RUNNING: i64 = 1;

/// A file that bare SQL writes runs into.
pub(super) struct Ceiling {
    connection: Connection,
    rows: RunRows,
    log: Log,
    _file: TempDatabase,
}

/// The rows of one run, sorted by the write they belong to.
struct RunRows {
    start: Vec<TemplateRow>,
    steps: Vec<TemplateRow>,
    end: Vec<TemplateRow>,
    /// The run as it is when it has ended.
    closed: TemplateRow,
}

/// The statements of a round, prepared once.
struct Statements<'c> {
    begin: Statement<'c>,
    commit: Statement<'c>,
    start: Vec<Statement<'c>>,
    step: Statement<'c>,
    end: Vec<Statement<'c>>,
    advance: Statement<'c>,
    close: Statement<'c>,
}

impl Ceiling {
    /// Makes the file beside the measured one; `None` if the store is not SQLite.
    pub(super) async fn prepare(place: &BenchStore, steps: u32) -> Result<Option<Ceiling>> {
        let Some(file) = place.scratch("ceiling")? else { return Ok(None) };
        let template = Template::make(file.path(), steps).await?;
        // One thread uses the connection, so SQLite need not guard it.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file.path(), flags)?;
        connection.execute_batch(SETTINGS)?;
        connection.query_row(CHECKPOINT, [], |_| Ok(()))?;
        let log = Log::of(file.path());
        let ceiling = Ceiling { connection, rows: RunRows::sort(&template)?, log, _file: file };
        ceiling.warm_up()?;
        Ok(Some(ceiling))
    }

    fn warm_up(&self) -> Result<()> {
        let keys = KeySeries::new(Keys::Ordered);
        for _ in 0..MAX_WARM_UPS {
            self.round(WARM_UP, &keys)?;
            if self.log.has_grown() {
                break;
            }
        }
        Ok(())
    }

    /// Writes `load`, one transaction for as many operations as runs would be outstanding.
    pub(super) fn round(&self, load: Load, keys: &KeySeries) -> Result<Duration> {
        let mut sql = Statements::prepare(&self.connection, &self.rows)?;
        let token = fastrand::i64(..);
        let began = Instant::now();
        let mut left = load.runs;
        while left > 0 {
            let wave = left.min(u64::from(load.concurrency));
            left -= wave;
            let now = Timestamp::from_millis(unix_millis());
            let runs: Vec<RunId> = (0..wave).map(|_| RunId::new(now)).collect();
            self.write_wave(&mut sql, &runs, token, keys)?;
        }
        Ok(began.elapsed())
    }

    /// Takes runs from their start to their end, side by side.
    fn write_wave(
        &self,
        sql: &mut Statements<'_>,
        runs: &[RunId],
        token: i64,
        keys: &KeySeries,
    ) -> Result<()> {
        let rows = &self.rows;
        sql.begin.raw_execute()?;
        for run in runs {
            self.start(sql, *run, keys)?;
        }
        sql.commit.raw_execute()?;
        let mut version = rows.start_version()?;
        let (last, others) = rows.steps.split_last().expect("a run has at least one step");
        for step in others {
            let next = step.integer("changed_version")?;
            let guard = GuardedValues::new(&rows.closed, token, version, next)?;
            sql.begin.raw_execute()?;
            for run in runs {
                guard.advance(&mut sql.advance, *run)?;
                step.insert(&mut sql.step, *run, "")?;
            }
            sql.commit.raw_execute()?;
            version = next;
        }
        let guard = GuardedValues::new(&rows.closed, token, version, rows.closed.integer("version")?)?;
        sql.begin.raw_execute()?;
        for run in runs {
            guard.close(&mut sql.close, *run)?;
            last.insert(&mut sql.step, *run, "")?;
            for (row, insert) in rows.end.iter().zip(&mut sql.end) {
                row.insert(insert, *run, "")?;
            }
        }
        sql.commit.raw_execute()?;
        Ok(())
    }

    /// Times commits of one row each.
    pub(super) fn time_commits(&self, commits: u64) -> Result<Histogram> {
        let mut sql = Statements::prepare(&self.connection, &self.rows)?;
        let step = &self.rows.steps[0];
        let mut times = Histogram::new();
        for _ in 0..commits {
            let run = RunId::new(Timestamp::from_millis(unix_millis()));
            let began = Instant::now();
            sql.begin.raw_execute()?;
            step.insert(&mut sql.step, run, "")?;
            sql.commit.raw_execute()?;
            times.record(began.elapsed());
        }
        Ok(times)
    }

    /// Times commits of what a step writes, its record and the run's guarded update, over the steps of `runs` runs.
    pub(super) fn time_steps(&self, runs: u64, keys: &KeySeries) -> Result<Histogram> {
        let mut sql = Statements::prepare(&self.connection, &self.rows)?;
        let mut times = Histogram::new();
        for _ in 0..runs {
            let run = RunId::new(Timestamp::from_millis(unix_millis()));
            sql.begin.raw_execute()?;
            self.start(&mut sql, run, keys)?;
            sql.commit.raw_execute()?;
            let mut version = self.rows.start_version()?;
            for step in &self.rows.steps {
                let next = step.integer("changed_version")?;
                let guard = GuardedValues::new(&self.rows.closed, fastrand::i64(..), version, next)?;
                let began = Instant::now();
                sql.begin.raw_execute()?;
                guard.advance(&mut sql.advance, run)?;
                step.insert(&mut sql.step, run, "")?;
                sql.commit.raw_execute()?;
                times.record(began.elapsed());
                version = next;
            }
        }
        Ok(times)
    }

    /// Times whole runs, one after the other: as many commits as the engine makes for a run, each of what it writes there.
    pub(super) fn time_runs(&self, runs: u64, keys: &KeySeries) -> Result<Histogram> {
        let mut sql = Statements::prepare(&self.connection, &self.rows)?;
        let mut times = Histogram::new();
        for _ in 0..runs {
            let began = Instant::now();
            let run = RunId::new(Timestamp::from_millis(unix_millis()));
            self.write_wave(&mut sql, &[run], fastrand::i64(..), keys)?;
            times.record(began.elapsed());
        }
        Ok(times)
    }

    fn start(&self, sql: &mut Statements<'_>, run: RunId, keys: &KeySeries) -> Result<()> {
        let key = keys.next();
        for (row, insert) in self.rows.start.iter().zip(&mut sql.start) {
            row.insert(insert, run, &key)?;
        }
        Ok(())
    }
}

impl RunRows {
    fn sort(template: &Template) -> Result<RunRows> {
        let closed = template.one("hapax_runs")?.clone();
        let mut begun = closed.clone();
        let mut start = Vec::new();
        let mut end = Vec::new();
        for row in template.rows() {
            match row.table.as_str() {
                "hapax_runs" | "hapax_steps" => {}
                // The first event is the start, the others are the end.
                "hapax_events" if start.iter().all(|row: &TemplateRow| row.table != "hapax_events") => {
                    begun.set("version", row.integer("version")?)?;
                    start.push(row.clone());
                }
                "hapax_events" | "hapax_run_results" => end.push(row.clone()),
                _ => start.push(row.clone()),
            }
        }
        begun.set("token", Value::Null)?;
        begun.set("status", RUNNING)?;
        begun.set("wake_at", closed.integer("changed_at")? + 30_000)?;
        begun.set("lease_owner", vec![7u8; 16])?;
        begun.set("closed_at", Value::Null)?;
        start.insert(0, begun);
        Ok(RunRows { start, steps: template.of("hapax_steps").cloned().collect(), end, closed })
    }

    fn start_version(&self) -> Result<i64> {
        self.start[0].integer("version")
    }
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection, rows: &RunRows) -> Result<Statements<'c>> {
        let inserts = |rows: &[TemplateRow]| -> Result<Vec<Statement<'c>>> {
            rows.iter().map(|row| Ok(connection.prepare(&row.insert_sql())?)).collect()
        };
        Ok(Statements {
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            start: inserts(&rows.start)?,
            step: connection.prepare(&rows.steps[0].insert_sql())?,
            end: inserts(&rows.end)?,
            advance: connection.prepare(ADVANCE)?,
            close: connection.prepare(CLOSE)?,
        })
    }
}

/// Values that a guarded update expects and sets, read once for a whole wave.
struct GuardedValues {
    workspace: i64,
    fence: i64,
    token: i64,
    expected: i64,
    version: i64,
    changed_at: i64,
    stalls: i64,
    generation: i64,
    asked: i64,
    status: i64,
    closed_at: i64,
}

impl GuardedValues {
    fn new(closed: &TemplateRow, token: i64, expected: i64, version: i64) -> Result<GuardedValues> {
        Ok(GuardedValues {
            workspace: closed.integer("workspace")?,
            fence: closed.integer("fence")?,
            token,
            expected,
            version,
            changed_at: closed.integer("changed_at")?,
            stalls: closed.integer("stalls")?,
            generation: closed.integer("generation")?,
            asked: closed.integer("asked")?,
            status: closed.integer("status")?,
            closed_at: closed.integer("closed_at")?,
        })
    }

    fn advance(&self, statement: &mut Statement<'_>, run: RunId) -> Result<()> {
        let changed = statement.execute(params![
            self.workspace,
            run.as_u128().to_be_bytes(),
            self.expected,
            self.fence,
            self.version,
            self.token,
            self.changed_at,
            self.stalls,
        ])?;
        ensure!(changed == 1, "the guarded update changed {changed} rows");
        Ok(())
    }

    fn close(&self, statement: &mut Statement<'_>, run: RunId) -> Result<()> {
        let changed = statement.execute(params![
            self.workspace,
            run.as_u128().to_be_bytes(),
            self.expected,
            self.fence,
            self.version,
            self.token,
            self.changed_at,
            self.stalls,
            self.generation,
            self.asked,
            self.status,
            self.closed_at,
        ])?;
        ensure!(changed == 1, "the guarded end changed {changed} rows");
        Ok(())
    }
}

fn unix_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
