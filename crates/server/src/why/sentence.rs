//! Times and excerpts in the sentences of an explanation.

use std::time::Duration;

use hapax_engine::model::Timestamp;

use crate::limits::MAX_WHY_EXCERPT_CHARS;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A duration in its two largest units, such as `3 h 20 min`.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |large: u64, unit: &str, small: u64, smaller: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// `, since 13 s`: the time that has passed.
pub(super) fn since(at: Timestamp, now: Timestamp) -> String {
    format!(", since {}", span(now.since(at)))
}

/// An instant as people say it: the time of day if it is within a day, else the date.
pub(super) fn instant(at: Timestamp, now: Timestamp) -> String {
    // RFC 3339 in UTC: 2026-11-23T17:05:00.000Z.
    let text = at.to_string();
    let (year, rest) = text.split_at_checked(4).unwrap_or((&text, ""));
    let month = rest.get(1..3).and_then(|month| month.parse::<usize>().ok());
    let month = month.and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    let day = rest.get(4..6).map(|day| day.trim_start_matches('0'));
    let (Some(month), Some(day), Some(time)) = (month, day, rest.get(7..12)) else { return text };
    let is_near = at.since(now).max(now.since(at)) < Duration::from_secs(86_400);
    match (is_near, now.to_string().starts_with(year)) {
        (true, _) => format!("{time} UTC"),
        (false, true) => format!("{month} {day}"),
        (false, false) => format!("{month} {day}, {year}"),
    }
}

/// `, until Nov 23`: the end of the wait.
pub(super) fn until(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map(|at| format!(", until {}", instant(at, now))).unwrap_or_default()
}

/// The beginning of a text, on one line.
pub(super) fn excerpt(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(MAX_WHY_EXCERPT_CHARS)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    if text.chars().count() > MAX_WHY_EXCERPT_CHARS {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse::<jiff::Timestamp>().map(|at| Timestamp::from_millis(at.as_millisecond())).unwrap()
    }

    #[test]
    fn a_near_instant_has_its_time_and_a_far_one_its_date() {
        let now = at("2026-11-18T16:00:00Z");
        assert_eq!(instant(at("2026-11-18T17:05:00Z"), now), "17:05 UTC");
        assert_eq!(instant(at("2026-11-23T09:00:00Z"), now), "Nov 23");
        assert_eq!(instant(at("2026-12-01T09:00:00Z"), now), "Dec 1");
        assert_eq!(instant(at("2027-01-02T09:00:00Z"), now), "Jan 2, 2027");
        assert_eq!(since(at("2026-11-18T15:59:47Z"), now), ", since 13 s");
    }

    #[test]
    fn an_excerpt_stays_on_one_line() {
        assert_eq!(excerpt("a\nb"), "a b");
        assert_eq!(excerpt(&"x".repeat(500)).chars().count(), MAX_WHY_EXCERPT_CHARS + 1);
    }
}
