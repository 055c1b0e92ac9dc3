//! The npm packages: one with the command, and one per platform with the program.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Release, put_text};

/// The program, in a package that npm installs only on its platform.
pub(super) fn make_platform(release: &Release) -> Result<PathBuf> {
    let folder = release.staging("npm-platform")?;
    let inside = folder.join("package");
    let words = [("OS", "linux"), ("CPU", release.platform.npm_cpu)];
    put_text(&inside.join("package.json"), release.fill_in("npm/platform/package.json", &words)?, 0o644)?;
    release.put_program(&inside.join("bin/hapax"))?;
    finish(release, &folder, &inside, &format!("hapax-linux-{}", release.platform.npm_cpu))
}

/// The command, which starts the program of its platform.
pub(super) fn make_command(release: &Release) -> Result<PathBuf> {
    let folder = release.staging("npm-command")?;
    let inside = folder.join("package");
    put_text(&inside.join("package.json"), release.fill_in("npm/hapax/package.json", &[])?, 0o644)?;
    let packaging = release.root.join("packaging/npm/hapax");
    release.put(&packaging.join("bin/hapax.js"), &inside.join("bin/hapax.js"), 0o755)?;
    release.put(&release.root.join("README.md"), &inside.join("README.md"), 0o644)?;
    finish(release, &folder, &inside, "hapax")
}

fn finish(release: &Release, folder: &Path, inside: &Path, name: &str) -> Result<PathBuf> {
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        release.put(&release.root.join(licence), &inside.join(licence), 0o644)?;
    }
    let package = release.out.join(format!("{name}-{}.tgz", release.version));
    release.pack(folder, "package", &package)?;
    Ok(package)
}
