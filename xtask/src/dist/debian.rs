//! The Debian package: the program, a systemd unit and its settings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Release, archive, put_text};
use crate::tool::Tool;

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let tree = release.staging("debian")?;
    let packaging = release.root.join("packaging/debian");
    release.put_program(&tree.join("usr/bin/hapax"))?;
    release.put(&packaging.join("hapax.service"), &tree.join("lib/systemd/system/hapax.service"), 0o644)?;
    release.put(&packaging.join("hapax.toml"), &tree.join("etc/hapax/hapax.toml"), 0o644)?;
    let doc = tree.join("usr/share/doc/hapax");
    release.put(&release.root.join("README.md"), &doc.join("README.md"), 0o644)?;
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| fs::read_to_string(release.root.join(name)));
    let [mit, apache] = licences;
    put_text(
        &doc.join("copyright"),
        format!("Licence: MIT or Apache-2.0, as you like.\n\n{}\n{}", mit?, apache?),
        0o644,
    )?;
    for (file, script) in archive::completions(release)? {
        let place = match file {
            "_hapax" => "usr/share/zsh/vendor-completions/_hapax",
            "hapax.fish" => "usr/share/fish/vendor_completions.d/hapax.fish",
            _ => "usr/share/bash-completion/completions/hapax",
        };
        put_text(&tree.join(place), script, 0o644)?;
    }
    let kilobytes = size_of(&tree)?.div_ceil(1024).to_string();
    // A tilde sorts before the end of a version in Debian; a hyphen does not.
    let version = release.version.replace('-', "~");
    let words = [
        ("VERSION", version.as_str()),
        ("ARCHITECTURE", release.platform.debian),
        ("INSTALLED_SIZE", &kilobytes),
        ("GLIBC", &release.glibc),
    ];
    put_text(&tree.join("DEBIAN/control"), release.fill_in("debian/control", &words)?, 0o644)?;
    release.put(&packaging.join("conffiles"), &tree.join("DEBIAN/conffiles"), 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        release.put(&packaging.join(script), &tree.join("DEBIAN").join(script), 0o755)?;
    }
    let package = release.out.join(format!("hapax_{version}_{}.deb", release.platform.debian));
    Tool::new("dpkg-deb")
        .args(["--root-owner-group", "-Zxz", "--build"])
        .args([&tree, &package])
        .env("SOURCE_DATE_EPOCH", &release.moment)
        .run()?;
    Ok(package)
}

fn size_of(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => size_of(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}
