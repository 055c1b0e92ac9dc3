//! Audit entries in a file. Each line contains the hash of all lines before it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use hapax_api::JournalEntry;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::bounded_file;
use crate::limits::{MAX_AUDIT_KEY_BYTES, MAX_AUDIT_LINE_BYTES, MIN_AUDIT_KEY_BYTES};

/// Hash before the first line.
const BEGINNING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Key of a chain. Without a key, anybody with write access to the file can create a new chain.
pub(super) struct ChainKey(Option<Vec<u8>>);

impl ChainKey {
    pub(super) fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(ChainKey(None)) };
        let text = bounded_file::read_text(path, MAX_AUDIT_KEY_BYTES).context("chain-key-file")?;
        let key = text.trim_end().as_bytes().to_vec();
        ensure!(
            key.len() >= MIN_AUDIT_KEY_BYTES,
            "chain-key-file: a key has at least {MIN_AUDIT_KEY_BYTES} bytes; make one with: openssl rand -base64 32"
        );
        Ok(ChainKey(Some(key)))
    }

    fn hash(&self, sequence: u64, previous: &str, entry: &str) -> String {
        let head = format!("{sequence}\n{previous}\n");
        let bytes = match &self.0 {
            None => Sha256::new().chain_update(&head).chain_update(entry).finalize().to_vec(),
            Some(key) => {
                let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is fine");
                mac.update(head.as_bytes());
                mac.update(entry.as_bytes());
                mac.finalize().into_bytes().to_vec()
            }
        };
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'l> {
    sequence: u64,
    previous: String,
    #[serde(borrow)]
    entry: &'l RawValue,
    hash: String,
}

/// Content of a file, checked line by line.
#[derive(Debug, PartialEq)]
pub(super) struct Chain {
    /// The entries by their ids.
    pub(super) entries: BTreeMap<String, serde_json::Value>,
    pub(super) first_at: Option<String>,
    /// Time of the newest entry.
    pub(super) last_at: Option<String>,
    pub(super) count: u64,
    /// Hash of the last line. Kept elsewhere, it shows whether lines were cut off.
    pub(super) head: String,
}

impl Chain {
    fn empty() -> Self {
        Chain { entries: BTreeMap::new(), first_at: None, last_at: None, count: 0, head: BEGINNING.into() }
    }

