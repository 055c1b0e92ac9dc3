//! Restore: copies a backup beside a store, lets the caller check it, then puts it in place.

use std::path::{Path, PathBuf};

use hapax_engine::model::Timestamp;
use rusqlite::Connection;

use crate::backup::{BackupError, Copied, OnProgress, TemporaryBackup, copy, flush_folder, with_suffix};
use crate::connect::open_for_writing;
use crate::open::{find, migrate};
use crate::open_error::OpenError;
use crate::owner_lock::{self, NotTaken, OwnerLock};

/// A restore in progress. Dropping it before [`Restoring::finish`] changes nothing.
#[derive(Debug)]
pub struct Restoring {
    target: PathBuf,
    copy: TemporaryBackup,
    copied: Copied,
    now: Timestamp,
    /// Keeps other processes from opening the target.
    _lock: OwnerLock,
}

impl Restoring {
    /// Copies the backup beside `target` and migrates the copy. An existing `target` needs `replace`, and no process may have it open.
    pub fn begin(
        backup: &Path,
        target: &Path,
        replace: bool,
        now: Timestamp,
        progress: &mut OnProgress<'_>,
    ) -> Result<Restoring, BackupError> {
        if !replace && target.symlink_metadata().is_ok() {
            return Err(BackupError::Exists { path: target.to_owned() });
        }
        // Resolves symbolic links, so that the file itself is replaced.
        let target = find(target)?.unwrap_or_else(|| target.to_owned());
        let folder =
            target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(OpenError::NoFolder { folder: folder.to_owned() }.into());
        }
        let lock = owner_lock::take(&target, false, now).map_err(|why| match why {
            NotTaken::OwnedBy(who) => OpenError::Owned { path: target.clone(), who },
            NotTaken::Io(error) => OpenError::from_io(&target, &error),
        })?;
        let unfinished = TemporaryBackup::beside(&target, "restoring");
        let copied = copy(backup, &unfinished.path, progress)?;
        migrate(&unfinished.path, now)?;
        Ok(Restoring { target, copy: unfinished, copied, now, _lock: lock })
    }

    /// Path of the copy, for checks and changes before [`Restoring::finish`].
    pub fn path(&self) -> &Path {
        &self.copy.path
    }

    /// Size and version of the copy.
    pub fn copied(&self) -> Copied {
        self.copied
    }

    /// Moves the copy to the target. Close every store on the copy first. Returns the new name of the file that was there before.
    pub fn finish(self) -> Result<Option<PathBuf>, BackupError> {
        let copy = &self.copy.path;
        // The rename moves the file alone, so its log must be empty.
        empty_log(copy).map_err(|error| OpenError::from_sqlite(copy, &error))?;
        for suffix in ["-wal", "-shm", "-owner"] {
            let _ = std::fs::remove_file(with_suffix(copy, suffix));
        }
        let kept = match self.target.exists() {
            true => Some(self.keep_old()?),
            false => None,
        };
        std::fs::rename(copy, &self.target).map_err(|error| OpenError::from_io(&self.target, &error))?;
        flush_folder(&self.target)?;
        Ok(kept)
    }

    /// Gives the old file a second name and moves its log away. SQLite would apply a log left behind to the restored file.
    fn keep_old(&self) -> Result<PathBuf, BackupError> {
        let target = &self.target;
        let kept = with_suffix(target, &format!(".before-{}", self.now.as_millis()));
        // A damaged file is kept together with its log.
        let _ = empty_log(target);
        let failed = |error: std::io::Error| OpenError::from_io(target, &error);
        if std::fs::hard_link(target, &kept).is_err() {
            std::fs::copy(target, &kept).map_err(failed)?;
        }
        for suffix in ["-wal", "-shm"] {
            let beside = with_suffix(target, suffix);
            if beside.exists() {
                std::fs::rename(&beside, with_suffix(&kept, suffix)).map_err(failed)?;
            }
        }
        Ok(kept)
    }
}

fn empty_log(path: &Path) -> rusqlite::Result<()> {
    let connection: Connection = open_for_writing(path)?;
    connection.pragma(None, "wal_checkpoint", "TRUNCATE", |_| Ok(()))
}
