//! Requirements of the checks on the machine, and how to install them.
//!
//! A new requirement is one more entry in [`REQUIREMENTS`]. Cargo needs the C compiler to link this
//! very command, so `.ci/run` installs it on a bare machine before cargo starts; the entry here is
//! for machines with another linker.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::command_line::CommandLine;

/// One program that the checks need.
struct Requirement {
    name: &'static str,
    needed_for: &'static str,
    is_present: fn() -> bool,
    remedy: InstallHint,
}

/// How to install a missing requirement.
#[derive(Clone, Copy)]
enum InstallHint {
    /// A command that may run without asking, as root on Debian.
    DebianPackages { install: &'static str },
    /// A command that may run without asking, where rustup manages the toolchain.
    RustupComponent { add: &'static str },
}

/// Permissions to change this machine without asking.
#[derive(Clone, Copy)]
struct Permissions {
    install_packages: bool,
    add_components: bool,
}

const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "C compiler (cc)",
        needed_for: "linking, and building the bundled SQLite",
        is_present: || CommandLine::new("cc --version").succeeds(),
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends gcc libc6-dev",
        },
    },
    Requirement {
        name: "PostgreSQL (initdb, pg_ctl)",
        needed_for: "tests of the PostgreSQL store, which start servers of their own",
        is_present: has_postgres,
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends postgresql",
        },
    },
    Requirement {
        name: "Redis (redis-server)",
        needed_for: "tests of the lease in Redis, which start servers of their own",
        is_present: || CommandLine::new("redis-server --version").succeeds(),
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends redis-server",
        },
    },
    Requirement {
        name: "PgBouncer (pgbouncer)",
        needed_for: "tests of the PostgreSQL store behind a pooler, which start poolers of their own",
        is_present: has_bouncer,
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends pgbouncer",
        },
    },
    Requirement {
        name: "curl",
        needed_for: "tests that run the calls of the documentation as they are written",
        is_present: || CommandLine::new("curl --version").succeeds(),
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends curl ca-certificates",
        },
    },
    Requirement {
        name: "jq",
        needed_for: "tests that run the commands of the documentation as they are written",
        is_present: || CommandLine::new("jq --version").succeeds(),
        remedy: InstallHint::DebianPackages { install: "apt-get install --yes --no-install-recommends jq" },
    },
    Requirement {
        name: "OpenSSL (openssl)",
        needed_for: "tests that sign webhooks as the documentation does",
        is_present: || CommandLine::new("openssl version").succeeds(),
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends openssl",
        },
    },
    Requirement {
        name: "Python (python3)",
        needed_for: "tests that send what Python's HTTP clients send, and the Python SDK",
        is_present: || CommandLine::new("python3 -m venv --help").succeeds(),
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends python3 python3-venv",
        },
    },
    Requirement {
        name: "Node.js (node, npm)",
        needed_for: "the TypeScript SDK, which needs Node.js 20, and the lint of the API description",
        is_present: || CommandLine::new("npm --version").succeeds(),
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends nodejs npm",
        },
    },
    Requirement {
        name: "Chromium (chromium, chromedriver)",
        needed_for: "tests of the console in a real browser",
        is_present: || {
            CommandLine::new("chromium --version").succeeds()
                && CommandLine::new("chromedriver --version").succeeds()
        },
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends chromium chromium-driver",
        },
    },
    Requirement {
        name: "strace",
        needed_for: "tests of a disk that fails, in whose place it refuses",
        is_present: || CommandLine::new("strace -f -o /dev/null true").succeeds(),
        remedy: InstallHint::DebianPackages {
            install: "apt-get install --yes --no-install-recommends strace",
        },
    },
    Requirement {
        name: "rustfmt",
        needed_for: "the formatting check",
        is_present: || CommandLine::new("cargo fmt --version").succeeds(),
        remedy: InstallHint::RustupComponent { add: "rustup component add rustfmt" },
    },
    Requirement {
        name: "clippy",
        needed_for: "the lints",
        is_present: || CommandLine::new("cargo clippy --version").succeeds(),
        remedy: InstallHint::RustupComponent { add: "rustup component add clippy" },
    },
];

/// Installs missing requirements where that is allowed; otherwise lists each of them with its
/// remedy.
pub(crate) fn meet() -> Result<()> {
    let permissions = Permissions {
        install_packages: may_install_packages(),
        add_components: CommandLine::new("rustup --version").succeeds(),
    };
    let mut unmet = Vec::new();
    for requirement in REQUIREMENTS {
        if (requirement.is_present)() {
            println!("    {}: present", requirement.name);
        } else if !try_to_install(requirement, permissions)? {
            println!("    {}: MISSING", requirement.name);
            unmet.push(requirement.what_to_do());
        }
    }
    ensure!(unmet.is_empty(), "the checks need what this machine lacks\n{}", unmet.join("\n"));
    Ok(())
}

