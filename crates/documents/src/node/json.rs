//! JSON with the position of every value. serde_json checks the syntax; the walk below only visits valid text.

use std::collections::HashSet;

use super::{Kind, Node, check_text};
use crate::limits::{MAX_DOCUMENT_DEPTH, MAX_DOCUMENT_VALUES};
use crate::problem::{Position, Problems, below, excerpt};

pub(super) fn read(text: &str, problems: &mut Problems) -> Option<Node> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let at = Position { line: narrow(error.line()), column: narrow(error.column()) };
        problems.error("", Some(at), "syntax", format!("it is not JSON: {error}"));
        return None;
    }
    let mut walk = JsonReader { text, offset: 0, line: 1, column: 1, values: 0, problems };
    walk.value("", 0)
}

fn too_deep() -> String {
    format!("it is nested deeper than {MAX_DOCUMENT_DEPTH} levels")
}

struct JsonReader<'a> {
    text: &'a str,
    offset: usize,
    line: usize,
    column: usize,
    values: usize,
    problems: &'a mut Problems,
}

impl<'a> JsonReader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.offset..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.offset += c.len_utf8();
        match c {
            '\n' => (self.line, self.column) = (self.line + 1, 1),
            _ => self.column += 1,
        }
        Some(c)
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.next();
        }
    }

    fn white(&mut self) {
        self.skip(|c| c.is_ascii_whitespace());
    }

    fn here(&self) -> Position {
        Position { line: narrow(self.line), column: narrow(self.column) }
    }

    /// The text of the token that begins at `start`.
    fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.offset]
    }

    fn string(&mut self, path: &str) -> Option<String> {
        let (start, at) = (self.offset, self.here());
        self.next();
        while let Some(c) = self.next() {
            match c {
                '\\' => drop(self.next()),
                '"' => break,
                _ => {}
            }
        }
        match serde_json::from_str::<String>(self.since(start)) {
            Ok(text) => {
                check_text(&text, path, Some(at), self.problems);
                Some(text)
            }
            Err(error) => {
                self.problems.error(path, Some(at), "syntax", format!("it is not a JSON text: {error}"));
                None
            }
        }
    }

    fn value(&mut self, path: &str, depth: usize) -> Option<Node> {
        self.white();
        let at = self.here();
        self.values += 1;
        if self.values > MAX_DOCUMENT_VALUES {
            let message = format!("it has more than {MAX_DOCUMENT_VALUES} values");
            self.problems.error("", Some(at), "too_large", message);
            return None;
        }
        if depth > MAX_DOCUMENT_DEPTH {
            self.problems.error(path, Some(at), "too_deep", too_deep());
            return None;
        }
        let kind = match self.peek()? {
            '{' => Kind::Object(self.object(path, depth)?),
            '[' => Kind::List(self.list(path, depth)?),
            '"' => Kind::Text(self.string(path)?),
            _ => {
                let start = self.offset;
                self.skip(|c| !matches!(c, ',' | ']' | '}') && !c.is_ascii_whitespace());
                match self.since(start) {
                    "null" => Kind::Null,
                    "true" => Kind::Bool(true),
                    "false" => Kind::Bool(false),
                    number if is_beyond_64_bits(number) => {
                        let message = format!(
                            "{} is beyond 64 bits and would lose digits; write it as a text",
                            excerpt(number)
                        );
                        self.problems.error(path, Some(at), "number", message);
                        return None;
                    }
                    number => match serde_json::from_str(number) {
                        Ok(number) => Kind::Number(number),
                        Err(error) => {
                            let message = format!("{} is not a usable number: {error}", excerpt(number));
                            self.problems.error(path, Some(at), "number", message);
                            return None;
                        }
                    },
                }
            }
        };
        Some(Node { at: Some(at), kind })
    }

    fn list(&mut self, path: &str, depth: usize) -> Option<Vec<Node>> {
        self.next();
        let mut items = Vec::new();
        loop {
            self.white();
            match self.peek()? {
                ']' => {
                    self.next();
                    return Some(items);
                }
                ',' => drop(self.next()),
                _ => {
                    let path = below(path, items.len());
                    items.push(self.value(&path, depth + 1)?);
                }
            }
        }
    }

    fn object(&mut self, path: &str, depth: usize) -> Option<Vec<(String, Node)>> {
        self.next();
        let (mut fields, mut seen) = (Vec::new(), HashSet::new());
        loop {
            self.white();
            match self.peek()? {
                '}' => {
                    self.next();
                    return Some(fields);
                }
                ',' => drop(self.next()),
                _ => {
                    let at = self.here();
                    let key = self.string(path)?;
                    self.white();
                    self.next();
                    let inside = below(path, excerpt(&key));
                    let value = self.value(&inside, depth + 1)?;
                    if seen.insert(key.clone()) {
                        fields.push((key, value));
                    } else {
                        let message = format!("{:?} is here twice; keep one", excerpt(&key));
                        self.problems.error(&inside, Some(at), "duplicate_key", message);
                    }
                }
            }
        }
    }
}

/// An integer that would lose precision.
fn is_beyond_64_bits(number: &str) -> bool {
    let is_whole = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
