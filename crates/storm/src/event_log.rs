//! The event log: faults, client requests and decisions of people, in order. Stories of violations are built from it.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use crate::limits::MAX_CHRONICLE_LINES;

/// Whom a line is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// Everybody: a node, a link or the database.
    All,
    /// One business operation.
    Op(String),
    /// One run, operation on an object, or effect, by its id.
    Id(String),
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Time since the start.
    pub at: Duration,
    pub about: About,
    /// The source: `node 1`, `client`, `provider`, `history`.
    pub who: String,
    pub what: String,
}

/// All lines so far.
#[derive(Debug)]
pub struct EventLog {
    began_at: Instant,
    began_on: SystemTime,
    lines: Mutex<Vec<LogLine>>,
}

impl EventLog {
    pub fn begin(began_at: Instant) -> EventLog {
        let began_on = SystemTime::now() - began_at.elapsed();
        EventLog { began_at, began_on, lines: Mutex::default() }
    }

    /// Writes a line. A storm that is longer than the event log loses its latest lines.
    pub fn add(&self, about: About, who: impl Into<String>, what: impl Into<String>) {
        let line = LogLine { at: self.began_at.elapsed(), about, who: who.into(), what: what.into() };
        let mut lines = self.lines.lock().expect("nobody panics here");
        if lines.len() < MAX_CHRONICLE_LINES {
            lines.push(line);
        }
    }

    pub fn lines(&self) -> Vec<LogLine> {
        self.lines.lock().expect("nobody panics here").clone()
    }

    /// Time since the start of an instant as nodes write it, if it is one.
    pub fn find_time(&self, written: &str) -> Option<Duration> {
        let instant: jiff::Timestamp = written.parse().ok()?;
        SystemTime::from(instant).duration_since(self.began_on).ok()
    }
}

/// The lines in order, one below the other.
pub fn tell(mut lines: Vec<LogLine>) -> String {
    lines.sort_by_key(|line| line.at);
    let told = lines.iter().map(|line| {
        let (at, who, what) = (line.at.as_secs_f64(), &line.who, &line.what);
        format!("{at:>9.3}  {who:<10} {what}\n")
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_told_in_the_order_of_events() {
        let line = |at, what: &str| LogLine {
            at: Duration::from_millis(at),
            about: About::All,
            who: "node 1".into(),
            what: what.into(),
        };
        let told = tell(vec![line(2_500, "wakes"), line(1_000, "is stopped")]);
        assert_eq!(told, "    1.000  node 1     is stopped\n    2.500  node 1     wakes\n");
    }

    #[test]
    fn what_nodes_wrote_finds_its_place() {
        let event_log = EventLog::begin(Instant::now());
        let in_a_minute = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(60);
        let found = event_log.find_time(&in_a_minute.to_string()).unwrap();
        assert!(found > Duration::from_secs(58) && found < Duration::from_secs(62), "{found:?}");
        assert_eq!(event_log.find_time("yesterday"), None);
    }
}
