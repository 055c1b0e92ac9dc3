//! One pass over a JSON text that finds violations of the rules. It keeps no values, only the keys
//! of open objects.

use std::borrow::Cow;
use std::collections::HashSet;

use super::number::scan_number;
use super::text::scan_string;
use crate::limits::{MAX_JSON_DEPTH, MAX_JSON_KEY_BYTES, MAX_JSON_VALUES};

/// Why a text is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct JsonFault {
    /// Description of the fault.
    pub what: &'static str,
    /// Byte offset of the fault.
    pub offset: usize,
    /// JSON Pointer to the value that was being read.
    pub path: String,
}

/// Checks `bytes` by all the rules and returns them as text.
pub fn check_json(bytes: &[u8]) -> Result<&str, JsonFault> {
    let fault = |offset, what| JsonFault { what, offset, path: String::new() };
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(fault(0, "The body begins with a byte order mark; remove it"));
    }
    let text =
        std::str::from_utf8(bytes).map_err(|error| fault(error.valid_up_to(), "The body is not UTF-8"))?;
    let mut scan = Scan { text, at: 0, open: Vec::new(), values: 0 };
    match scan.run() {
        Ok(()) => Ok(text),
        Err((offset, what)) => Err(JsonFault { what, offset, path: scan.path() }),
    }
}

/// More keys than this are hashed.
const FEW_KEYS: usize = 16;

type Fault = (usize, &'static str);

struct Scan<'a> {
    text: &'a str,
    at: usize,
    open: Vec<OpenContainer<'a>>,
    values: usize,
}

/// An open array or object.
enum OpenContainer<'a> {
    Array { index: usize },
    Object { seen: SeenKeys<'a>, key: Cow<'a, str> },
}

/// The keys of one object. A few are faster to compare than to hash.
enum SeenKeys<'a> {
    Few(Vec<Cow<'a, str>>),
    Many(HashSet<Cow<'a, str>>),
}

impl<'a> SeenKeys<'a> {
    /// Adds `key`; returns false for a duplicate.
    fn insert(&mut self, key: Cow<'a, str>) -> bool {
        match self {
            SeenKeys::Few(keys) if keys.contains(&key) => false,
            SeenKeys::Few(keys) if keys.len() < FEW_KEYS => {
                keys.push(key);
                true
            }
            SeenKeys::Few(keys) => {
                let mut many: HashSet<_> = keys.drain(..).collect();
                many.insert(key);
                *self = SeenKeys::Many(many);
                true
            }
            SeenKeys::Many(keys) => keys.insert(key),
        }
    }
}

impl<'a> Scan<'a> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn run(&mut self) -> Result<(), Fault> {
        if self.peek().is_none() {
            return Err((self.at, "The body is empty; send one JSON value"));
        }
        loop {
            if self.value()? {
                continue;
            }
            // A value has ended: close its containers, or continue with the next one.
            loop {
                let next = self.peek();
                match (self.open.last_mut(), next) {
                    (None, None) => return Ok(()),
                    (None, Some(_)) => return Err((self.at, "Something follows the JSON value")),
                    (Some(OpenContainer::Array { .. }), Some(b']'))
                    | (Some(OpenContainer::Object { .. }), Some(b'}')) => {
                        self.at += 1;
                        self.open.pop();
                    }
                    (Some(OpenContainer::Array { index }), Some(b',')) => {
                        *index += 1;
                        self.at += 1;
                        break;
                    }
                    (Some(OpenContainer::Object { .. }), Some(b',')) => {
                        self.at += 1;
                        self.key()?;
                        break;
                    }
                    (Some(_), None) => return Err((self.at, "The JSON value has no end")),
                    (Some(_), Some(_)) => return Err((self.at, "A comma or a closing bracket is missing")),
                }
            }
        }
    }

    /// Reads the beginning of a value. `true`: it opened a non-empty array or object, and its first
    /// value comes next.
    fn value(&mut self) -> Result<bool, Fault> {
        self.count()?;
        let begin = self.peek();
        match begin {
            Some(b'{') => {
                self.enter(OpenContainer::Object {
                    seen: SeenKeys::Few(Vec::new()),
                    key: Cow::Borrowed(""),
                })?;
                if self.peek() == Some(b'}') {
                    return Ok(false);
                }
                self.key()?;
                Ok(true)
            }
            Some(b'[') => {
                self.enter(OpenContainer::Array { index: 0 })?;
                Ok(self.peek() != Some(b']'))
            }
            Some(b'"') => {
                (_, self.at) = scan_string(self.text, self.at + 1)?;
                Ok(false)
            }
            Some(b'-' | b'0'..=b'9') => {
                let length = scan_number(&self.text.as_bytes()[self.at..]).map_err(|what| (self.at, what))?;
                self.at += length;
                Ok(false)
            }
            _ => {
                let rest = &self.text[self.at..];
                let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word));
                self.at += word.ok_or((self.at, "A JSON value is missing here"))?.len();
                Ok(false)
            }
        }
    }

    fn enter(&mut self, opened: OpenContainer<'a>) -> Result<(), Fault> {
        if self.open.len() >= MAX_JSON_DEPTH {
            return Err((self.at, "The body is nested too deeply"));
        }
        self.at += 1;
        self.open.push(opened);
        Ok(())
    }

    fn count(&mut self) -> Result<(), Fault> {
        self.values += 1;
        match self.values > MAX_JSON_VALUES {
            true => Err((self.at, "The body has too many values")),
            false => Ok(()),
        }
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<(), Fault> {
        self.count()?;
        if self.peek() != Some(b'"') {
            return Err((self.at, "A key in quotes is missing here"));
        }
        let begin = self.at;
        let (said, end) = scan_string(self.text, begin + 1)?;
        if said.len() > MAX_JSON_KEY_BYTES {
            return Err((begin, "A key is too long"));
        }
        if let Some(OpenContainer::Object { seen, key }) = self.open.last_mut() {
            *key = said.clone();
            if !seen.insert(said) {
                return Err((begin, "A key is given twice in one object"));
            }
        }
        self.at = end;
        if self.peek() != Some(b':') {
            return Err((self.at, "A colon is missing after a key"));
        }
        self.at += 1;
        Ok(())
    }

    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| match open {
            OpenContainer::Array { index } => format!("{path}/{index}"),
            OpenContainer::Object { key, .. } => {
                format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
            }
        })
    }
}
