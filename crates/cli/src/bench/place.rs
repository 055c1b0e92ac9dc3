//! Where the measured stores lie.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hapax::clock::{Clock, SystemClock};
use hapax::store::Store;
use hapax::{Engine, EngineOptions, open_store};
use tempfile::TempDir;

use crate::output;
use crate::store_url::{is_postgres, without_secrets};

/// Type that `statfs` reports for a file system in memory.
const TMPFS: u64 = 0x0102_1994;

/// Frames of a page and its header that the log holds before it is begun anew.
const FULL_LOG_BYTES: u64 = 4_096 * (4_096 + 24);

/// The store that was asked for, or a folder for new ones.
pub(super) struct BenchStore {
    url: String,
    folder: Option<TempDir>,
}

/// A SQLite file of our own, deleted when it is dropped.
pub(super) struct TempDatabase {
    path: PathBuf,
}

/// An engine on a store, and what is needed to open it again.
pub(super) struct Opened {
    pub(super) engine: Engine,
    pub(super) store: Arc<dyn Store>,
    log: Option<Log>,
}

/// The write-ahead log of a SQLite file. Making it grow costs several times what writing over it costs, so figures are
/// fair only once it has reached the length at which it is begun anew.
#[derive(Debug)]
pub(super) struct Log(PathBuf);

/// A store that can be measured.
pub(super) fn parse_url(url: &str) -> Result<String, String> {
    match url.strip_prefix("sqlite:") {
        Some("") => Err("it lacks the path of a file".into()),
        Some(path) if path.contains('?') => {
            Err("the benchmark writes alone; leave out what comes after the question mark".into())
        }
        Some(_) => Ok(url.to_string()),
        None if url == "memory:" || is_postgres(url) => Ok(url.to_string()),
        None => Err("no such store is known here; use memory: or sqlite:PATH or postgres://…".into()),
    }
}

impl BenchStore {
    pub(super) fn find(asked: Option<&str>) -> Result<BenchStore> {
        if let Some(url) = asked {
            return Ok(BenchStore { url: url.to_string(), folder: None });
        }
        let folder = tempfile::Builder::new().prefix("hapax-bench-").tempdir_in(disk());
        let folder = folder.context("no temporary folder could be made; name a file with --store")?;
        let path = folder.path().join("bench.db");
        Ok(BenchStore { url: format!("sqlite:{}", path.display()), folder: Some(folder) })
    }

    /// Says where the measured store lies, and warns if there is no disk under it.
    pub(super) fn announce(&self) {
        let passing = if self.folder.is_some() { " (deleted afterwards)" } else { "" };
        output::say(&format!("store: {}{passing}", self.shown()));
        if self.path().is_some_and(|path| is_in_memory(path.parent().unwrap_or(path))) {
            output::say("warning: that file lies in memory, so no disk is measured; use --store sqlite:PATH");
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The store's URL, fit to be shown.
    pub(super) fn shown(&self) -> String {
        without_secrets(&self.url)
    }

    pub(super) fn is_sqlite(&self) -> bool {
        self.path().is_some()
    }

    pub(super) fn is_postgres(&self) -> bool {
        is_postgres(&self.url)
    }

    fn path(&self) -> Option<&Path> {
        self.url.strip_prefix("sqlite:").map(Path::new)
    }

    /// The write-ahead log, if the store is a file.
    pub(super) fn log(&self) -> Option<Log> {
        self.path().map(Log::of)
    }

    pub(super) async fn open(&self, options: EngineOptions) -> Result<Opened> {
        Opened::open(&self.url, options).await
    }

    /// A file beside the measured one, on the same disk; `None` if the store is not a file.
    pub(super) fn scratch(&self, name: &str) -> Result<Option<TempDatabase>> {
        let Some(path) = self.path() else { return Ok(None) };
        let scratch = with_ending(path, &format!("-{name}"));
        if scratch.exists() {
            bail!("{} is in the way; move it, or use another store", scratch.display());
        }
        Ok(Some(TempDatabase { path: scratch }))
    }
}

impl TempDatabase {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn url(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }
}

impl Drop for TempDatabase {
    fn drop(&mut self) {
        for ending in ["", "-wal", "-shm", "-owner"] {
            // A file that is not there, or cannot go, is no reason to fail.
            let _ = fs::remove_file(with_ending(&self.path, ending));
        }
    }
}

impl Opened {
    pub(super) async fn open(url: &str, options: EngineOptions) -> Result<Opened> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = open_store(url, clock.clone()).await?;
        let log = url.strip_prefix("sqlite:").map(|path| Log::of(Path::new(path)));
        Ok(Opened { engine: Engine::launch(store.clone(), clock, options)?, store, log })
    }

    /// Stops the engine as a crash would, and opens the store again with a new one.
    pub(super) async fn crash_and_reopen(self, url: &str, options: EngineOptions) -> Result<Opened> {
        self.engine.kill();
        if url == "memory:" {
            let engine = Engine::launch(self.store.clone(), Arc::new(SystemClock::new()), options)?;
            return Ok(Opened { engine, store: self.store, log: None });
        }
        self.store.close().await?;
        drop(self);
        Opened::open(url, options).await
    }

    /// Are the one-time costs of the store paid?
    pub(super) fn is_warm(&self) -> bool {
        self.log.as_ref().is_none_or(Log::has_grown)
    }

    pub(super) async fn close(self) -> Result<()> {
        Ok(self.engine.shutdown(std::time::Duration::from_secs(10)).await?)
    }
}

impl Log {
    pub(super) fn of(file: &Path) -> Log {
        Log(with_ending(file, "-wal"))
    }

    pub(super) fn has_grown(&self) -> bool {
        fs::metadata(&self.0).is_ok_and(|found| found.len() >= FULL_LOG_BYTES)
    }
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_os_string();
    name.push(ending);
    name.into()
}

/// The folder for temporary files, or the current one if those are kept in memory.
fn disk() -> PathBuf {
    let passing = std::env::temp_dir();
    match std::env::current_dir() {
        Ok(current) if is_in_memory(&passing) && !is_in_memory(&current) => current,
        _ => passing,
    }
}

fn is_in_memory(folder: &Path) -> bool {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    rustix::fs::statfs(folder).is_ok_and(|found| found.f_type as u64 == TMPFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_nobody_knows_is_refused_with_a_hint() {
        for url in ["mysql:x", "", "memory", "postgres:x"] {
            assert!(parse_url(url).unwrap_err().contains("use memory: or sqlite:PATH or postgres://"));
        }
        for url in ["sqlite:", "sqlite:x?mode=ro"] {
            assert!(parse_url(url).is_err());
        }
        assert_eq!(parse_url("sqlite:x.db").unwrap(), "sqlite:x.db");
        assert!(parse_url("postgres://u:secret@h/d").is_ok());
    }

    #[test]
    fn a_scratch_file_lies_beside_the_store_and_goes_with_its_companions() {
        let folder = tempfile::tempdir().unwrap();
        let place = BenchStore::find(Some(&format!("sqlite:{}/x.db", folder.path().display()))).unwrap();
        let scratch = place.scratch("ceiling").unwrap().unwrap();
        assert_eq!(scratch.path(), folder.path().join("x.db-ceiling"));
        fs::write(scratch.path(), "").unwrap();
        fs::write(folder.path().join("x.db-ceiling-wal"), "").unwrap();
        assert!(place.scratch("ceiling").is_err());
        drop(scratch);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
