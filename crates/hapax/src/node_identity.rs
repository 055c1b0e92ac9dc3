//! The identity of a node: a file that proves, by its lock, that the node's earlier process is dead.
//!
//! A node holds the lock until its process ends, however it ends. So the next process that gets the lock knows that the
//! earlier one sends nothing more, and gives back its leases at once, instead of waiting until they end. What the earlier
//! process had already sent may still be at work. Claimed effects go through probe and settle time as always.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use hapax_engine::Engine;
use hapax_engine::model::OwnerId;
use hapax_engine::store::{StoreError, StoreResult};
use serde::{Deserialize, Serialize};

/// Most owners that the file lists; more than a process has that fails to open its store again and again.
const MAX_OWNERS: usize = 64;
/// Most bytes of the file that are read.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Version of the file.
const VERSION: u32 = 1;

/// Reason why an identity cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A living process has it.
    #[error(
        "{} is the identity of a process that is still alive; stop it, or give this node a file of its own",
        .0.display()
    )]
    InUse(PathBuf),
    /// The file system may grant the lock to two machines.
    #[error(
        "{} must be on a local file system (ext4, XFS, Btrfs, F2FS, ZFS or tmpfs), where a lock proves that a process is dead",
        .0.display()
    )]
    NotLocal(PathBuf),
    /// The file cannot be opened, locked or written.
    #[error("the identity file {} cannot be used: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
}

/// The identity of this node. Its lock is held until the process ends.
#[derive(Debug)]
pub struct NodeIdentity {
    path: PathBuf,
    inode: Inode,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Owners of earlier processes, whose leases are not given back yet.
    dead: Vec<OwnerId>,
    /// Owners of this process.
    own: Vec<OwnerId>,
}

/// Identifies a file on this machine, since it was booted. A copy of the file is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Inode {
    boot: String,
    device: u64,
    number: u64,
}

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    inode: Inode,
    /// As 32 hex digits.
    owners: Vec<String>,
}

