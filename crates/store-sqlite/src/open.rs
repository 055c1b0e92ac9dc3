//! Opening a file: every way it can go wrong has its own answer.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hapax_engine::model::Timestamp;
use hapax_engine::store::SchemaState;
use rusqlite::Connection;

use crate::connect::{Pages, open_for_reading, open_for_writing, set_up_writer};
use crate::limits::MIN_SQLITE;
use crate::migrate::{self, KNOWN_VERSION, Kind, look};
use crate::open_error::OpenError;
use crate::owner_lock::{self, NotTaken, OwnerLock};

/// A file that is ready to be written.
pub(crate) struct Opened {
    /// The file, free of links, whatever becomes of the working folder.
    pub(crate) path: PathBuf,
    pub(crate) writer: Connection,
    pub(crate) lock: OwnerLock,
}

/// Opens a file for writing, and makes it if it is not there.
pub(crate) fn open(path: &Path, shared: bool, now: Timestamp) -> Result<Opened, OpenError> {
    check_sqlite_version()?;
    let path = &find_or_create(path)?;
    let lock = owner_lock::take(path, shared, now).map_err(|why| match why {
        NotTaken::OwnedBy(who) => OpenError::Owned { path: path.clone(), who },
        NotTaken::Io(error) => OpenError::from_io(path, &error),
    })?;
    let failed = |error| OpenError::from_sqlite(path, &error);
    let mut writer = open_for_writing(path).map_err(failed)?;
    match look(&writer).map_err(failed)? {
        Kind::Foreign => return Err(OpenError::Foreign { path: path.clone() }),
        Kind::Ours { version } => check_known(path, version)?,
        Kind::Empty => {}
    }
    set_up_writer(&mut writer).map_err(failed)?;
    migrate::migrate(&mut writer).map_err(failed)?;
    if !shared {
        wake_leased_runs(&writer, now).map_err(failed)?;
        wake_claimed_posts(&writer, now).map_err(failed)?;
        end_holds(&writer, now).map_err(failed)?;
    }
    Ok(Opened { path: path.clone(), writer, lock })
}

/// Opens a file to look at it only.
pub(crate) fn open_read_only(path: &Path) -> Result<(PathBuf, Connection), OpenError> {
    check_sqlite_version()?;
    let path = find(path)?.ok_or_else(|| OpenError::Missing { path: path.to_owned() })?;
    let failed = |error| OpenError::from_sqlite(&path, &error);
    let reader = open_for_reading(&path, Pages::Copied).map_err(failed)?;
    match look(&reader).map_err(failed)? {
        Kind::Foreign => Err(OpenError::Foreign { path }),
        Kind::Empty => Err(OpenError::Older { path, found: 0, known: KNOWN_VERSION }),
        Kind::Ours { version } => {
            check_known(&path, version)?;
            if version < KNOWN_VERSION {
                return Err(OpenError::Older { path, found: version, known: KNOWN_VERSION });
            }
            Ok((path, reader))
        }
    }
}

/// Looks how far the tables of a file are behind; makes no file, and works while another process owns it.
pub fn find_schema(path: &Path) -> Result<SchemaState, OpenError> {
    check_sqlite_version()?;
    let Some(path) = find(path)? else { return Ok(migrate::state(0)) };
    let failed = |error| OpenError::from_sqlite(&path, &error);
    // An empty file is a database without tables, but not one that can be opened as ours.
    let reader = open_for_reading(&path, Pages::Copied).map_err(failed)?;
    match look(&reader).map_err(failed)? {
        Kind::Foreign => Err(OpenError::Foreign { path }),
        Kind::Empty => Ok(migrate::state(0)),
        Kind::Ours { version } => {
            check_known(&path, version)?;
            Ok(migrate::state(version))
        }
    }
}

/// Brings the tables of a file up to date, all or nothing, and answers what it lacked before. Opening does the same; this does it
/// without taking up any run, and like opening is refused while another process owns the file.
pub fn migrate(path: &Path, now: Timestamp) -> Result<SchemaState, OpenError> {
    let before = find_schema(path)?;
    if !before.is_up_to_date() {
        // Shared, so that no lease is taken for dead.
        drop(open(path, true, now)?);
    }
    Ok(before)
}

fn check_sqlite_version() -> Result<(), OpenError> {
    match rusqlite::version_number() {
        found if found < MIN_SQLITE => Err(OpenError::OldSqlite { found, needed: MIN_SQLITE }),
        _ => Ok(()),
    }
}

pub(crate) fn check_known(path: &Path, version: i32) -> Result<(), OpenError> {
    match version > KNOWN_VERSION {
        true => Err(OpenError::Newer { path: path.to_owned(), found: version, known: KNOWN_VERSION }),
        false => Ok(()),
    }
}

/// The file without links, if it exists. It looks by name only: opening and closing the file here
/// would drop the locks that another connection of this process holds on it.
pub(crate) fn find(path: &Path) -> Result<Option<PathBuf>, OpenError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(OpenError::IsFolder { path: path.to_owned() }),
        Ok(_) => path.canonicalize().map(Some).map_err(|error| OpenError::from_io(path, &error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::from_io(path, &error)),
    }
}

fn find_or_create(path: &Path) -> Result<PathBuf, OpenError> {
    if let Some(found) = find(path)? {
        return Ok(found);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(OpenError::NoFolder { folder: folder.to_owned() });
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    // Inputs of runs are private; SQLite gives the files beside it the same mode.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => {}
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(OpenError::from_io(path, &error)),
    }
    path.canonicalize().map_err(|error| OpenError::from_io(path, &error))
}

/// Wakes leased runs: the only process with the file knows that every lease in it is dead.
fn wake_leased_runs(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let woken = connection.execute(include_str!("../sql/wake_leased_runs.sql"), [now.as_millis()])?;
    if woken > 0 {
        tracing::info!(runs = woken, "runs of the process before are due at once");
    }
    Ok(())
}

/// The same for after-effects that were being delivered.
fn wake_claimed_posts(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let woken = connection.execute(include_str!("../sql/wake_claimed_posts.sql"), [now.as_millis()])?;
    if woken > 0 {
        tracing::info!(posts = woken, "after-effects of the process before are due at once");
    }
    Ok(())
}

/// The same for requests in progress: a retry takes them over at once.
fn end_holds(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let ended = connection.execute(include_str!("../sql/end_holds.sql"), [now.as_millis()])?;
    if ended > 0 {
        tracing::info!(requests = ended, "requests of the process before may be taken over at once");
    }
    Ok(())
}
