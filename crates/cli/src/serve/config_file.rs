//! The configuration file.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::settings::ServeOptions;

/// Largest configuration file, in bytes.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Reads the file whole, or says what is wrong with it and where.
pub(super) fn read(path: &Path) -> Result<ServeOptions> {
    let shown = path.display();
    let about = || format!("the configuration {shown} cannot be read");
    // Checked before it is opened: opening a FIFO would block until a process writes to it.
    let metadata = std::fs::metadata(path).with_context(about)?;
    ensure!(metadata.is_file(), "the configuration {shown} is not a file");
    ensure!(
        metadata.len() <= MAX_CONFIG_BYTES,
        "the configuration {shown} has {} bytes; the limit is {MAX_CONFIG_BYTES}",
        metadata.len()
    );
    let file = std::fs::File::open(path).with_context(about)?;
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes).with_context(about)?;
    let Ok(text) = String::from_utf8(bytes) else { bail!("the configuration {shown} is not UTF-8") };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    toml::from_str(text).map_err(|error| anyhow::anyhow!("the configuration {shown} has an error:\n{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(bytes: &[u8]) -> Result<ServeOptions> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hapax.toml");
        std::fs::write(&path, bytes).unwrap();
        read(&path)
    }

    /// RELIABILITY, config files: unknown key, typo, wrong type, duplicate key; with the line.
    #[test]
    fn an_error_names_its_line() {
        for (text, named) in [
            ("listen = \"127.0.0.1:1\"\nlistem = 1\n", "line 2"),
            ("max-active = \"many\"\n", "line 1"),
            ("lease = \"1s\"\nlease = \"2s\"\n", "line 2"),
            ("= 1", "line 1"),
        ] {
            let error = read_text(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(named), "{text}: {error}");
        }
    }

    /// RELIABILITY, config files: a directory, a FIFO, too large, unreadable, CRLF, BOM, not UTF-8, a symlink loop.
    #[test]
    fn odd_files_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("not a file"));
        assert!(format!("{:#}", read(&folder.path().join("absent")).unwrap_err()).contains("cannot be read"));
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        std::os::unix::fs::symlink(&one, &two).unwrap();
        std::os::unix::fs::symlink(&two, &one).unwrap();
        assert!(format!("{:#}", read(&one).unwrap_err()).contains("cannot be read"));
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(read(&fifo).unwrap_err().to_string().contains("not a file"));
        let large = folder.path().join("large");
        std::fs::File::create(&large).unwrap().set_len(5_000_000_000).unwrap();
        assert!(read(&large).unwrap_err().to_string().contains("bytes"));
        // Nobody can read its first byte, not even root.
        let unreadable = Path::new("/proc/self/mem");
        assert!(format!("{:#}", read(unreadable).unwrap_err()).contains("cannot be read"));
        assert!(read_text(b"lease = \"\xff\"").unwrap_err().to_string().contains("UTF-8"));
        assert_eq!(read_text(b"\xef\xbb\xbflease = \"9s\"\r\n").unwrap().lease.as_deref(), Some("9s"));
    }
}
