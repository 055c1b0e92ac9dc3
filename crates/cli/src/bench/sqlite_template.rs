//! The rows that the store writes for one run of trivial steps, copied from a file of the store, so
//! that bare SQL can write the same rows.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use hapax::EngineOptions;
use hapax::model::RunId;
use rusqlite::types::Value;
use rusqlite::{Connection, Statement};

use super::load::{Job, KeySeries, Keys, WORKFLOW, take_steps};
use super::place::Opened;

/// Neither the shortest nor the longest number of an order.
const TYPICAL_ORDER: u64 = 10_000;

/// Rows of one run.
#[derive(Debug)]
pub(super) struct Template {
    rows: Vec<TemplateRow>,
}

/// One row, with places for the run's id and key.
#[derive(Debug, Clone)]
pub(super) struct TemplateRow {
    pub(super) table: String,
    columns: Vec<String>,
    values: Vec<Value>,
    /// Where the run's id goes, counted from 0.
    run_at: usize,
    /// Where the run's key goes, if it does.
    key_at: Option<usize>,
}

impl Template {
    /// Makes a file at `path` with one finished run in it, and reads the rows of that run.
    pub(super) async fn make(path: &Path, steps: u32) -> Result<Template> {
        let opened = Opened::open(&format!("sqlite:{}", path.display()), EngineOptions::default()).await?;
        opened.engine.register(WORKFLOW, take_steps)?;
        let key = KeySeries::new(Keys::Ordered).next();
        let job = Job::new(TYPICAL_ORDER, steps);
        let run = opened.engine.start(WORKFLOW, &job).idempotency_key(key).await?;
        run.result::<u64>().await?;
        let id = run.id();
        drop(run);
        opened.close().await?;
        let template = Template { rows: read_rows(&Connection::open(path)?, id)? };
        let found = template.of("hapax_steps").count();
        ensure!(found == steps as usize, "the store wrote {found} step records for {steps} steps");
        Ok(template)
    }

    /// All rows.
    pub(super) fn rows(&self) -> &[TemplateRow] {
        &self.rows
    }

    /// Rows of one table, in the order they were written.
    pub(super) fn of<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a TemplateRow> {
        self.rows.iter().filter(move |row| row.table == table)
    }

    /// The only row of a table.
    pub(super) fn one(&self, table: &'static str) -> Result<&TemplateRow> {
        let mut rows = self.of(table);
        match (rows.next(), rows.next()) {
            (Some(row), None) => Ok(row),
            _ => bail!("the store wrote none or several rows to {table} for one run"),
        }
    }
}

impl TemplateRow {
    /// The statement that writes this row.
    pub(super) fn insert_sql(&self) -> String {
        let places: Vec<String> = (1..=self.columns.len()).map(|place| format!("?{place}")).collect();
        format!("INSERT INTO {} ({}) VALUES ({})", self.table, self.columns.join(", "), places.join(", "))
    }

    /// Writes this row for another run.
    pub(super) fn insert(&self, statement: &mut Statement<'_>, run: RunId, key: &str) -> Result<()> {
        for (place, value) in self.values.iter().enumerate() {
            if place == self.run_at {
                statement.raw_bind_parameter(place + 1, run.as_u128().to_be_bytes())?;
            } else if Some(place) == self.key_at {
                statement.raw_bind_parameter(place + 1, key)?;
            } else {
                statement.raw_bind_parameter(place + 1, value)?;
            }
        }
        ensure!(statement.raw_execute()? == 1, "a row of {} was not written", self.table);
        Ok(())
    }

    pub(super) fn get(&self, column: &str) -> Result<&Value> {
        let place = self.columns.iter().position(|it| it == column);
        let place = place.with_context(|| format!("{} has no column {column}", self.table))?;
        Ok(&self.values[place])
    }

    pub(super) fn integer(&self, column: &str) -> Result<i64> {
        match self.get(column)? {
            Value::Integer(value) => Ok(*value),
            other => bail!("{}.{column} is {other:?}, not a number", self.table),
        }
    }

    pub(super) fn set(&mut self, column: &str, value: impl Into<Value>) -> Result<()> {
        let place = self.columns.iter().position(|it| it == column);
        let place = place.with_context(|| format!("{} has no column {column}", self.table))?;
        self.values[place] = value.into();
        Ok(())
    }
}

/// The column that names the run: `run`, or in the tables of runs themselves `id`.
fn run_column(columns: &[String]) -> &'static str {
    match columns.iter().any(|column| column == "run") {
        true => "run",
        false => "id",
    }
}

/// Every row of every table that names the run, the older versions first.
fn read_rows(connection: &Connection, run: RunId) -> Result<Vec<TemplateRow>> {
    let mut tables =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
    let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for table in tables {
        let mut all = connection.prepare(&format!("SELECT * FROM {table}"))?;
        let columns: Vec<String> = all.column_names().map(str::to_owned).collect();
        let Some(run_at) = columns.iter().position(|column| column == run_column(&columns)) else { continue };
        let key_at = columns.iter().position(|column| column == "key");
        let mut found = all.query([])?;
        while let Some(row) = found.next()? {
            let values: Vec<Value> = (0..columns.len()).map(|at| row.get(at)).collect::<Result<_, _>>()?;
            if values[run_at] == Value::Blob(run.as_u128().to_be_bytes().to_vec()) {
                rows.push(TemplateRow {
                    table: table.clone(),
                    columns: columns.clone(),
                    values,
                    run_at,
                    key_at,
                });
            }
        }
    }
    rows.sort_by_key(|row| {
        row.integer("started_version").or_else(|_| row.integer("version")).unwrap_or_default()
    });
    Ok(rows)
}
