//! The npm packages: the SDK with the command, and one per platform that has the program.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Release, put_text};
use crate::tool::Tool;

/// The program, in a package that npm installs only on its platform.
pub(super) fn make_platform(release: &Release) -> Result<PathBuf> {
    let folder = release.staging("npm-platform")?;
    let inside = folder.join("package");
    let words = [("OS", "linux"), ("CPU", release.platform.npm_cpu)];
    put_text(&inside.join("package.json"), release.fill_in("npm/platform/package.json", &words)?, 0o644)?;
    release.put_program(&inside.join("bin/hapax"))?;
    finish(release, &folder, &inside, &format!("hapax-linux-{}", release.platform.npm_cpu))
}

/// The SDK, with the command that starts the program of its platform. Its own script compiles it and puts it together.
pub(super) fn make_sdk(release: &Release) -> Result<PathBuf> {
    let folder = release.staging("npm-sdk")?;
    let inside = folder.join("package");
    Tool::new("node")
        .arg(release.root.join("sdk/typescript/scripts/stage.mjs"))
        .args(["--version", release.version.as_str(), "--to"])
        .arg(&inside)
        .run()?;
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
