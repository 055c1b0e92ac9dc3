//! Spans of time as documents write them: a whole number and a unit, `30s`, `5m`, `24h`, `3d`, also one after another: `1h30m`.

use std::time::Duration;

use hapax_engine::limits::MAX_SPAN;
use serde::{Serialize, Serializer};

/// A span that is longer than nothing and not longer than the engine allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Span {
    /// Reads `text`, or tells what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = crate::problem::excerpt(text);
            format!(
                "{text:?} is not a span: write a whole number and a unit, such as 500ms, 30s, 5m, 24h, 3d, 2w or 1h30m"
            )
        };
        let (mut rest, mut total, mut last) = (text, 0u64, u64::MAX);
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, tail) = rest.split_at(digits);
            let letters = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
            let (unit, tail) = tail.split_at(letters);
            let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
            if digits == 0 || *millis >= last {
                return Err(wrong());
            }
            let too_long = || format!("{text:?} is longer than the ten years that are allowed");
            let number: u64 = number.parse().map_err(|_| too_long())?;
            let part = number.checked_mul(*millis).ok_or_else(too_long)?;
            total = total.checked_add(part).ok_or_else(too_long)?;
            (rest, last) = (tail, *millis);
        }
        let span = Duration::from_millis(total);
        if span.is_zero() {
            return Err(format!("{text:?} is no time at all: a span must be longer than zero"));
        }
        if span > MAX_SPAN {
            return Err(format!("{text:?} is longer than the ten years that are allowed"));
        }
        Ok(Span(span))
    }

    /// The span.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The span in the largest units that give it exactly; [`parse`](Span::parse) reads it.
    pub fn to_text(self) -> String {
        let (mut left, mut text) = (self.0.as_millis() as u64, String::new());
        for (unit, millis) in UNITS {
            if left >= millis {
                text.push_str(&format!("{}{unit}", left / millis));
                left %= millis;
            }
        }
        text
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        for (text, millis, written) in [
            ("500ms", 500, "500ms"),
            ("30s", 30_000, "30s"),
            ("90s", 90_000, "1m30s"),
            ("24h", 86_400_000, "1d"),
            ("1h30m", 5_400_000, "1h30m"),
            ("2w", 1_209_600_000, "2w"),
        ] {
            let span = Span::parse(text).unwrap();
            assert_eq!(span.get().as_millis(), millis, "{text}");
            assert_eq!(span.to_text(), written);
            assert_eq!(Span::parse(&span.to_text()).unwrap(), span);
        }
    }

    /// RELIABILITY, definitions: zero, negative and overflowing spans are refused with the reason.
    #[test]
    fn what_is_no_span_is_refused() {
        for bad in [
            "",
            "0s",
            "-5s",
            "5",
            "s",
            "1.5h",
            "5 m",
            "30m1h",
            "1h1h",
            "99999999999999999999d",
            "11000d",
            "5y",
            "5S",
        ] {
            let reason = Span::parse(bad).unwrap_err();
            assert!(reason.contains("span") || reason.contains("ten years"), "{bad}: {reason}");
        }
        assert!(Span::parse("0s").unwrap_err().contains("longer than zero"));
        assert!(Span::parse("99999999999999999999d").unwrap_err().contains("ten years"));
        assert!(Span::parse("18446744073709551615ms").unwrap_err().contains("ten years"));
    }
}
