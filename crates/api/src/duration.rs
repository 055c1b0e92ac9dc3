//! Durations on the wire: `"500ms"`, `"30s"`, `"24h"`, `"7d"`, in fields named without a unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// A duration, written as whole numbers with units, the largest unit first: `30s`, `1h30m`. Zero is `0s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurationText(pub Duration);

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotADuration;

/// Units with their length in milliseconds, the largest first.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// As a regular expression, for schemas.
const PATTERN: &str = "^([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";

impl From<Duration> for DurationText {
    fn from(duration: Duration) -> Self {
        DurationText(duration)
    }
}

impl FromStr for DurationText {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let (mut rest, mut total, mut smallest) = (text, 0u64, u64::MAX);
        loop {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, tail) = rest.split_at(digits);
            let letters = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
            let (unit, tail) = tail.split_at(letters);
            let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(NotADuration)?;
            if *millis >= smallest {
                return Err(NotADuration);
            }
            let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*millis));
            total = part.and_then(|part| total.checked_add(part)).ok_or(NotADuration)?;
            if tail.is_empty() {
                return Ok(DurationText(Duration::from_millis(total)));
            }
            (rest, smallest) = (tail, *millis);
        }
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if left == 0 {
            return f.write_str("0s");
        }
        // Weeks are read but not written: `14d` is clearer than `2w`.
        for (unit, millis) in &UNITS[1..] {
            if left >= *millis {
                write!(f, "{}{unit}", left / millis)?;
                left %= millis;
            }
        }
        Ok(())
    }
}

impl fmt::Display for NotADuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected a duration: a whole number and a unit, such as \"500ms\", \"30s\", \"24h\" or \"7d\"",
        )
    }
}

impl std::error::Error for NotADuration {}

impl Serialize for DurationText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl PartialSchema for DurationText {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(PATTERN))
            .min_length(Some(2))
            .examples(["30s"])
            .description(Some(
                "A duration: a whole number and a unit, such as `500ms`, `30s`, `24h` or `7d`.",
            ))
            .into()
    }
}

impl ToSchema for DurationText {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("1h30m", 5_400_000),
            ("2w", 1_209_600_000),
        ] {
            assert_eq!(text.parse(), Ok(DurationText(Duration::from_millis(millis))), "{text}");
        }
        for text in
            ["", "30", "s", "30 s", "-1s", "1.5s", "30S", "1s1h", "1s1s", "99999999999999999999s", "1y"]
        {
            assert_eq!(text.parse::<DurationText>(), Err(NotADuration), "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for millis in [0, 1, 999, 1_000, 61_000, 5_400_000, 86_400_000, 1_209_600_001] {
            let duration = DurationText(Duration::from_millis(millis));
            assert_eq!(duration.to_string().parse(), Ok(duration));
        }
        assert_eq!(DurationText(Duration::from_secs(86_400)).to_string(), "1d");
        assert_eq!(serde_json::from_str::<DurationText>("30").ok(), None, "a number has no unit");
    }
}
