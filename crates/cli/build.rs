//! Text of `hapax --version`: the version, the commit and the profile.
//!
//! A build for work on Hapax names no commit, so that a commit alone does not compile the command anew.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=HAPAX_COMMIT");
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo says it");
    let profile = profile();
    let is_for_work = std::env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let commit = given_commit().or_else(|| if is_for_work { None } else { checked_out_commit() });
    let shown = match commit {
        Some(commit) => format!("{version} (commit {commit}, {profile} build)"),
        None => format!("{version} ({profile} build)"),
    };
    println!("cargo:rustc-env=HAPAX_VERSION={shown}");
    // Cargo drops `strip = true` of a profile for a package that overrides anything else of it, as this one does.
    if !is_for_work {
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
    }
}

/// For builds outside of a checkout.
fn given_commit() -> Option<String> {
    std::env::var("HAPAX_COMMIT").ok().filter(|commit| !commit.is_empty())
}

/// The profile by its own name. `PROFILE` tells only which of cargo's two it is like.
fn profile() -> String {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says it"));
    // target/PROFILE/build/hapax-cli-HASH/out
    let name = out.ancestors().nth(3).and_then(Path::file_name);
    name.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The last line of what git notes about HEAD names the commit that is checked out.
fn checked_out_commit() -> Option<String> {
    let log = git_folder()?.join("logs/HEAD");
    let text = fs::read_to_string(&log).ok()?;
    println!("cargo:rerun-if-changed={}", log.display());
    let commit = text.lines().last()?.split_whitespace().nth(1)?;
    Some(commit.chars().take(12).collect())
}

/// A folder, or in a second working tree a file that names one.
fn git_folder() -> Option<PathBuf> {
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?).ancestors().nth(2)?.to_owned();
    let git = root.join(".git");
    match fs::read_to_string(&git) {
        Ok(text) => Some(root.join(text.strip_prefix("gitdir:")?.trim())),
        Err(_) => Some(git),
    }
}
