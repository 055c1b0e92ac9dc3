//! A copy of a file as of one moment, while programs work on it: backups, and restoring them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::connect::{Pages, open_for_reading, open_for_writing};
use crate::limits::{BUSY_TIMEOUT, COPY_TRIES};
use crate::migrate::{Kind, look};
use crate::open::{check_known, find};
use crate::open_error::OpenError;

/// What SQLite keeps beside a file. Left over from another one, they would be taken for part of the copy.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The schema version of the file.
    pub version: i32,
    /// Its size.
    pub bytes: u64,
}

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The file to copy cannot be opened, or is none of ours.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is something at the new place.
    #[error("{} is there already, and is left as it is: name a place where nothing is, or move it away", path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// The file, or its copy, has broken pages.
    #[error("{} is damaged ({detail}); no copy was kept", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        detail: String,
    },
    /// The copy could not be written.
    #[error("the copy {} cannot be written ({detail})", path.display())]
    Write {
        /// Where it was to be.
        path: PathBuf,
        /// What happened.
        detail: String,
    },
}

/// Copies the file at `from` to `to`, where nothing may be, as of one moment. Programs that work on `from` go on meanwhile.
///
/// The copy stands alone, without a log beside it, and is for its owner alone. It is checked page by page, flushed, and only then gets its name,
/// so that a file at `to` is a whole one. A file that appears there meanwhile is left as it is.
pub fn copy(from: &Path, to: &Path) -> Result<Copied, CopyError> {
    let from = find(from)?.ok_or_else(|| OpenError::Missing { path: from.to_owned() })?;
    let failed = |error| OpenError::from_sqlite(&from, &error);
    let source = open_for_reading(&from, Pages::Copied).map_err(failed)?;
    let version = match look(&source).map_err(failed)? {
        Kind::Foreign => return Err(OpenError::Foreign { path: from }.into()),
        Kind::Empty => return Err(OpenError::Missing { path: from }.into()),
        Kind::Ours { version } => version,
    };
    check_known(&from, version)?;
    check_free(to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(OpenError::NoFolder { folder: folder.to_owned() }.into());
    }
    let unfinished = Unfinished::make(to)?;
    let copied = fill(&source, &unfinished.path).map_err(|fault| fault.tell(&from, to))?;
    unfinished.give_name(to)?;
    sync_folder(folder).map_err(write_failed(to))?;
    Ok(Copied { version, bytes: copied })
}

fn check_free(to: &Path) -> Result<(), CopyError> {
    let beside = BESIDE.iter().map(|end| with_end(to, end));
    match std::iter::once(to.to_owned()).chain(beside).find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(CopyError::Exists { path }),
        None => Ok(()),
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

/// The copy before it has its name; gone if it never gets one.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn make(to: &Path) -> Result<Self, CopyError> {
        let path = with_end(to, &format!(".{}.unfinished", std::process::id()));
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).map_err(write_failed(to))?;
        Ok(Unfinished { path })
    }

    /// A second name takes no other's place, as renaming would.
    fn give_name(&self, to: &Path) -> Result<(), CopyError> {
        let flushed = File::open(&self.path).and_then(|file| file.sync_all());
        flushed.map_err(write_failed(to))?;
        fs::hard_link(&self.path, to).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => CopyError::Exists { path: to.to_owned() },
            _ => write_failed(to)(error),
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn write_failed(to: &Path) -> impl Fn(std::io::Error) -> CopyError {
    let path = to.to_owned();
    move |error| CopyError::Write { path: path.clone(), detail: error.to_string() }
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Why a copy came to nothing.
enum Fault {
    Sqlite(rusqlite::Error),
    Damaged(String),
    Busy,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sqlite(error)
    }
}

impl Fault {
    fn tell(self, from: &Path, to: &Path) -> CopyError {
        match self {
            Fault::Sqlite(error) => CopyError::Write { path: to.to_owned(), detail: error.to_string() },
            Fault::Damaged(detail) => CopyError::Damaged { path: from.to_owned(), detail },
            Fault::Busy => {
                let detail = "the file is locked by another program; try again".to_owned();
                CopyError::Write { path: to.to_owned(), detail }
            }
        }
    }
}

/// Fills an empty file with all pages, and answers how many bytes it has.
fn fill(source: &Connection, path: &Path) -> Result<u64, Fault> {
    let mut target = open_for_writing(path)?;
    copy_pages(source, &mut target)?;
    // The header says that there is a log beside the file; without that, it is whole by itself and can be read where nobody may write.
    target.pragma_update(None, "journal_mode", "DELETE")?;
    let verdict: String = target.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Fault::Damaged(verdict));
    }
    target.close().map_err(|(_, error)| error)?;
    Ok(fs::metadata(path).map_or(0, |data| data.len()))
}

/// All pages in one step, so that they are those of one moment however much is written meanwhile.
fn copy_pages(source: &Connection, target: &mut Connection) -> Result<(), Fault> {
    let backup = Backup::new(source, target)?;
    for _ in 0..COPY_TRIES {
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            // Somebody else holds the file for a moment: a checkpoint, or a migration.
            _ => std::thread::sleep(BUSY_TIMEOUT / COPY_TRIES),
        }
    }
    Err(Fault::Busy)
}
