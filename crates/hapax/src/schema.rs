//! The tables of the store named by a URL: how far they are behind, and bringing them up to date.

#[cfg(feature = "sqlite")]
use std::path::PathBuf;

use hapax_engine::store::SchemaState;

use crate::open::{OpenError, unknown};

/// Looks how far the tables of the store are behind this program; changes nothing. `None`: the store has no tables.
pub async fn find_schema(url: &str) -> Result<Option<SchemaState>, OpenError> {
    if url == "memory:" {
        return Ok(None);
    }
    #[cfg(feature = "sqlite")]
    if let Some(path) = sqlite_path(url) {
        let path = path?;
        return in_thread(move || hapax_store_sqlite::find_schema(&path)).await.map(Some);
    }
    #[cfg(feature = "postgres")]
    if crate::open::is_postgres(url) {
        let options = hapax_store_postgres::PostgresOptions::default();
        return Ok(Some(hapax_store_postgres::find_schema(url, &options).await?));
    }
    Err(unknown(url))
}

/// Brings the tables of the store up to date, all or nothing, and answers what they lacked before. [`crate::Hapax::open`] does the
/// same; this does it ahead of time, perhaps in the name of another database role, and drives nothing. `None`: the store has
/// no tables.
pub async fn migrate(url: &str) -> Result<Option<SchemaState>, OpenError> {
    let Some(before) = find_schema(url).await? else { return Ok(None) };
    #[cfg(feature = "sqlite")]
    if let Some(path) = sqlite_path(url) {
        use hapax_engine::clock::{Clock, SystemClock};
        let path = path?;
        let now = SystemClock::new().now();
        return in_thread(move || hapax_store_sqlite::migrate(&path, now)).await.map(Some);
    }
    #[cfg(feature = "postgres")]
    if crate::open::is_postgres(url) {
        let options = hapax_store_postgres::PostgresOptions::default();
        let done = hapax_store_postgres::migrate(url, &options).await?;
        // Another node may have been faster with some of them.
        let lacked = usize::try_from(done.to - done.from).unwrap_or(0);
        let skip = before.pending.len().saturating_sub(lacked);
        let pending = before.pending.into_iter().skip(skip).collect();
        return Ok(Some(SchemaState { found: done.from, known: done.to, pending }));
    }
    Ok(Some(before))
}

/// The path of a SQLite URL, whatever else the URL says.
#[cfg(feature = "sqlite")]
fn sqlite_path(url: &str) -> Option<Result<PathBuf, OpenError>> {
    let rest = url.strip_prefix("sqlite:")?;
    let (path, _) = rest.split_once('?').unwrap_or((rest, ""));
    Some(match path {
        "" => Err(unknown(url)),
        path => Ok(path.into()),
    })
}

/// A file may keep us waiting, which must not keep others waiting.
#[cfg(feature = "sqlite")]
async fn in_thread(
    work: impl FnOnce() -> Result<SchemaState, hapax_store_sqlite::OpenError> + Send + 'static,
) -> Result<SchemaState, OpenError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
