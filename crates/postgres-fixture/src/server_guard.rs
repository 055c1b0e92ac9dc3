//! A process that outlives the test process and ends the server after it.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::FixtureError;

/// The two locks that decide over the life of a server. Both are files that the operating system unlocks when the
/// process that locked them ends.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    /// Held by everybody who uses the server.
    pub(crate) users: PathBuf,
    /// Lock for starting or ending the server.
    pub(crate) guard: PathBuf,
}

impl Locks {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Locks { users: folder.join("users"), guard: folder.join("guard") }
    }

    /// Waits for the right to start or end the server.
    pub(crate) fn take_guard(&self) -> Result<File, FixtureError> {
        let file = open(&self.guard)?;
        file.lock().map_err(FixtureError::file(&self.guard))?;
        Ok(file)
    }

    /// The server stays while the file is open.
    pub(crate) fn use_it(&self) -> Result<File, FixtureError> {
        let file = open(&self.users)?;
        file.lock_shared().map_err(FixtureError::file(&self.users))?;
        Ok(file)
    }
}

fn open(path: &Path) -> Result<File, FixtureError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).map_err(FixtureError::file(path))
}

/// Starts a keeper; one that finds another at work ends at once.
pub(crate) fn spawn(folder: &Path, locks: &Locks, linger: Duration) -> Result<(), FixtureError> {
    // Without it nothing would end the server.
    run(Command::new("flock").arg("--version"))?.wait().map_err(FixtureError::file("flock"))?;
    let mut keeper = Command::new("sh");
    keeper.args(["-c", include_str!("keeper.sh"), "keeper"]);
    keeper.arg(folder).arg(&locks.users).arg(&locks.guard).arg(linger.as_secs_f32().to_string());
    // In a group of its own, so that what ends the test does not end the keeper.
    keeper.current_dir("/").process_group(0);
    let mut child = run(&mut keeper)?;
    std::thread::spawn(move || child.wait());
    Ok(())
}

fn run(command: &mut Command) -> Result<std::process::Child, FixtureError> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let shown = quiet.get_program().to_string_lossy().into_owned();
    quiet.spawn().map_err(|cause| FixtureError::NotRun { command: shown, cause })
}
