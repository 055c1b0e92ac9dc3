//! One process owns the file, or several share it; a file beside it is locked and says who.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use hapax_engine::model::Timestamp;

/// The process that has a file open for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its process id, if it left one.
    pub pid: Option<u32>,
    /// The machine it runs on.
    pub host: String,
    /// When it opened the file, as RFC 3339.
    pub since: String,
    /// Did it open the file in shared mode?
    pub shared: bool,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid} on {} since {}", self.host, self.since)?,
            None => f.write_str("a process that left no name")?,
        }
        if self.shared { f.write_str(", in shared mode") } else { Ok(()) }
    }
}

/// Holds the lock until it is dropped; a killed process lets go of it, too.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    _file: File,
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// Another process holds it.
    OwnedBy(Owner),
    /// The file could not be made, locked or written.
    Io(std::io::Error),
}

impl From<std::io::Error> for NotTaken {
    fn from(error: std::io::Error) -> Self {
        NotTaken::Io(error)
    }
}

/// Takes the lock of the database at `path`, alone or along with others that share.
pub(crate) fn take(path: &Path, shared: bool, now: Timestamp) -> Result<OwnerLock, NotTaken> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(beside(path))?;
    let locked = if shared { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(NotTaken::OwnedBy(read(&mut file))),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let text = serde_json::json!({
        "pid": std::process::id(),
        "host": host_name(),
        "since": now.to_string(),
        "shared": shared,
    });
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{text}")?;
    Ok(OwnerLock { _file: file })
}

/// `orders.db-owner` for `orders.db`.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-owner");
    PathBuf::from(name)
}

/// The owner's record; the owner may be about to write it.
fn read(file: &mut File) -> Owner {
    let mut text = String::new();
    // A few hundred bytes if it is ours; whatever else it is, it is not read to the end.
    let _ = file.take(4096).read_to_string(&mut text);
    let left: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Owner {
        pid: left["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()),
        host: left["host"].as_str().unwrap_or("an unknown machine").to_owned(),
        since: left["since"].as_str().unwrap_or("an unknown time").to_owned(),
        shared: left["shared"].as_bool().unwrap_or(false),
    }
}

fn host_name() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    return std::env::var("COMPUTERNAME").unwrap_or_else(|_| "an unknown machine".into());
}
