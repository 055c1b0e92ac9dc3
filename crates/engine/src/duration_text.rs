//! Durations as text, in the one form that documents, settings and requests share: `500ms`, `30s`, `5m`, `24h`, `7d`, `2w`, `1h30m`.

use std::time::Duration;

use crate::limits::MAX_SPAN;

/// Units from the largest to the smallest, in milliseconds.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// How much of a malformed text an error repeats, in characters.
const MAX_ECHO_CHARS: usize = 60;

/// Parses a duration longer than zero and at most [`MAX_SPAN`]: a whole number and a unit, or several from the largest unit to the
/// smallest. The error says what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let echo: String = text.chars().take(MAX_ECHO_CHARS).collect();
    let wrong = || {
        format!(
            "{echo:?} is not a duration: write a whole number and a unit, such as 500ms, 30s, 5m, 24h, 3d, 2w or 1h30m"
        )
    };
    let too_long = || format!("{echo:?} is longer than the ten years that are allowed");
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
        let number: u64 = number.parse().map_err(|_| too_long())?;
        let part = number.checked_mul(*millis).ok_or_else(too_long)?;
        total = total.checked_add(part).ok_or_else(too_long)?;
        (rest, last) = (tail, *millis);
    }
    let duration = Duration::from_millis(total);
    if duration.is_zero() {
        return Err(format!("{echo:?} is no time at all: a duration must be longer than zero"));
    }
    if duration > MAX_SPAN {
        return Err(too_long());
    }
    Ok(duration)
}

/// Writes a duration in the largest units that give it exactly, to the millisecond. [`parse_duration`] reads it.
pub fn format_duration(duration: Duration) -> String {
    let (mut left, mut text) = (u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), String::new());
    // Weeks are parsed and not written: `14d` says more than `2w`.
    for (unit, millis) in &UNITS[1..] {
        if left >= *millis {
            text.push_str(&format!("{}{unit}", left / millis));
            left %= millis;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_written() {
        for (text, millis, written) in [
            ("500ms", 500, "500ms"),
            ("30s", 30_000, "30s"),
            ("90s", 90_000, "1m30s"),
            ("24h", 86_400_000, "1d"),
            ("1h30m", 5_400_000, "1h30m"),
            ("2w", 1_209_600_000, "14d"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration.as_millis(), millis, "{text}");
            assert_eq!(format_duration(duration), written);
            assert_eq!(parse_duration(written), Ok(duration));
        }
    }

    /// RELIABILITY, definitions: zero, negative and overflowing durations are refused with the reason.
    #[test]
    fn a_malformed_duration_is_refused_with_the_reason() {
        for bad in ["", "0s", "-5s", "5", "s", "1.5h", "5 m", "30m1h", "1h1h", "11000d", "5y", "5S"] {
            let reason = parse_duration(bad).unwrap_err();
            assert!(reason.contains("duration") || reason.contains("ten years"), "{bad}: {reason}");
        }
        assert!(parse_duration("0s").unwrap_err().contains("longer than zero"));
        assert!(parse_duration("99999999999999999999d").unwrap_err().contains("ten years"));
        assert!(parse_duration("18446744073709551615ms").unwrap_err().contains("ten years"));
        assert!(parse_duration(&"x".repeat(100_000)).unwrap_err().len() < 300, "a long text is not repeated");
    }
}