/// Tries to install a requirement; returns true if it is then met.
fn try_to_install(requirement: &Requirement, permissions: Permissions) -> Result<bool> {
    let Some(install) = requirement.remedy.command_to_run(permissions) else { return Ok(false) };
    println!("    {}: missing, installing it with `{install}`", requirement.name);
    if matches!(requirement.remedy, InstallHint::DebianPackages { .. }) {
        // The lists may be absent (a fresh image) or the network may be down while the package is
        // in the cache, so only the install itself decides.
        CommandLine::new("apt-get update").run()?;
    }
    let install = CommandLine::new(install).with_env("DEBIAN_FRONTEND", "noninteractive").run()?;
    Ok(install.success() && (requirement.is_present)())
}

/// In PATH, or where Debian keeps it.
fn has_postgres() -> bool {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let in_debian = debian.into_iter().any(|version| version.path().join("bin/initdb").exists());
    in_debian || CommandLine::new("initdb --version").succeeds()
}

/// Debian installs it where only root searches by default.
fn has_bouncer() -> bool {
    Path::new("/usr/sbin/pgbouncer").exists() || CommandLine::new("pgbouncer --version").succeeds()
}

fn may_install_packages() -> bool {
    let is_debian = Path::new("/etc/debian_version").exists();
    let is_root = || CommandLine::new("test -w /var/lib/dpkg").succeeds();
    is_debian && is_root()
}

impl Requirement {
    fn what_to_do(&self) -> String {
        let remedy = match self.remedy {
            InstallHint::DebianPackages { install } => format!("(as root, on Debian) {install}"),
            InstallHint::RustupComponent { add } => add.to_owned(),
        };
        format!("  {} is missing (needed for {})\n    get it with: {remedy}", self.name, self.needed_for)
    }
}

impl InstallHint {
    /// The command to run now, if this remedy may run without asking.
    fn command_to_run(self, permissions: Permissions) -> Option<&'static str> {
        match self {
            Self::DebianPackages { install } => permissions.install_packages.then_some(install),
            Self::RustupComponent { add } => permissions.add_components.then_some(add),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Programs that every Debian has: their packages are essential there.
    const ON_EVERY_DEBIAN: &[&str] = &["bash", "flock", "id", "mkfifo", "script", "sh", "unshare"];
    /// Programs of the toolchain that runs this test.
    const OF_THE_TOOLCHAIN: &[&str] = &["cargo", "rustc", "rustdoc"];

    #[test]
    fn what_is_missing_is_installed_only_where_that_is_allowed() {
        let packages = InstallHint::DebianPackages { install: "apt-get install gcc" };
        let component = InstallHint::RustupComponent { add: "rustup component add clippy" };
        let nothing = Permissions { install_packages: false, add_components: false };
        let both = [packages, component].map(|remedy| remedy.command_to_run(nothing));
        assert_eq!(both, [None, None]);
        let root = Permissions { install_packages: true, ..nothing };
        assert_eq!(packages.command_to_run(root), Some("apt-get install gcc"));
        assert_eq!(component.command_to_run(root), None);
        let rustup = Permissions { add_components: true, ..nothing };
        assert_eq!(packages.command_to_run(rustup), None);
        assert_eq!(component.command_to_run(rustup), Some("rustup component add clippy"));
    }

    #[test]
    fn every_missing_requirement_says_what_to_do() {
        for requirement in REQUIREMENTS {
            let advice = requirement.what_to_do();
            assert!(advice.contains(requirement.name) && advice.contains("get it with: "), "{advice}");
        }
    }

    /// Keeps tests from depending on a program that a fresh machine lacks and that no requirement
    /// lists.
    #[test]
    fn every_program_that_is_started_by_name_is_required_or_on_every_machine() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
        let mut started = BTreeSet::new();
        for folder in ["crates", "examples", "xtask"] {
            collect_programs(&root.join(folder), &mut started);
        }
        assert!(started.contains("strace") && started.contains("bash"), "they are found: {started:?}");
        // Its check is skipped with a message if it is missing.
        let optional = ["npm"];
        let always = [ON_EVERY_DEBIAN, OF_THE_TOOLCHAIN, &optional].concat();
        let is_met = |program: &str| {
            let is_required =
                REQUIREMENTS.iter().any(|requirement| requirement.what_to_do().contains(program));
            always.contains(&program) || is_required
        };
        let unmet: Vec<_> = started.iter().filter(|program| !is_met(program)).collect();
        assert!(unmet.is_empty(), "not in REQUIREMENTS: {unmet:?}");
    }

    fn collect_programs(folder: &Path, started: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                collect_programs(&path, started);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).unwrap();
                // clap has a `Command` of its own.
                let named = text.split("Command::new(\"").skip(1).filter(|_| text.contains("std::process"));
                started.extend(named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
    }
}
