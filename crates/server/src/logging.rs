//! Logs: one line for each event, for people or for programs, on standard error.
//!
//! A line is at most [`crate::limits::MAX_LOG_LINE_BYTES`] long and is one line whatever the data in it: control characters are escaped, so that
//! nothing that came from outside can forge a line or speak to a terminal.

mod line;

use std::fmt;
use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hapax_engine::model::Timestamp;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::otlp::Exporter;
use line::Line;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Pretty,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    fn from_str(text: &str) -> Result<Self, LoggingError> {
        match text {
            "pretty" => Ok(LogFormat::Pretty),
            "json" => Ok(LogFormat::Json),
            _ => Err(LoggingError::Format(text.chars().take(40).collect())),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Pretty => "pretty",
            LogFormat::Json => "json",
        })
    }
}

/// Error of the log setup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoggingError {
    /// Unknown format.
    #[error("`{0}` is not a log format; use `pretty` or `json`")]
    Format(String),
    /// Invalid filter.
    #[error(
        "`{0}` is not a log filter; use a level (off, error, warn, info, debug, trace), or levels by target, as in \
         `info,hapax_engine=debug`"
    )]
    Filter(String),
    /// Another logger is already installed in this process.
    #[error("another logger is already installed in this process")]
    Taken,
}

/// Options of the log.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Format of log lines.
    pub format: LogFormat,
    /// Filter: a level, or levels by target, as in `info,hapax_engine=debug`. Empty: errors.
    pub filter: String,
    /// Are levels coloured? Only for terminals.
    pub colour: bool,
}

impl LogOptions {
    fn targets(&self) -> Result<Targets, LoggingError> {
        let text = if self.filter.trim().is_empty() { "error" } else { self.filter.trim() };
        text.parse().map_err(|_| LoggingError::Filter(text.chars().take(80).collect()))
    }
}

/// Starts logging of this whole process to standard error, and sends spans to `exporter` if there
/// is one.
pub fn start(options: &LogOptions, exporter: Option<&Exporter>) -> Result<(), LoggingError> {
    let lines = Lines::new(options, |line| {
        // Without standard error there is nowhere to report the failure.
        let _ = std::io::stderr().lock().write_all(line);
    });
    let lines = lines.with_filter(options.targets()?);
    let spans = exporter.map(|exporter| exporter.layer().with_filter(Exporter::filter()));
    tracing_subscriber::registry().with(lines).with(spans).try_init().map_err(|_| LoggingError::Taken)
}

/// Logs each panic of this process as one line, instead of the unbounded lines that Rust writes to
/// standard error.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        write_panic(&place, panic.payload_as_str().unwrap_or("a value that is no text"));
    }));
}

fn write_panic(place: &str, text: &str) {
    let thread = std::thread::current();
    tracing::error!(place, text, thread = thread.name().unwrap_or_default(), "a panic");
}

/// Receives each line whole.
type WriteLine = dyn Fn(&[u8]) + Send + Sync;

/// Writes a line for each event.
#[derive(Clone)]
pub struct Lines {
    format: LogFormat,
    colour: bool,
    write: Arc<WriteLine>,
}

impl Lines {
    /// Creates lines with these options, except for their filter; `write` receives each whole line
    /// with its end.
    pub fn new(options: &LogOptions, write: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Lines { format: options.format, colour: options.colour, write: Arc::new(write) }
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("format", &self.format).finish_non_exhaustive()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        let about = event.metadata();
        let mut line = Line::begin(self.format, self.colour, now, *about.level(), about.target());
        event.record(&mut line);
        (self.write)(line.end().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::limits::MAX_LOG_LINE_BYTES;

    /// RELIABILITY, security, "Secrets and logs": whatever a panic says, it is one line, and a short one.
    #[test]
    fn a_panic_is_one_bounded_line() {
        let written: Arc<Mutex<Vec<u8>>> = Arc::default();
        let into = written.clone();
        let lines = Lines::new(&LogOptions::default(), move |line| {
            into.lock().unwrap().extend_from_slice(line);
        });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            write_panic("src/a.rs:1:2", &"on\npurpose\u{1b}[2J ".repeat(10_000));
        });
        let written = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(written.contains("a panic") && written.contains("src/a.rs:1:2"), "{written}");
        assert!(written.len() <= MAX_LOG_LINE_BYTES && written.matches('\n').count() == 1, "{written}");
        assert!(!written.contains('\u{1b}'), "{written}");
    }
}
