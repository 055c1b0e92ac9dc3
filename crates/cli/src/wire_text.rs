//! Wire values, times and durations as text.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::output::tables::plain;

/// A word as the wire spells it, such as `COMPLETED` or `did_not_happen`.
pub(crate) fn spelled<T: Serialize>(word: &T) -> String {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => "?".into(),
    }
}

/// A text that may be absent, safe for a terminal.
pub(crate) fn or_dash(text: Option<&str>) -> String {
    text.map_or_else(|| "-".into(), plain)
}

/// The time between two instants of the wire; none if the first is later, as clocks of two machines may have it.
pub(crate) fn between(from: &str, to: Timestamp) -> Duration {
    match from.parse::<Timestamp>() {
        Ok(from) => to.duration_since(from).try_into().unwrap_or_default(),
        Err(_) => Duration::ZERO,
    }
}

/// `120 ms`, `3.4 s`, or longer in its two largest units.
pub(crate) fn short_span(span: Duration) -> String {
    match span.as_millis() {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => crate::output::tables::span(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short_and_never_negative() {
        for (ms, text) in
            [(0, "0 ms"), (999, "999 ms"), (1_234, "1.2 s"), (59_999, "59.9 s"), (61_000, "1 min 1 s")]
        {
            assert_eq!(short_span(Duration::from_millis(ms)), text);
        }
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        assert_eq!(between("2026-01-01T00:00:08.500Z", now), Duration::from_millis(1_500));
        assert_eq!(between("2026-01-01T00:00:11Z", now), Duration::ZERO);
        assert_eq!(between("yesterday", now), Duration::ZERO);
    }
}
