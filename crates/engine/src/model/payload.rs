//! JSON text that every store keeps byte for byte.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Invalid;
use crate::limits::{MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH};

/// An input, output or value as compact JSON text, within the limits and free of NUL.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(Arc<str>);

impl Payload {
    /// JSON `null`.
    pub fn null() -> Self {
        Payload("null".into())
    }

    /// The JSON form of `value`.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, Invalid> {
        let text = serde_json::to_string(value)
            .map_err(|e| Invalid::Payload(format!("it cannot be written as JSON: {e}")))?;
        check(&text)?;
        Ok(Payload(text.into()))
    }

    /// JSON text sent by a caller.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        check(text)?;
        let value: &serde_json::value::RawValue =
            serde_json::from_str(text).map_err(|e| Invalid::Payload(format!("it is not JSON: {e}")))?;
        Ok(Payload(value.get().into()))
    }

    /// A payload read from a store. It is not checked.
    pub fn from_stored(text: &str) -> Self {
        Payload(text.into())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Deserializes the payload.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl fmt::Debug for Payload {
    /// Shows the size, not the content: payloads may hold secrets that must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

/// Checks size, nesting and NUL in one pass. NUL is valid JSON, but PostgreSQL rejects it, so all stores do.
fn check(text: &str) -> Result<(), Invalid> {
    if text.len() > MAX_PAYLOAD_BYTES {
        return Err(Invalid::Payload(format!(
            "{} bytes of JSON is over the limit of {MAX_PAYLOAD_BYTES}; store the data elsewhere and pass a reference",
            text.len()
        )));
    }
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if escaped {
            escaped = false;
            if byte == b'u' && text.as_bytes()[at + 1..].starts_with(b"0000") {
                return Err(Invalid::Payload(
                    "a string holds NUL (\\u0000), which not every store can keep".into(),
                ));
            }
        } else if in_string {
            match byte {
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => in_string = true,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if depth > MAX_PAYLOAD_DEPTH {
            return Err(Invalid::Payload(format!("it is nested deeper than {MAX_PAYLOAD_DEPTH} levels")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_refused_and_its_look_alikes_are_not() {
        assert!(Payload::of("a\0b").is_err());
        assert!(Payload::parse(r#"{"a\u0000":1}"#).is_err());
        assert!(Payload::of(r"\u0000").is_ok(), "a backslash followed by u0000 is ordinary text");
    }

    #[test]
    fn size_and_depth_are_limited() {
        assert!(Payload::of(&"x".repeat(MAX_PAYLOAD_BYTES - 2)).is_ok());
        assert!(Payload::of(&"x".repeat(MAX_PAYLOAD_BYTES - 1)).is_err());
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(Payload::parse(&nested(64)).is_ok());
        assert!(Payload::parse(&nested(65)).is_err());
        assert!(Payload::parse(&nested(1_000_000)).is_err());
        assert!(Payload::of("[[[").is_ok(), "brackets in a string are not nesting");
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in ["", "{", "nul", "{} {}", "[1,]", "NaN"] {
            assert!(Payload::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_output_never_shows_content() {
        assert_eq!(format!("{:?}", Payload::of("secret").unwrap()), "Payload(8 bytes)");
    }
}
