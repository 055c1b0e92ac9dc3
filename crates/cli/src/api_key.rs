//! Where an API key may come from: the environment, a file, standard input; never the command line, which others can see.

use std::path::Path;

use anyhow::{Context, Result};
use secrecy::SecretString;

use crate::bounded_file;
use crate::exit_codes::NoKey;
use crate::limits::MAX_KEY_FILE_BYTES;
use crate::output::say;

const VARIABLE: &str = "HAPAX_API_KEY";

/// The key: from the file if one is named, else from the environment.
pub(crate) fn read(file: Option<&Path>) -> Result<SecretString> {
    let text = match file {
        Some(path) => from_file(path)?,
        None => from_environment()?,
    };
    let key = text.trim();
    if key.is_empty() || key.chars().any(char::is_whitespace) {
        return Err(
            NoKey("an API key is one word that begins with hpx_; what was given is not".into()).into()
        );
    }
    Ok(SecretString::from(key))
}

fn from_environment() -> Result<String> {
    let nothing = || {
        NoKey(format!("no API key: set {VARIABLE}, or name a file that holds it with --api-key-file PATH"))
    };
    match std::env::var(VARIABLE) {
        Ok(key) if !key.trim().is_empty() => Ok(key),
        Ok(_) | Err(std::env::VarError::NotPresent) => Err(nothing().into()),
        Err(std::env::VarError::NotUnicode(_)) => Err(NoKey(format!("{VARIABLE} is not text")).into()),
    }
}

fn from_file(path: &Path) -> Result<String> {
    let text = bounded_file::read_text(path, MAX_KEY_FILE_BYTES);
    let text = text.context("the API key cannot be read").map_err(|error| NoKey(format!("{error:#}")))?;
    if path.as_os_str() != "-" && is_open_to_others(path) {
        say(&format!(
            "hapax: warning: others on this machine can read {0}; close it with: chmod 600 {0}",
            path.display()
        ));
    }
    Ok(text)
}

/// Whether anybody but its owner may look at it.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::*;

    /// RELIABILITY, CLI: credential file mode 0644.
    #[test]
    fn a_file_that_others_can_read_is_told_from_one_they_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "hpx_abc\n").unwrap();
        for (mode, is_open) in [(0o644, true), (0o640, true), (0o604, true), (0o600, false), (0o400, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_others(&path), is_open, "{mode:o}");
        }
        assert_eq!(read(Some(&path)).unwrap().expose_secret(), "hpx_abc", "without the line feed at its end");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for bad in ["", " \n", "hpx_a hpx_b"] {
            std::fs::write(&path, bad).unwrap();
            assert!(read(Some(&path)).unwrap_err().is::<NoKey>(), "{bad:?}");
        }
    }
}
