//! A command that can be run, and shown so that a person can paste it into a shell.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

/// One program with its arguments and the environment it needs.
pub(crate) struct CommandLine {
    program: Cow<'static, str>,
    arguments: Vec<&'static str>,
    environment: Vec<(&'static str, String)>,
}

impl CommandLine {
    /// A command from words that are separated by blanks; none of them contains one.
    pub(crate) fn new(words: &'static str) -> Self {
        let mut words = words.split_whitespace();
        let program = words.next().expect("a command line names a program");
        Self { program: program.into(), arguments: words.collect(), environment: Vec::new() }
    }

    /// A program by its path, with arguments that are separated by blanks.
    pub(crate) fn of(program: impl Into<Cow<'static, str>>, arguments: &'static str) -> Self {
        let arguments = arguments.split_whitespace().collect();
        Self { program: program.into(), arguments, environment: Vec::new() }
    }

    /// Further arguments, separated by blanks.
    pub(crate) fn and(mut self, arguments: &'static str) -> Self {
        self.arguments.extend(arguments.split_whitespace());
        self
    }

    pub(crate) fn with_env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Runs at the root of the workspace and inherits this process's output.
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        self.command().status().with_context(|| format!("could not start `{}`", self.program))
    }

    /// Runs at the root of the workspace; returns both output streams in their order.
    pub(crate) fn run_captured(&self) -> Result<(ExitStatus, Vec<u8>)> {
        let (mut said, saying) = std::io::pipe()?;
        let mut command = self.command();
        command.stdout(saying.try_clone()?).stderr(saying);
        let mut child = command.spawn().with_context(|| format!("could not start `{}`", self.program))?;
        // Drops this process's ends of the pipe; it is read until the last one is closed.
        drop(command);
        let mut output = Vec::new();
        said.read_to_end(&mut output)?;
        Ok((child.wait()?, output))
    }

    /// Returns true if the command starts and succeeds; drops its output.
    pub(crate) fn succeeds(&self) -> bool {
        let quiet = self.command().stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&*self.program);
        // Variables that cargo sets for this crate. Passed on, they would make other crates' build
        // scripts run again.
        let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .current_dir(workspace_root());
        command
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            if value.contains(' ') {
                write!(f, "{name}=\"{value}\" ")?;
            } else {
                write!(f, "{name}={value} ")?;
            }
        }
        f.write_str(&self.program)?;
        for argument in &self.arguments {
            match argument.contains(['(', ')', '|', '&', '!', '*']) {
                true => write!(f, " '{argument}'")?,
                false => write!(f, " {argument}")?,
            }
        }
        Ok(())
    }
}

/// The folder of the workspace's Cargo.toml.
pub(crate) fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// `7.4s` or `3m 07s`: short enough for a column, exact enough to notice a change.
pub(crate) fn show_elapsed(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if seconds < 60 {
        format!("{:.1}s", elapsed.as_secs_f64())
    } else {
        format!("{}m {:02}s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_would_read_it() {
        let command = CommandLine::new("cargo doc --no-deps").with_env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(command.to_string(), r#"RUSTDOCFLAGS="-D warnings" cargo doc --no-deps"#);
        let command = CommandLine::new("cargo nextest run -E test(a)|test(b)");
        assert_eq!(command.to_string(), "cargo nextest run -E 'test(a)|test(b)'");
    }

    #[test]
    fn a_program_that_is_absent_does_not_succeed() {
        assert!(!CommandLine::new("a-program-nobody-has --version").succeeds());
    }

    #[test]
    fn what_a_command_says_is_captured() {
        let (status, output) = CommandLine::new("rustc --version").run_captured().unwrap();
        assert!(status.success() && output.starts_with(b"rustc "), "{status}: {}", output.escape_ascii());
    }

    #[test]
    fn elapsed_time_changes_its_unit_at_a_minute() {
        assert_eq!(show_elapsed(Duration::from_millis(7_430)), "7.4s");
        assert_eq!(show_elapsed(Duration::from_secs(187)), "3m 07s");
    }
}
