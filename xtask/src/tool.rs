//! Programs for chores outside the checks. `verify` needs none of them, so they are not
//! requirements; each chore reports a missing one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// One call of a program.
pub(crate) struct Tool {
    program: OsString,
    arguments: Vec<OsString>,
    folder: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    is_clean: bool,
}

impl Tool {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Tool {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            folder: None,
            environment: Vec::new(),
            is_clean: false,
        }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(crate) fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Runs it in this folder.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Runs it with an empty environment.
    pub(crate) fn clean(mut self) -> Self {
        self.is_clean = true;
        self
    }

    /// Returns true if a program of this name is in PATH.
    pub(crate) fn is_there(program: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    }

    /// Runs it to its end; shows its output only if it fails.
    pub(crate) fn run(&self) -> Result<()> {
        self.output().map(drop)
    }

    /// Runs it to its end, and returns its standard output.
    pub(crate) fn output(&self) -> Result<String> {
        let ended = self.command().output().with_context(|| self.not_started())?;
        let (out, errors) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        ensure!(ended.status.success(), "`{}` failed ({})\n{out}{errors}", self.shown(), ended.status);
        Ok(out.into_owned())
    }

    /// Runs it to its end and inherits this process's output.
    pub(crate) fn show(&self) -> Result<()> {
        let status = self.command().status().with_context(|| self.not_started())?;
        ensure!(status.success(), "`{}` failed ({status})", self.shown());
        Ok(())
    }

    fn not_started(&self) -> String {
        format!("`{}` cannot be started", self.program.to_string_lossy())
    }

    fn shown(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.is_clean {
            command.env_clear();
        }
        // Variables that cargo sets for this crate. Passed on, they would make other crates' build
        // scripts run again.
        let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::null());
        command
    }
}
