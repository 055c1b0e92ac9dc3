//! What the checks need from the machine, and how to come by it.
//!
//! A new need is one more entry in [`REQUIREMENTS`]. Cargo needs the C compiler to link this very command, so
//! `.ci/run` fetches it on a bare machine before cargo starts; here it is for all who have another linker.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::command_line::CommandLine;

/// One thing that must be on the machine before the checks can run.
struct Requirement {
    name: &'static str,
    needed_for: &'static str,
    is_present: fn() -> bool,
    remedy: Remedy,
}

/// How a missing requirement is met.
#[derive(Clone, Copy)]
enum Remedy {
    /// A command that may be run here without asking, given root on a Debian.
    DebianPackages { install: &'static str },
    /// A command that changes the person's own setup, so it is only named.
    Advice { run: &'static str },
}

const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "C compiler (cc)",
        needed_for: "linking, and building the bundled SQLite",
        is_present: || CommandLine::new("cc --version").succeeds(),
        remedy: Remedy::DebianPackages {
            install: "apt-get install --yes --no-install-recommends gcc libc6-dev",
        },
    },
    Requirement {
        name: "PostgreSQL (initdb, pg_ctl)",
        needed_for: "tests of the PostgreSQL store, which start servers of their own",
        is_present: has_postgres,
        remedy: Remedy::DebianPackages {
            install: "apt-get install --yes --no-install-recommends postgresql",
        },
    },
    Requirement {
        name: "Redis (redis-server)",
        needed_for: "tests of the lease in Redis, which start servers of their own",
        is_present: || CommandLine::new("redis-server --version").succeeds(),
        remedy: Remedy::DebianPackages {
            install: "apt-get install --yes --no-install-recommends redis-server",
        },
    },
    Requirement {
        name: "rustfmt",
        needed_for: "the formatting check",
        is_present: || CommandLine::new("cargo fmt --version").succeeds(),
        remedy: Remedy::Advice { run: "rustup component add rustfmt" },
    },
    Requirement {
        name: "clippy",
        needed_for: "the lints",
        is_present: || CommandLine::new("cargo clippy --version").succeeds(),
        remedy: Remedy::Advice { run: "rustup component add clippy" },
    },
];

/// Installs what is missing where that is allowed; otherwise names every missing thing and its remedy.
pub(crate) fn meet() -> Result<()> {
    let may_install = may_install_packages();
    let mut unmet = Vec::new();
    for requirement in REQUIREMENTS {
        if (requirement.is_present)() {
            println!("    {}: present", requirement.name);
        } else if !try_to_install(requirement, may_install)? {
            println!("    {}: MISSING", requirement.name);
            unmet.push(requirement.what_to_do());
        }
    }
    ensure!(unmet.is_empty(), "the checks need what this machine lacks\n{}", unmet.join("\n"));
    Ok(())
}

/// Whether the requirement is met afterwards.
fn try_to_install(requirement: &Requirement, may_install: bool) -> Result<bool> {
    let Some(install) = requirement.remedy.command_to_run(may_install) else { return Ok(false) };
    println!("    {}: missing, installing it with `{install}`", requirement.name);
    // The lists may be absent (a fresh image) or cut off from the network while the package is in
    // the cache, so the install itself is the judge.
    CommandLine::new("apt-get update").run()?;
    let install = CommandLine::new(install).with_env("DEBIAN_FRONTEND", "noninteractive").run()?;
    Ok(install.success() && (requirement.is_present)())
}

/// In PATH, or where Debian keeps it.
fn has_postgres() -> bool {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let in_debian = debian.into_iter().any(|version| version.path().join("bin/initdb").exists());
    in_debian || CommandLine::new("initdb --version").succeeds()
}

fn may_install_packages() -> bool {
    let is_debian = Path::new("/etc/debian_version").exists();
    let is_root = || CommandLine::new("test -w /var/lib/dpkg").succeeds();
    is_debian && is_root()
}

impl Requirement {
    fn what_to_do(&self) -> String {
        let remedy = match self.remedy {
            Remedy::DebianPackages { install } => format!("(as root, on Debian) {install}"),
            Remedy::Advice { run } => run.to_owned(),
        };
        format!("  {} is missing (needed for {})\n    get it with: {remedy}", self.name, self.needed_for)
    }
}

impl Remedy {
    /// The command to run now, if this remedy is one we may apply ourselves.
    fn command_to_run(self, may_install: bool) -> Option<&'static str> {
        match self {
            Self::DebianPackages { install } if may_install => Some(install),
            Self::DebianPackages { .. } | Self::Advice { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_only_where_that_is_allowed() {
        let remedy = Remedy::DebianPackages { install: "apt-get install gcc" };
        assert_eq!(remedy.command_to_run(true), Some("apt-get install gcc"));
        assert_eq!(remedy.command_to_run(false), None);
    }

    #[test]
    fn advice_is_never_run() {
        let remedy = Remedy::Advice { run: "rustup component add clippy" };
        assert_eq!(remedy.command_to_run(true), None);
    }

    #[test]
    fn every_missing_requirement_says_what_to_do() {
        for requirement in REQUIREMENTS {
            let advice = requirement.what_to_do();
            assert!(advice.contains(requirement.name) && advice.contains("get it with: "), "{advice}");
        }
    }
}
