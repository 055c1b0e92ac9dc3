//! Why a file could not be opened, each with what to do next.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::owner_lock::Owner;

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder is not there.
    #[error("there is no folder {}: create it, or give another path", folder.display())]
    NoFolder {
        /// The missing folder.
        folder: PathBuf,
    },
    /// The path names a folder.
    #[error("{} is a folder: give the path of a file, such as {}", path.display(), path.join("hapax.db").display())]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A read-only opening found no file.
    #[error("there is no file {}: check the path, or open it for writing once to create it", path.display())]
    Missing {
        /// The missing file.
        path: PathBuf,
    },
    /// The file is not a SQLite database.
    #[error("{} is not a SQLite database: give another path, or move the file away", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file belongs to another program.
    #[error("{} is the database of another program: give another path; nothing was changed", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file has no tables of Hapax.
    #[error("{} has no tables of Hapax: check the path", path.display())]
    NoTables {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer program.
    #[error("{} has schema version {found}, this program knows up to {known}: use the newer program", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: i32,
        /// The newest version this program knows.
        known: i32,
    },
    /// A read-only opening found a file that must be migrated first.
    #[error("{} has schema version {found}, this program reads {known}: open it for writing once to bring it up to date", path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: i32,
        /// The version this program reads.
        known: i32,
    },
    /// Another process has it open for writing.
    #[error("{} is in use by {who}: stop that process, or talk to it instead; to look only, open read-only", path.display())]
    Owned {
        /// The file.
        path: PathBuf,
        /// Who has it.
        who: Owner,
    },
    /// The file is damaged.
    #[error("{} is damaged ({detail}): keep it and its -wal file for inspection, and restore a backup", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Message of SQLite.
        detail: String,
    },
    /// The file or its folder cannot be written.
    #[error("{} cannot be written ({detail}): check the permissions of the file and its folder, or open read-only", path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// Message of the error.
        detail: String,
    },
    /// The disk is full.
    #[error("the disk of {} is full: free some space and open it again", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Another process keeps it locked.
    #[error("{} is locked by another process: see who has it open, and try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The linked SQLite can lose commits.
    #[error("SQLite {found} can lose commits: build with the bundled SQLite, or with {needed} or newer")]
    OldSqlite {
        /// The version found.
        found: i32,
        /// The oldest good one.
        needed: i32,
    },
    /// Anything else the operating system or SQLite said.
    #[error("{} cannot be opened: check the path, the disk and the limits of the process ({detail})", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// Message of the error.
        detail: String,
    },
}

impl OpenError {
    pub(crate) fn from_io(path: &Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let (path, detail) = (path.to_owned(), error.to_string());
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                OpenError::NotWritable { path, detail }
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => OpenError::DiskFull { path },
            _ => OpenError::Other { path, detail },
        }
    }

    pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, detail) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Corrupt { path, detail },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                OpenError::NotWritable { path, detail }
            }
            Some(ErrorCode::DiskFull) => OpenError::DiskFull { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Busy { path },
            _ => OpenError::Other { path, detail },
        }
    }
}
