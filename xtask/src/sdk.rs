//! `cargo xtask sdk`: checks and tests the SDKs against the server as built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

/// Oldest Node.js that the TypeScript SDK supports.
const OLDEST_NODE: u32 = 20;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Language of the SDK
    language: Language,
    /// Use the server as it was built last
    #[arg(long)]
    as_built: bool,
    /// Succeed with a message if this machine cannot run the checks
    #[arg(long)]
    if_possible: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    Typescript,
    Python,
}

impl Language {
    fn script(self) -> &'static str {
        match self {
            Self::Typescript => "sdk/typescript/scripts/verify.sh",
            Self::Python => "sdk/python/scripts/verify.sh",
        }
    }

    /// Says what this machine lacks for the checks of the language.
    fn missing(self) -> Option<String> {
        match self {
            Self::Typescript => match node_version() {
                Some(version) if version >= OLDEST_NODE && succeeds("npm", &["--version"]) => None,
                _ => Some(format!("Node.js {OLDEST_NODE} or newer with npm")),
            },
            Self::Python
                if succeeds(
                    "python3",
                    &["-c", "import venv, ensurepip, sys; assert sys.version_info >= (3, 10)"],
                ) =>
            {
                None
            }
            Self::Python => Some("Python 3.10 or newer with the module venv".to_owned()),
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(missing) = options.language.missing() {
        ensure!(options.if_possible, "the checks of this SDK need {missing}");
        println!("skipped: the checks of this SDK need {missing}");
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a root")?;
    let server = server_program()?;
    if !options.as_built {
        let built = Command::new("cargo")
            .args(["build", "--locked", "-p", "hapax-cli", "--bin", "hapax"])
            .current_dir(root)
            .status()
            .context("cargo could not be started")?;
        ensure!(built.success(), "the server could not be built");
    }
    ensure!(server.is_file(), "{} is not built; leave out --as-built to build it", server.display());
    let status = Command::new("sh")
        .arg(root.join(options.language.script()))
        .current_dir(root)
        .env("HAPAX_BIN", &server)
        .env("HAPAX_REQUIRE_BIN", "1")
        .stdin(Stdio::null())
        .status()
        .context("sh could not be started")?;
    if !status.success() {
        bail!("{} failed ({status})", options.language.script());
    }
    Ok(())
}

/// The server that the build of the workspace leaves beside this program.
fn server_program() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the path of this command is unknown")?;
    Ok(program.with_file_name("hapax"))
}

fn node_version() -> Option<u32> {
    let output = Command::new("node").arg("--version").stdin(Stdio::null()).output().ok()?;
    major_version(&String::from_utf8_lossy(&output.stdout))
}

/// The first number of a version such as `v20.11.1`.
fn major_version(text: &str) -> Option<u32> {
    text.trim().trim_start_matches('v').split('.').next()?.parse().ok()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_the_first_number() {
        assert_eq!(major_version("v20.11.1\n"), Some(20));
        assert_eq!(major_version("v18"), Some(18));
        assert_eq!(major_version(""), None);
    }

    #[test]
    fn each_sdk_has_its_script() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for language in Language::value_variants() {
            assert!(root.join(language.script()).is_file(), "{}", language.script());
        }
    }
}
