//! Numbers that survive storage and reading back.

use crate::limits::MAX_NUMBER_CHARS;

/// Significant decimal digits that distinguish every 64-bit float.
const MAX_SIGNIFICANT_DIGITS: usize = 17;

/// The length of the number at the start of `bytes`, or an error.
pub(super) fn scan_number(bytes: &[u8]) -> Result<usize, &'static str> {
    let digits_from = |at: usize| bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let has = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    let begin = usize::from(has(0, b"-"));
    let whole = digits_from(begin);
    if whole == 0 {
        return Err("a number needs a digit");
    }
    if whole > 1 && bytes[begin] == b'0' {
        return Err("a number must not have leading zeros");
    }
    let mut end = begin + whole;
    let mut is_integer = true;
    if has(end, b".") {
        let fraction = digits_from(end + 1);
        if fraction == 0 {
            return Err("a number needs a digit after its point");
        }
        (end, is_integer) = (end + 1 + fraction, false);
    }
    let mantissa_end = end;
    if has(end, b"eE") {
        let sign = usize::from(has(end + 1, b"+-"));
        let exponent = digits_from(end + 1 + sign);
        if exponent == 0 {
            return Err("a number needs a digit in its exponent");
        }
        (end, is_integer) = (end + 1 + sign + exponent, false);
    }
    if end > MAX_NUMBER_CHARS {
        return Err("a number is longer than any that could be kept; send it as a string");
    }
    // Only ASCII was read.
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| "a number needs a digit")?;
    match is_integer {
        true if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() => Ok(end),
        true => Err("an integer is beyond 64 bits and would lose digits; send it as a string"),
        false => check_float(text, &text[begin..mantissa_end]).map(|()| end),
    }
}

fn check_float(text: &str, mantissa: &str) -> Result<(), &'static str> {
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let first = digits.iter().position(|digit| *digit != b'0');
    let last = digits.iter().rposition(|digit| *digit != b'0');
    let significant = first.zip(last).map_or(0, |(first, last)| last - first + 1);
    if significant > MAX_SIGNIFICANT_DIGITS {
        return Err("a number has more digits than a 64-bit float keeps; send it as a string");
    }
    let value: f64 = text.parse().map_err(|_| "a number cannot be read")?;
    if !value.is_finite() {
        return Err("a number is too large for a 64-bit float; send it as a string");
    }
    match value == 0.0 && significant > 0 {
        true => Err("a number is too small for a 64-bit float and would become 0; send it as a string"),
        false => Ok(()),
    }
}
