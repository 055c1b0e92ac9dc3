//! Durations in documents.

use std::time::Duration;

use hapax_engine::duration_text::{format_duration, parse_duration};
use serde::{Serialize, Serializer};

/// A duration longer than zero and at most as long as the engine allows, written as text: `30s`, `24h`, `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

impl Span {
    /// Parses `text`. The error says what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Span)
    }

    /// The duration.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The text in the largest units that express the duration exactly; [`parse`](Span::parse) reads it.
    pub fn to_text(self) -> String {
        format_duration(self.0)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}
