//! The section of CHANGELOG.md for this version.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::Release;

pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let changelog = fs::read_to_string(release.root.join("CHANGELOG.md"))?;
    let notes = find_notes(&changelog, &release.version)
        .or_else(|| find_notes(&changelog, "Unreleased"))
        .context("CHANGELOG.md tells neither of this version nor of what is unreleased")?;
    let file = release.out.join("release-notes.md");
    fs::write(&file, format!("# Hapax {}\n\n{notes}\n", release.version))?;
    Ok(file)
}

/// Text between the heading of a version and the next one.
fn find_notes<'a>(changelog: &'a str, version: &str) -> Option<&'a str> {
    let heading = format!("\n## [{version}]");
    let begin = changelog.find(&heading)? + 1;
    let section = &changelog[begin..];
    let (_, notes) = section.split_once('\n')?;
    let end = notes.find("\n## [").unwrap_or(notes.len());
    Some(notes[..end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_what_stands_below_its_heading() {
        let changelog = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.2.0] - 2026-05-01\n\n- a\n- b\n\n## [0.1.0]\n\n- first\n";
        assert_eq!(find_notes(changelog, "0.2.0"), Some("- a\n- b"));
        assert_eq!(find_notes(changelog, "0.1.0"), Some("- first"));
        assert_eq!(find_notes(changelog, "Unreleased"), Some("- new"));
        assert_eq!(find_notes(changelog, "0.3.0"), None);
    }
}
