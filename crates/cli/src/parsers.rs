//! Parsers of arguments: names, JSON, durations.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use hapax_api::{JsonObject, RawJson};
use hapax_documents::Span;

use crate::bounded_file;
use crate::limits::{MAX_JSON_BYTES, MAX_WAIT_AT_ONCE, MAX_WORD_CHARS};

/// An id, a name or a key: not empty, and bounded.
pub(crate) fn word(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0 => Err("it is empty".into()),
        count if count > MAX_WORD_CHARS => Err(format!("it has more than {MAX_WORD_CHARS} characters")),
        _ => Ok(text.to_owned()),
    }
}

/// A duration such as 500ms, 30s, 24h or 7d.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    // Documents have no use for a duration of nothing; `--wait 0s` has.
    match text {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        text => Span::parse(text).map(Span::get),
    }
}

/// A duration in whole seconds, rounded up.
pub(crate) fn seconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// A duration that one request may wait for.
pub(crate) fn wait_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time > MAX_WAIT_AT_ONCE => Err(format!("use at most {} s", MAX_WAIT_AT_ONCE.as_secs())),
        time => Ok(time),
    }
}

/// Any JSON value.
pub(crate) fn json(text: &str) -> Result<RawJson, String> {
    RawJson::from_text(text.trim().to_owned())
        .map_err(|error| format!("it is not JSON ({error}); a text needs quotes of its own: '\"tx-41\"'"))
}

/// A JSON object.
pub(crate) fn object(text: &str) -> Result<JsonObject, String> {
    JsonObject::from_json(json(text)?).ok_or_else(|| "it is no object: {…}".into())
}

/// Any JSON value, or `@` and the file that holds one.
pub(crate) fn json_or_file(text: &str) -> Result<RawJson, String> {
    json(&text_or_file(text)?)
}

/// A JSON object, or `@` and the file that holds one.
pub(crate) fn object_or_file(text: &str) -> Result<JsonObject, String> {
    object(&text_or_file(text)?)
}

fn text_or_file(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        Some(path) => {
            bounded_file::read_text(path.as_ref(), MAX_JSON_BYTES).map_err(|error| format!("{error:#}"))
        }
        None => Ok(text.to_owned()),
    }
}

/// A JSON object, from the command line or from a file.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(crate) struct InputOptions {
    /// Input of the run, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = object)]
    input: Option<JsonObject>,
    /// File with the input; - is standard input.
    #[arg(long, value_name = "PATH")]
    input_file: Option<PathBuf>,
}

impl InputOptions {
    /// The object; an empty one if none was given.
    pub(crate) fn read(&self) -> Result<JsonObject> {
        let Some(path) = &self.input_file else { return Ok(self.input.clone().unwrap_or_default()) };
        let text = bounded_file::read_text(path, MAX_JSON_BYTES)?;
        object(&text).map_err(anyhow::Error::msg).with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RELIABILITY, CLI: empty and endless arguments.
    #[test]
    fn a_word_says_something_and_ends() {
        assert_eq!(word("run_1").unwrap(), "run_1");
        assert!(word("").is_err());
        assert!(word(&"x".repeat(1_000_000)).is_err());
    }

    #[test]
    fn a_value_is_json_and_keeps_its_text() {
        assert_eq!(object(" {\"a\": 1.0} ").unwrap().text(), "{\"a\": 1.0}");
        for bad in ["", "[]", "{", "tx-41", "{} {}"] {
            assert!(object(bad).is_err(), "{bad}");
        }
        assert!(json("tx-41").unwrap_err().contains("quotes"));
    }

    #[test]
    fn a_value_may_stand_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, "{\"a\": 1}\n").unwrap();
        let named = format!("@{}", path.display());
        assert_eq!(object_or_file(&named).unwrap().text(), "{\"a\": 1}");
        assert_eq!(json_or_file("[1]").unwrap().text(), "[1]");
        for bad in ["@", "@/no/such/file", &format!("@{}", folder.path().display()), "[1]"] {
            assert!(object_or_file(bad).is_err(), "{bad}");
        }
    }
}