impl NodeIdentity {
    /// Takes the identity in the file at `path`, which is created if it is missing. It is never given back, because tasks
    /// of this process may go on after its last engine was dropped: only the end of the process proves that it is over.
    pub fn take(path: &Path) -> Result<&'static NodeIdentity, IdentityError> {
        let failed = |error| IdentityError::Io { path: path.to_owned(), error };
        let mut file = open(path).map_err(failed)?;
        if !is_local(&file).map_err(failed)? {
            return Err(IdentityError::NotLocal(path.to_owned()));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(IdentityError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let inode = inode_of(&file.metadata().map_err(failed)?).map_err(failed)?;
        // Otherwise a process that opens the path from now on locks another file.
        let named = std::fs::metadata(path).and_then(|named| inode_of(&named)).map_err(failed)?;
        if named != inode {
            return Err(failed(std::io::Error::other("it was replaced while it was being locked")));
        }
        let dead = read(&mut file, &inode).map_err(failed)?;
        let state = Mutex::new(State { file, dead, own: Vec::new() });
        Ok(Box::leak(Box::new(NodeIdentity { path: path.to_owned(), inode, state })))
    }

    /// Gives back the leases of the earlier processes of this node, by `end_leases`, and notes the owner of `engine` for
    /// the next one. Call it before any workflow is registered, so that no lease is taken under an owner that is not
    /// noted. Returns the number of leases. If the store fails, they end by themselves.
    pub async fn enter<F>(
        &self,
        engine: &Engine,
        end_leases: impl Fn(OwnerId) -> F,
    ) -> Result<u64, EnterError>
    where
        F: Future<Output = StoreResult<u64>>,
    {
        let dead = {
            let mut state = self.state();
            state.own.push(engine.owner());
            self.write(&mut state)?;
            state.dead.clone()
        };
        let mut ended = 0;
        for owner in dead {
            ended += end_leases(owner).await?;
        }
        let mut state = self.state();
        state.dead.clear();
        self.write(&mut state)?;
        Ok(ended)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn write(&self, state: &mut State) -> Result<(), IdentityError> {
        let owners = state.dead.iter().chain(&state.own);
        let owners: Vec<String> = owners.map(|owner| format!("{:032x}", owner.as_u128())).collect();
        let newest = owners.len().saturating_sub(MAX_OWNERS);
        let record =
            Record { version: VERSION, inode: self.inode.clone(), owners: owners[newest..].to_vec() };
        write(&mut state.file, &record).map_err(|error| IdentityError::Io { path: self.path.clone(), error })
    }
}

/// Reason why a node could not be entered in its identity file.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The file.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The store.
    #[error("the leases of this node's earlier process were not given back and end by themselves: {0}")]
    Store(#[from] StoreError),
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Owners that the earlier process left. None if the file is new, a copy, from before the last boot, or not ours.
fn read(file: &mut File, inode: &Inode) -> std::io::Result<Vec<OwnerId>> {
    let mut text = String::new();
    file.rewind()?;
    if file.take(MAX_FILE_BYTES).read_to_string(&mut text).is_err() {
        return Ok(Vec::new());
    }
    let Ok(record) = serde_json::from_str::<Record>(&text) else { return Ok(Vec::new()) };
    if record.version != VERSION || record.inode != *inode {
        return Ok(Vec::new());
    }
    let owners = record.owners.iter().filter_map(|owner| u128::from_str_radix(owner, 16).ok());
    Ok(owners.take(MAX_OWNERS).map(OwnerId::from_u128).collect())
}

/// A process that dies in the middle leaves a file that names nobody, and leases that end by themselves.
fn write(file: &mut File, record: &Record) -> std::io::Result<()> {
    let text = serde_json::to_string(record).map_err(std::io::Error::other)?;
    file.rewind()?;
    file.set_len(0)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}

#[cfg(target_os = "linux")]
fn inode_of(metadata: &std::fs::Metadata) -> std::io::Result<Inode> {
    use std::os::linux::fs::MetadataExt;
    let boot = read_boot_id(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(Inode { boot, device: metadata.st_dev(), number: metadata.st_ino() })
}

/// Changes with every boot. Hardened units and containers may hide it, and the identity file is not to blame then.
#[cfg(target_os = "linux")]
fn read_boot_id(path: &Path) -> std::io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(boot) => Ok(boot.trim().to_owned()),
        Err(error) => Err(std::io::Error::new(
            error.kind(),
            format!(
                "{}, which changes with every boot, is out of reach ({error}); in a systemd unit, take out ProcSubset=pid",
                path.display()
            ),
        )),
    }
}

#[cfg(target_os = "linux")]
fn is_local(file: &File) -> std::io::Result<bool> {
    /// Magic numbers of ext2 to ext4, XFS, Btrfs, F2FS, ZFS and tmpfs, from `linux/magic.h` and OpenZFS.
    const LOCAL: [u64; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x2FC1_2FC1, 0x0102_1994];
    let system = rustix::fs::fstatfs(file)?;
    #[allow(clippy::unnecessary_cast, reason = "the type differs between processors")]
    let magic = (system.f_type as u64) & 0xFFFF_FFFF;
    Ok(LOCAL.contains(&magic))
}

#[cfg(not(target_os = "linux"))]
fn inode_of(_: &std::fs::Metadata) -> std::io::Result<Inode> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_: &File) -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;

    use hapax_engine::EngineOptions;
    use hapax_engine::clock::SystemClock;
    use hapax_engine::memory::MemoryStore;

    use super::*;

    #[test]
    fn a_hidden_boot_id_is_named_with_the_setting_that_hides_it() {
        let error = read_boot_id(Path::new("/proc/no-such-folder/boot_id")).unwrap_err().to_string();
        assert!(
            error.contains("/proc/no-such-folder/boot_id") && error.contains("ProcSubset=pid"),
            "{error}"
        );
    }