    /// Reads a file and checks every line. A file that is absent is an empty chain.
    pub(super) fn read(path: &Path, key: &ChainKey) -> Result<Self> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Chain::empty()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let mut chain = Chain::empty();
        let mut reader = BufReader::new(file);
        for number in 1_u64.. {
            let mut line = String::new();
            let read = reader.read_line(&mut line).with_context(|| path.display().to_string())?;
            if read == 0 {
                break;
            }
            ensure!(read <= MAX_AUDIT_LINE_BYTES, "line {number} is longer than any entry");
            let Some(line) = line.strip_suffix('\n') else {
                bail!(
                    "{}, line {number} is cut off: an export ended while it wrote. `hapax audit export` removes it and goes on",
                    path.display()
                );
            };
            chain.follow(line, key).with_context(|| format!("{}, line {number}", path.display()))?;
        }
        Ok(chain)
    }

    /// Removes a last line that an export left incomplete because it died. Its entries are exported again.
    pub(super) fn remove_cut_off_line(path: &Path) -> Result<()> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let (mut reader, mut complete, mut line) = (BufReader::new(&file), 0, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).with_context(|| path.display().to_string())?;
            if line.last() != Some(&b'\n') {
                break;
            }
            complete += read as u64;
        }
        if !line.is_empty() {
            file.set_len(complete)
                .and_then(|()| file.sync_data())
                .with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    fn follow(&mut self, line: &str, key: &ChainKey) -> Result<()> {
        let line: Line<'_> = serde_json::from_str(line).context("it is no line of an audit chain")?;
        ensure!(line.sequence == self.count + 1, "a line is missing, repeated or out of order");
        ensure!(line.previous == self.head, "it does not follow the line before it: a line was changed");
        let expected = key.hash(line.sequence, &line.previous, line.entry.get());
        ensure!(
            line.hash == expected,
            "its hash does not fit: the line was changed, or the key is another one"
        );
        let value: serde_json::Value = serde_json::from_str(line.entry.get())?;
        let text = |name: &str| value.get(name).and_then(|text| text.as_str()).map(ToOwned::to_owned);
        let (Some(id), Some(at)) = (text("id"), text("at")) else { bail!("the entry has no id or no time") };
        self.first_at.get_or_insert_with(|| at.clone());
        self.last_at = self.last_at.take().max(Some(at));
        ensure!(self.entries.insert(id, value).is_none(), "the entry is there twice");
        self.count = line.sequence;
        self.head = line.hash;
        Ok(())
    }

    /// Appends entries to the file, and waits until they are on the disk.
    pub(super) fn append(&mut self, path: &Path, key: &ChainKey, entries: &[JournalEntry]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        for entry in entries {
            let entry = serde_json::value::to_raw_value(entry)?;
            let (sequence, previous) = (self.count + 1, self.head.clone());
            let hash = key.hash(sequence, &previous, entry.get());
            let line = serde_json::to_string(&Line { sequence, previous, entry: &entry, hash })?;
            self.follow(&line, key)?;
            text.push_str(&line);
            text.push('\n');
        }
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let mut file = opened.with_context(|| path.display().to_string())?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_data())
            .with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32) -> JournalEntry {
        let text = format!(r#"{{"id":"aud_{id}","at":"2026-01-31T12:00:{id:02}Z","what":"steered"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn written(folder: &Path, key: &ChainKey) -> (std::path::PathBuf, Vec<String>) {
        let path = folder.join("audit.jsonl");
        let mut chain = Chain::read(&path, key).unwrap();
        chain.append(&path, key, &[entry(1), entry(2)]).unwrap();
        let mut chain = Chain::read(&path, key).unwrap();
        chain.append(&path, key, &[entry(3)]).unwrap();
        assert_eq!(Chain::read(&path, key).unwrap(), chain);
        assert_eq!((chain.count, chain.entries.len()), (3, 3));
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text.lines().map(ToOwned::to_owned).collect())
    }

    #[test]
    fn whatever_is_changed_in_a_chain_is_noticed_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let key = ChainKey(None);
        let (path, lines) = written(folder.path(), &key);
        let read = |lines: &[String]| {
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            Chain::read(&path, &key).map_err(|error| format!("{error:#}"))
        };
        assert!(read(&lines).is_ok());
        let changed = vec![lines[0].clone(), lines[1].replace("12:00:02", "12:00:09"), lines[2].clone()];
        assert!(read(&changed).unwrap_err().contains("line 2"));
        let missing = [lines[0].clone(), lines[2].clone()];
        assert!(read(&missing).unwrap_err().contains("line 2"));
        let swapped = [lines[1].clone(), lines[0].clone(), lines[2].clone()];
        assert!(read(&swapped).unwrap_err().contains("line 1"));
        let cut = read(&lines[..2]).unwrap();
        assert_ne!(cut.head, read(&lines).unwrap().head, "what is cut off shows in the head");
    }

    #[test]
    fn a_line_that_was_cut_off_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let key = ChainKey(None);
        let (path, lines) = written(folder.path(), &key);
        let torn = format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..40]);
        std::fs::write(&path, torn).unwrap();
        let told = Chain::read(&path, &key).unwrap_err().to_string();
        assert!(told.contains("line 3 is cut off"), "{told}");
        Chain::remove_cut_off_line(&path).unwrap();
        let mut chain = Chain::read(&path, &key).unwrap();
        assert_eq!(chain.count, 2);
        chain.append(&path, &key, &[entry(3)]).unwrap();
        Chain::remove_cut_off_line(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), lines.join("\n") + "\n");
        Chain::remove_cut_off_line(&folder.path().join("absent")).unwrap();
    }

    #[test]
    fn without_the_key_nobody_makes_a_chain_that_counts() {
        let folder = tempfile::tempdir().unwrap();
        let key = |text: &str| ChainKey(Some(text.as_bytes().to_vec()));
        let (path, _) = written(folder.path(), &key("the key of the auditors"));
        assert!(Chain::read(&path, &key("another key")).is_err());
        assert!(Chain::read(&path, &ChainKey(None)).is_err());
        let short = folder.path().join("key");
        std::fs::write(&short, "short\n").unwrap();
        assert!(ChainKey::read(Some(&short)).is_err());
    }
}
