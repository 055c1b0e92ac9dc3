//! Reads regular files and standard input, up to a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::output::tables::plain;

/// The bytes of the file at `path`, or of standard input for `-`.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        return read_all(io::stdin().lock(), most).context("standard input");
    }
    let shown = plain(&path.display().to_string());
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let kind = std::fs::metadata(path).with_context(|| shown.clone())?.file_type();
    if kind.is_dir() {
        bail!("{shown}: it is a folder; name a file");
    }
    if !kind.is_file() {
        bail!("{shown}: it is not a regular file; give - to read standard input");
    }
    let file = File::open(path).with_context(|| shown.clone())?;
    read_all(file, most).with_context(|| shown)
}

/// The same, as text.
pub(crate) fn read_text(path: &Path, most: u64) -> Result<String> {
    let bytes = read(path, most)?;
    let text = String::from_utf8(bytes).ok();
    let text =
        text.with_context(|| format!("{}: it is not UTF-8 text", plain(&path.display().to_string())))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn read_all(from: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        bail!("it has more than {most} bytes");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_of_bounded_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        std::fs::write(&file, "\u{feff}12345").unwrap();
        assert_eq!(read_text(&file, 100).unwrap(), "12345");
        assert!(format!("{:#}", read(&file, 7).unwrap_err()).contains("more than 7 bytes"));
        assert!(format!("{:#}", read(folder.path(), 7).unwrap_err()).contains("folder"));
        assert!(format!("{:#}", read(Path::new("/dev/null"), 7).unwrap_err()).contains("regular"));
        assert!(read(&folder.path().join("absent"), 7).is_err());
        std::fs::write(&file, b"\xff").unwrap();
        assert!(format!("{:#}", read_text(&file, 7).unwrap_err()).contains("UTF-8"));
    }
}
