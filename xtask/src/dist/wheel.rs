//! The wheel for pip and uv: the program and the Python SDK. Python makes it, because it can write zip files.

use std::path::PathBuf;

use anyhow::Result;

use super::Release;
use crate::tool::Tool;

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let tag = format!("manylinux_{}_{}", release.glibc.replace('.', "_"), release.platform.python);
    let root = release.root;
    let made = Tool::new("python3")
        .arg(root.join("packaging/pypi/make_wheel.py"))
        .args([release.version.as_str(), &tag])
        .arg(&release.program)
        .args(["README.md", "LICENSE-MIT", "LICENSE-APACHE"].map(|file| root.join(file)))
        .arg(&release.out)
        .env("SOURCE_DATE_EPOCH", &release.moment)
        .output()?;
    Ok(PathBuf::from(made.trim()))
}
