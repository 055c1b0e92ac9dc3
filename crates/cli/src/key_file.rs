//! Files for new keys, readable only by their owner.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes a key into a new file that only its owner can read. An existing file is not changed: it
/// may hold another key.
pub(crate) fn write(path: &Path, key: &str) -> Result<()> {
    let written = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        writeln!(file, "{key}")?;
        file.sync_all()
    };
    written().with_context(|| format!("the key cannot be written into {}", path.display()))
}

/// Rejects an unusable path before there is a key to write.
pub(crate) fn check(path: &Path) -> Result<()> {
    anyhow::ensure!(
        !path.exists(),
        "{} already exists, and may hold another key; name a new file",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_for_its_owner_alone_and_no_other_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("first.key");
        assert!(check(&path).is_ok());
        write(&path, "hpx_1").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(&path, "hpx_2").is_err() && check(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "hpx_1\n");
    }
}
