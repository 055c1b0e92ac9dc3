//! API keys from the environment, a file or standard input. Others can see the command line, so keys never come from there.

use std::path::Path;

use anyhow::{Context, Result};
use secrecy::SecretString;

use crate::bounded_file;
use crate::exit_codes::MissingApiKey;
use crate::limits::MAX_KEY_FILE_BYTES;
use crate::output::say;

pub(crate) const VARIABLE: &str = "HAPAX_API_KEY";

/// The key in `text`, which may have blanks around it.
pub(crate) fn check(text: &str) -> Result<SecretString> {
    let key = text.trim();
    if key.is_empty() || key.chars().any(char::is_whitespace) {
        return Err(
            MissingApiKey("an API key is one word that begins with hpx_; this is not one".into()).into()
        );
    }
    Ok(SecretString::from(key))
}

/// The key in the environment, if there is one.
pub(crate) fn from_environment() -> Result<Option<SecretString>> {
    match std::env::var(VARIABLE) {
        Ok(key) if !key.trim().is_empty() => check(&key).map(Some),
        Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(MissingApiKey(format!("{VARIABLE} is not text")).into())
        }
    }
}

/// The key in a file; - is standard input.
pub(crate) fn from_file(path: &Path) -> Result<SecretString> {
    let text = bounded_file::read_text(path, MAX_KEY_FILE_BYTES);
    let text =
        text.context("the API key cannot be read").map_err(|error| MissingApiKey(format!("{error:#}")))?;
    if path.as_os_str() != "-" && is_open_to_others(path) {
        say(&format!(
            "hapax: warning: others on this machine can read {0}; close it with: chmod 600 {0}",
            path.display()
        ));
    }
    check(&text)
}

/// Is the file readable by others than its owner?
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
        assert_eq!(from_file(&path).unwrap().expose_secret(), "hpx_abc", "without the line feed at its end");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for bad in ["", " \n", "hpx_a hpx_b"] {
            std::fs::write(&path, bad).unwrap();
            assert!(from_file(&path).unwrap_err().is::<MissingApiKey>(), "{bad:?}");
        }
    }
}
