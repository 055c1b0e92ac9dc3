//! Finds PostgreSQL's programs and the user that runs them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::FixtureError;

/// Debian keeps each major version in a folder of its own, out of PATH.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Names the folder of the programs to use, whatever else is installed.
pub(crate) const BIN_VARIABLE: &str = "HAPAX_POSTGRES_BIN";

/// The programs of one PostgreSQL, and the user that runs them.
#[derive(Debug, Clone)]
pub(crate) struct Binaries {
    folder: PathBuf,
    /// `None`: as ourselves.
    user: Option<User>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Binaries {
    pub(crate) fn find() -> Result<Self, FixtureError> {
        let folder = match named_folder() {
            Some(folder) if has_programs(&folder) => folder,
            Some(folder) => return Err(FixtureError::NotThere { folder }),
            None => in_path().or_else(newest_of_debian).ok_or(FixtureError::NotInstalled)?,
        };
        Ok(Binaries { folder, user: find_server_user()? })
    }

    /// The user that must own the data.
    pub(crate) fn user(&self) -> Option<User> {
        self.user
    }

    /// Runs a program of PostgreSQL to its end; it leaves nothing of ours open.
    pub(crate) fn run(
        &self,
        program: &str,
        working_folder: &Path,
        arguments: &[&str],
    ) -> Result<(), FixtureError> {
        let path = self.folder.join(program);
        let mut command = Command::new(&path);
        command.args(arguments).current_dir(working_folder).env_clear().env("LC_ALL", "C");
        // The server inherits these, so a pipe would never end.
        let log = working_folder.join(format!("{program}.out"));
        let output = std::fs::File::create(&log).map_err(FixtureError::file(&log))?;
        let errors = output.try_clone().map_err(FixtureError::file(&log))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        let shown = format!("{} {}", path.display(), arguments.join(" "));
        let status =
            command.status().map_err(|cause| FixtureError::NotRun { command: shown.clone(), cause })?;
        if status.success() {
            return Ok(());
        }
        let output = std::fs::read_to_string(&log).unwrap_or_default().trim().to_owned();
        Err(FixtureError::Command { command: shown, status: status.to_string(), output })
    }
}

/// User that runs servers; `None` for the current user.
pub(crate) fn find_server_user() -> Result<Option<User>, FixtureError> {
    match rustix::process::geteuid().is_root() {
        true => find_user("postgres").or_else(|| find_user("nobody")).ok_or(FixtureError::NoUser).map(Some),
        false => Ok(None),
    }
}

/// The folder that the environment names, if it names one.
pub(crate) fn named_folder() -> Option<PathBuf> {
    std::env::var_os(BIN_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

fn has_programs(folder: &Path) -> bool {
    ["initdb", "pg_ctl", "postgres"].iter().all(|program| folder.join(program).is_file())
}

fn in_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|folder| has_programs(folder))
}

fn newest_of_debian() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?.filter_map(Result::ok);
    let numbered = versions.filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path().join("bin")))
    });
    numbered.filter(|(_, folder)| has_programs(folder)).max().map(|(_, folder)| folder)
}

fn find_user(name: &str) -> Option<User> {
    let ask = |flag: &str| {
        let asked = Command::new("id").args([flag, name]).stderr(Stdio::null()).output().ok()?;
        String::from_utf8(asked.stdout).ok()?.trim().parse().ok()
    };
    Some(User { uid: ask("-u")?, gid: ask("-g")? })
}
