//! Strings: their end, and their content after unescaping.

use std::borrow::Cow;

/// Reads the string that begins right after its opening quote at `begin`. Returns its content and
/// the offset after its closing quote. An error includes the offset.
pub(super) fn scan_string(text: &str, begin: usize) -> Result<(Cow<'_, str>, usize), (usize, &'static str)> {
    let bytes = text.as_bytes();
    let mut said: Option<String> = None;
    // The text from here to `at` has no escapes and is not yet in `said`.
    let mut plain_from = begin;
    let mut at = begin;
    loop {
        match bytes.get(at) {
            None => return Err((at, "a string has no end")),
            Some(b'"') => {
                let rest = &text[plain_from..at];
                let whole = match said {
                    None => Cow::Borrowed(rest),
                    Some(said) => Cow::Owned(said + rest),
                };
                return Ok((whole, at + 1));
            }
            Some(b'\\') => {
                let (c, end) = scan_escape(bytes, at)?;
                let said = said.get_or_insert_with(String::new);
                said.push_str(&text[plain_from..at]);
                said.push(c);
                (at, plain_from) = (end, end);
            }
            Some(0..=0x1f) => return Err((at, "a string has a control character; escape it")),
            Some(_) => at += 1,
        }
    }
}

fn scan_escape(bytes: &[u8], at: usize) -> Result<(char, usize), (usize, &'static str)> {
    let c = match bytes.get(at + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return scan_unicode_escape(bytes, at),
        _ => return Err((at, "a string has an escape that JSON does not know")),
    };
    Ok((c, at + 2))
}

fn scan_unicode_escape(bytes: &[u8], at: usize) -> Result<(char, usize), (usize, &'static str)> {
    const LONE: &str = "a string has half of a surrogate pair";
    let high = unit(bytes, at).ok_or((at, "\\u needs four hex digits"))?;
    if high == 0 {
        return Err((at, "\\u0000 cannot be stored"));
    }
    if let Some(c) = char::from_u32(high) {
        return Ok((c, at + 6));
    }
    let low = unit(bytes, at + 6).ok_or((at, LONE))?;
    match ((0xD800..0xDC00).contains(&high), (0xDC00..0xE000).contains(&low)) {
        (true, true) => {
            let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            char::from_u32(code).map(|c| (c, at + 12)).ok_or((at, LONE))
        }
        _ => Err((at, LONE)),
    }
}

/// The number in `\uXXXX` at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
}
