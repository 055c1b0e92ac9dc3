//! The program alone, for manual installation.

use std::path::PathBuf;

use anyhow::Result;

use super::{Release, put_text};
use crate::tool::Tool;

const SHELLS: [(&str, &str); 3] = [("bash", "hapax.bash"), ("zsh", "_hapax"), ("fish", "hapax.fish")];

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let name = format!("hapax-{}-linux-{}", release.version, release.platform.npm_cpu);
    let folder = release.staging("archive")?;
    let inside = folder.join(&name);
    release.put_program(&inside.join("hapax"))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        release.put(&release.root.join(file), &inside.join(file), 0o644)?;
    }
    for (file, script) in completions(release)? {
        put_text(&inside.join("completions").join(file), script, 0o644)?;
    }
    let archive = release.out.join(format!("{name}.tar.gz"));
    release.pack(&folder, &name, &archive)?;
    Ok(archive)
}

/// Shell completions, by the file name that each shell expects.
pub(super) fn completions(release: &Release) -> Result<Vec<(&'static str, String)>> {
    let script = |shell| Tool::new(&release.program).args(["completions", shell]).output();
    SHELLS.into_iter().map(|(shell, file)| Ok((file, script(shell)?))).collect()
}
