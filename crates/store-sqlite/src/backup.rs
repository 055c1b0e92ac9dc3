//! Online backup: a consistent copy of a file while a server writes to it.
//!
//! The copy is made page by page under one read transaction, so it shows one moment however long it takes. Writers do not wait. Until the copy is
//! done, the write-ahead log grows.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::connect::{Pages, open_for_reading};
use crate::limits::{BACKUP_PAGES, BUSY_TIMEOUT};
use crate::migrate::{Kind, look};
use crate::open::{check_known, find};
use crate::open_error::OpenError;

/// Reason why a backup or restore failed. Existing files are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// One of the files cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file that would be written is there already.
    #[error("{} is there already: name another file, or move it away; nothing was changed", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The caller stopped it through its progress callback.
    #[error("the copy was broken off; nothing was changed")]
    BrokenOff,
    /// The copy is damaged.
    #[error("the copy of {} is damaged ({detail}): check the disk, keep the file, and look for an older backup", path.display())]
    Damaged {
        /// The file it was copied from.
        path: PathBuf,
        /// SQLite's message.
        detail: String,
    },
}

/// Size and version of a finished copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Size of the copy.
    pub bytes: u64,
    /// Version of the tables in it.
    pub version: i32,
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes copied so far.
    pub done: u64,
    /// Size of the whole file in bytes.
    pub total: u64,
}

/// Receives the progress of a copy. Returning `Break` stops the copy.
pub type OnProgress<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Copies the file at `from`, which a server may be using, into a new file at `to` with mode 0600.
///
/// The copy gets the name `to` once it is complete, flushed and checked. A failure leaves nothing at `to`.
pub fn back_up(from: &Path, to: &Path, progress: &mut OnProgress<'_>) -> Result<Copied, BackupError> {
    refuse_existing(to)?;
    let unfinished = TemporaryBackup::beside(to, "unfinished");
    let copied = copy(from, &unfinished.path, progress)?;
    // A hard link fails if the name is taken; a rename would replace the other file.
    match std::fs::hard_link(&unfinished.path, to) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(BackupError::Exists { path: to.to_owned() });
        }
        // Not every file system has hard links.
        Err(_) => {
            refuse_existing(to)?;
            std::fs::rename(&unfinished.path, to).map_err(|error| OpenError::from_io(to, &error))?;
        }
    }
    flush_folder(to)?;
    Ok(copied)
}

/// Copies all pages of `from` into a new file, and checks the copy.
pub(crate) fn copy(from: &Path, to: &Path, progress: &mut OnProgress<'_>) -> Result<Copied, BackupError> {
    let from = find(from)?.ok_or_else(|| OpenError::Missing { path: from.to_owned() })?;
    let failed = |error| BackupError::Open(OpenError::from_sqlite(&from, &error));
    let source = open_for_reading(&from, Pages::Copied).map_err(failed)?;
    // Fixes the moment that the copy shows.
    source.execute_batch("BEGIN").map_err(failed)?;
    let version = match look(&source).map_err(failed)? {
        Kind::Foreign => return Err(OpenError::Foreign { path: from }.into()),
        Kind::Empty => return Err(OpenError::NoTables { path: from }.into()),
        Kind::Ours { version } => version,
    };
    check_known(&from, version)?;
    create(to)?;
    let written = |error| BackupError::Open(OpenError::from_sqlite(to, &error));
    let mut target = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(written)?;
    target.busy_timeout(BUSY_TIMEOUT).map_err(written)?;
    let page: u32 = source.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
    let bytes = copy_pages(&source, &mut target, page.into(), progress, written)?;
    // Without WAL mode the copy is one self-contained file that can be read from a read-only disk.
    target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).map_err(written)?;
    check_pages(&target, &from)?;
    drop(target);
    File::open(to).and_then(|file| file.sync_all()).map_err(|error| OpenError::from_io(to, &error))?;
    Ok(Copied { bytes, version })
}

/// Copies all pages. Returns their size in bytes.
fn copy_pages(
    source: &Connection,
    target: &mut Connection,
    page: u64,
    progress: &mut OnProgress<'_>,
    failed: impl Fn(rusqlite::Error) -> BackupError,
) -> Result<u64, BackupError> {
    let copying = Backup::new(source, target).map_err(&failed)?;
    loop {
        let step = copying.step(BACKUP_PAGES).map_err(&failed)?;
        let told = copying.progress();
        let (pages, left) = (told.pagecount.max(0) as u64, told.remaining.max(0) as u64);
        let (total, done) = (pages * page, (pages - left) * page);
        if progress(Progress { done, total }).is_break() {
            return Err(BackupError::BrokenOff);
        }
        match step {
            StepResult::Done => return Ok(total),
            // Another process holds the lock of the source for a moment.
            StepResult::Busy | StepResult::Locked => std::thread::sleep(BUSY_TIMEOUT / 100),
            _ => {}
        }
    }
}

fn check_pages(copy: &Connection, from: &Path) -> Result<(), BackupError> {
    let damaged = |detail: String| BackupError::Damaged { path: from.to_owned(), detail };
    let found: String = copy
        .pragma_query_value(None, "quick_check", |row| row.get(0))
        .map_err(|error| damaged(error.to_string()))?;
    match found.as_str() {
        "ok" => Ok(()),
        _ => Err(damaged(found)),
    }
}

fn create(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(OpenError::NoFolder { folder: folder.to_owned() });
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(|error| OpenError::from_io(path, &error))
}

fn refuse_existing(path: &Path) -> Result<(), BackupError> {
    // A dangling symbolic link counts as existing.
    match path.symlink_metadata() {
        Ok(_) => Err(BackupError::Exists { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

/// Flushes the folder of `path`, so that a new name in it survives a power loss.
pub(crate) fn flush_folder(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| OpenError::from_io(folder, &error))
}

/// A temporary file, deleted on drop unless it was renamed.
#[derive(Debug)]
pub(crate) struct TemporaryBackup {
    pub(crate) path: PathBuf,
}

impl TemporaryBackup {
    /// A name beside `path` that contains the process id.
    pub(crate) fn beside(path: &Path, word: &str) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{word}-{}", std::process::id()));
        let unfinished = TemporaryBackup { path: PathBuf::from(name) };
        // An earlier process with the same id may have left one.
        unfinished.remove();
        unfinished
    }

    fn remove(&self) {
        for suffix in ["", "-wal", "-shm", "-journal", "-owner"] {
            let _ = std::fs::remove_file(with_suffix(&self.path, suffix));
        }
    }
}

impl Drop for TemporaryBackup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// `orders.db-wal` for `orders.db`.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