    fn engine() -> Engine {
        let clock = Arc::new(SystemClock::new());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Engine::launch(store, clock, EngineOptions::default()).unwrap()
    }

    /// Makes `path` look as if its last process had been killed with these owners.
    fn killed(path: &Path, owners: &[OwnerId]) {
        let mut file = open(path).unwrap();
        let inode = inode_of(&file.metadata().unwrap()).unwrap();
        let owners = owners.iter().map(|owner| format!("{:032x}", owner.as_u128())).collect();
        write(&mut file, &Record { version: VERSION, inode, owners }).unwrap();
    }

    async fn ended(identity: &NodeIdentity, engine: &Engine) -> Vec<OwnerId> {
        let asked = Mutex::new(Vec::new());
        let end = |owner| {
            asked.lock().unwrap().push(owner);
            async { Ok(2) }
        };
        let leases = identity.enter(engine, end).await.unwrap();
        let asked = asked.into_inner().unwrap();
        assert_eq!(leases, 2 * asked.len() as u64);
        asked
    }

    #[tokio::test]
    async fn a_living_process_keeps_its_identity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        let first = NodeIdentity::take(&path).unwrap();
        assert!(ended(first, &engine()).await.is_empty(), "a new node has no earlier process");
        assert!(matches!(NodeIdentity::take(&path), Err(IdentityError::InUse(_))));
    }

    #[tokio::test]
    async fn the_leases_of_a_killed_process_are_given_back_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        let owners = [OwnerId::fresh(), OwnerId::fresh()];
        killed(&path, &owners);
        let node = NodeIdentity::take(&path).unwrap();
        let engine = engine();
        assert_eq!(ended(node, &engine).await, owners);
        assert!(ended(node, &engine).await.is_empty(), "only once");
        let mut file = open(&path).unwrap();
        let inode = node.inode.clone();
        assert_eq!(read(&mut file, &inode).unwrap(), [engine.owner(), engine.owner()]);
    }

    /// The owner is noted before anything is given back, so that a process that dies in between leaves both.
    #[tokio::test]
    async fn a_process_that_dies_while_it_gives_back_leaves_all_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        let dead = OwnerId::fresh();
        killed(&path, &[dead]);
        let (node, engine) = (NodeIdentity::take(&path).unwrap(), engine());
        let fails = |_| async { Err(StoreError::Unavailable("planned".into())) };
        assert!(matches!(node.enter(&engine, fails).await, Err(EnterError::Store(_))));
        let mut file = open(&path).unwrap();
        assert_eq!(read(&mut file, &node.inode).unwrap(), [dead, engine.owner()]);
        assert_eq!(ended(node, &engine).await, [dead]);
    }

    /// A copy may be in use elsewhere, and what was written before the last boot may be another machine's.
    #[tokio::test]
    async fn a_copied_or_damaged_file_proves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("node"), folder.path().join("copy"));
        killed(&path, &[OwnerId::fresh()]);
        std::fs::copy(&path, &copy).unwrap();
        assert!(ended(NodeIdentity::take(&copy).unwrap(), &engine()).await.is_empty());
        let text = std::fs::read_to_string(&path).unwrap();
        let boot = inode_of(&std::fs::metadata(&path).unwrap()).unwrap().boot;
        for damaged in [text.replace(&boot, "an-earlier-boot"), text[..20].into(), "\u{0}\u{1}".into()] {
            let file = folder.path().join(format!("damaged-{}", damaged.len()));
            std::fs::rename(&path, &file).unwrap();
            std::fs::write(&file, damaged).unwrap();
            assert!(ended(NodeIdentity::take(&file).unwrap(), &engine()).await.is_empty());
            killed(&path, &[OwnerId::fresh()]);
        }
    }

    #[test]
    fn a_file_system_of_another_kind_is_refused() {
        let error = NodeIdentity::take(Path::new("/proc/self/comm")).unwrap_err();
        assert!(matches!(error, IdentityError::NotLocal(_)), "{error}");
    }
}
