//! One line of a log: bounded, and safe for any content.

use std::fmt::{self, Write};

use hapax_engine::model::Timestamp;
use tracing::Level;
use tracing::field::{Field, Visit};

use super::LogFormat;
use crate::limits::{MAX_LOG_LINE_BYTES, MAX_LOG_VALUE_BYTES};

/// End of a line that was cut, and the longest end of any line.
const CUT_JSON: &str = ",\"cut\":true}\n";
const CUT_PRETTY: &str = " …\n";
const RESERVED: usize = CUT_JSON.len();

/// A line being written. Fields that no longer fit are left out, and the line says so.
pub(super) struct Line {
    format: LogFormat,
    text: String,
    is_cut: bool,
}

impl Line {
    pub(super) fn begin(format: LogFormat, colour: bool, now: Timestamp, level: Level, target: &str) -> Self {
        let mut text = String::with_capacity(256);
        let _ = match format {
            LogFormat::Json => {
                write!(text, "{{\"at\":\"{now}\",\"level\":\"{level}\",\"target\":\"{target}\"")
            }
            LogFormat::Pretty if colour => {
                write!(text, "{now} {}{level:>5}\x1b[0m {target}:", colour_of(level))
            }
            LogFormat::Pretty => write!(text, "{now} {level:>5} {target}:"),
        };
        Line { format, text, is_cut: false }
    }

    pub(super) fn end(mut self) -> String {
        self.text.push_str(match (self.format, self.is_cut) {
            (LogFormat::Json, true) => CUT_JSON,
            (LogFormat::Json, false) => "}\n",
            (LogFormat::Pretty, true) => CUT_PRETTY,
            (LogFormat::Pretty, false) => "\n",
        });
        self.text
    }

    fn add(&mut self, name: &str, value: &str, is_text: bool) {
        let kept = self.text.len();
        let is_message = name == "message";
        match self.format {
            LogFormat::Json => {
                let _ = write!(self.text, ",\"{name}\":");
                match is_text {
                    true => quote(&mut self.text, value),
                    false => self.text.push_str(value),
                }
            }
            LogFormat::Pretty => {
                self.text.push(' ');
                if !is_message {
                    let _ = write!(self.text, "{name}=");
                }
                let is_plain = |c: char| c.is_alphanumeric() || "-_.:/{}+".contains(c);
                match !is_text || (!value.is_empty() && value.chars().all(is_plain)) {
                    true => self.text.push_str(value),
                    false if is_message => escape(&mut self.text, value),
                    false => quote(&mut self.text, value),
                }
            }
        }
        if self.text.len() + RESERVED > MAX_LOG_LINE_BYTES {
            self.text.truncate(kept);
            self.is_cut = true;
        }
    }
}

/// A value as text, cut at its limit; the rest is never stored.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_LOG_VALUE_BYTES.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        self.0.push('…');
        // Stops the writer.
        Err(fmt::Error)
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Bounded(String::new());
        let _ = write!(text, "{value:?}");
        self.add(field.name(), &text.0, true);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let mut text = Bounded(String::new());
        let _ = text.write_str(value);
        self.add(field.name(), &text.0, true);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), &value.to_string(), false);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), &value.to_string(), false);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), if value { "true" } else { "false" }, false);
    }
}

/// As a JSON string; people read it as well.
fn quote(out: &mut String, value: &str) {
    out.push('"');
    escape(out, value);
    out.push('"');
}

fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() || turns_text(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

/// Characters that make a terminal or an editor display misleading text.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn colour_of(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[2m",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing_subscriber::layer::SubscriberExt;

    use super::super::{Lines, LogOptions};
    use super::*;

    fn logged(format: LogFormat, log: impl FnOnce()) -> Vec<String> {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = lines.clone();
        let options = LogOptions { format, ..LogOptions::default() };
        let layer = Lines::new(&options, move |line| {
            kept.lock().unwrap().push(String::from_utf8(line.to_vec()).unwrap());
        });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        std::mem::take(&mut *lines.lock().unwrap())
    }

    const NASTY: &str = "a\"b\\c\n{\"level\":\"ERROR\"}\u{1b}[31mred\u{9b}2J\u{202e}tx\u{7f}";

    /// RELIABILITY, secrets and logs: log injection.
    #[test]
    fn what_is_logged_cannot_forge_a_line_or_speak_to_a_terminal() {
        for format in [LogFormat::Json, LogFormat::Pretty] {
            let lines = logged(format, || {
                tracing::info!(key = NASTY, shown = %NASTY, other = ?Some(NASTY), count = 3, "told {NASTY}");
            });
            let [line] = lines.as_slice() else { panic!("{lines:?}") };
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(!line.trim_end().chars().any(|c| c.is_control() || c == '\u{202e}'), "{line}");
            if format == LogFormat::Json {
                let read: Value = serde_json::from_str(line).unwrap();
                assert_eq!((&read["key"], &read["count"]), (&NASTY.into(), &3.into()));
                assert_eq!(read["level"], "INFO");
            }
        }
    }

    #[test]
    fn a_line_is_bounded_and_says_that_it_was_cut() {
        let long = "é".repeat(100_000);
        for format in [LogFormat::Json, LogFormat::Pretty] {
            let lines = logged(format, || {
                tracing::warn!(key = "run_1:charge", a = %long, b = ?long, c = long.as_str(), d = "\u{1}".repeat(400), "long");
            });
            let [line] = lines.as_slice() else { panic!("{lines:?}") };
            assert!(line.len() <= MAX_LOG_LINE_BYTES, "{}", line.len());
            assert!(line.contains("run_1:charge"), "{line}");
            match format {
                LogFormat::Json => assert_eq!(serde_json::from_str::<Value>(line).unwrap()["cut"], true),
                LogFormat::Pretty => assert!(line.ends_with(CUT_PRETTY)),
            }
        }
    }
}
