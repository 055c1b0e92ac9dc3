//! Fills a database with runs that have ended, far faster than they could be run.

use std::path::Path;

use anyhow::Result;
use hapax::model::{RunId, Timestamp};
use indicatif::ProgressBar;
use rusqlite::{Connection, Statement};

use super::load::{KeySeries, Keys};
use super::sqlite_template::Template;

/// Runs written in one transaction.
const BATCH: u64 = 10_000;
/// A day like any other, long before the measured runs: 2020-01-01.
const LONG_AGO_MS: i64 = 1_577_836_800_000;

/// Makes a file at `path` and writes `count` finished runs of `steps` steps to it.
pub(super) async fn fill(path: &Path, steps: u32, count: u64, keys: Keys, bar: &ProgressBar) -> Result<()> {
    let template = Template::make(path, steps).await?;
    let connection = Connection::open(path)?;
    // A lost write does not matter: an interrupted fill is deleted.
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;")?;
    let inserts = template.rows().iter().map(|row| connection.prepare(&row.insert_sql()));
    let mut inserts: Vec<Statement<'_>> = inserts.collect::<Result<_, _>>()?;
    let keys = KeySeries::new(keys);
    let mut written = 0;
    while written < count {
        let until = count.min(written + BATCH);
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for number in written..until {
            let at = LONG_AGO_MS + i64::try_from(number)?;
            let (run, key) = (RunId::new(Timestamp::from_millis(at)), keys.nth(number));
            for (row, insert) in template.rows().iter().zip(&mut inserts) {
                row.insert(insert, run, &key)?;
            }
        }
        connection.execute_batch("COMMIT")?;
        bar.inc(until - written);
        written = until;
    }
    drop(inserts);
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}
