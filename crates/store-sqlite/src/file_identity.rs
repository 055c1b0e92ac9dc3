//! Is the file at a path still the one that was opened?

use std::path::Path;

use hapax_engine::store::StoreError;

/// Identity of a file, to detect another one at the same path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
}

impl FileIdentity {
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Ok(FileIdentity { device_and_inode: (metadata.dev(), metadata.ino()) })
        }
        #[cfg(not(unix))]
        Ok(FileIdentity {})
    }

    /// SQLite would go on writing into a file that nobody can find any more.
    pub(crate) fn check(&self, path: &Path) -> Result<(), StoreError> {
        let gone = |how: &str| {
            StoreError::Broken(format!(
                "{} was {how} while in use: put it back with its -wal file, and start again",
                path.display()
            ))
        };
        match FileIdentity::of(path) {
            Ok(found) if found == *self => Ok(()),
            Ok(_) => Err(gone("replaced")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(gone("moved or deleted")),
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        }
    }
}
