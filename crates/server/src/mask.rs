//! Masks what a caller may not see in a JSON response: all payloads, or the fields that documents mark as sensitive. All other
//! bytes stay as they are, so numbers keep every digit.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Placeholder for a masked value.
pub(crate) const MASKED: &str = "[masked]";

/// Members of responses that hold what callers, providers and workflows sent. A test holds the list against the description of
/// the API.
pub const PAYLOADS: &[&str] =
    &["about", "answer", "body", "data", "input", "output", "rawBody", "result", "value", "headers", "param"];

/// Members that hold texts which may quote a payload.
const QUOTING: &[&str] = &["message", "detail", "sentence"];

/// Values hidden from a caller.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mask<'a> {
    /// Every payload, and every text that may quote one.
    Payloads,
    /// Members of these names inside payloads.
    Fields(&'a BTreeSet<String>),
}

impl Mask<'_> {
    /// Masks a JSON text; `None` if it is none.
    pub(crate) fn apply(self, json: &[u8]) -> Option<Vec<u8>> {
        let mut masking = Masking { mask: self, from: json, at: 0, into: Vec::with_capacity(json.len()) };
        masking.value(false, 0)?;
        masking.space();
        (masking.at == json.len()).then_some(masking.into)
    }

    /// Is the value of this member replaced as a whole?
    fn hides(self, name: &str, is_in_payload: bool) -> bool {
        match self {
            Mask::Payloads => PAYLOADS.contains(&name) || QUOTING.contains(&name),
            Mask::Fields(names) => is_in_payload && names.contains(name),
        }
    }

    /// Does a text quote what is hidden?
    fn hides_text(self, text: &str) -> bool {
        match self {
            Mask::Payloads => false,
            Mask::Fields(names) => {
                text.contains('"') && names.iter().any(|name| text.contains(&format!("\"{name}\"")))
            }
        }
    }
}

/// Values hidden from a caller during one response.
#[derive(Debug, Clone)]
pub(crate) enum HiddenValues {
    /// Every payload.
    Payloads,
    /// Members of these names.
    Fields(Arc<BTreeSet<String>>),
}

impl HiddenValues {
    pub(crate) fn mask(&self) -> Mask<'_> {
        match self {
            HiddenValues::Payloads => Mask::Payloads,
            HiddenValues::Fields(names) => Mask::Fields(names),
        }
    }

    /// Masks one JSON text of a stream.
    pub(crate) fn text(&self, json: String) -> String {
        let masked = self.mask().apply(json.as_bytes()).and_then(|bytes| String::from_utf8(bytes).ok());
        masked.unwrap_or_else(|| "{}".to_owned())
    }
}

/// Marks a response that its caller may see as it is, because they asked for it and that is in the audit log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unmasked;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 4 * crate::limits::MAX_JSON_DEPTH;

struct Masking<'a> {
    mask: Mask<'a>,
    from: &'a [u8],
    at: usize,
    into: Vec<u8>,
}

impl<'a> Masking<'a> {
    fn peek(&self) -> Option<u8> {
        self.from.get(self.at).copied()
    }

    fn space(&mut self) {
        let start = self.at;
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.into.extend_from_slice(&self.from[start..self.at]);
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| {
            self.at += 1;
            self.into.push(byte);
        })
    }

    /// The text of a string in its quotes, which is not copied.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        (self.peek()? == b'"').then_some(())?;
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.from.get(start..self.at)
    }

    fn value(&mut self, is_in_payload: bool, depth: usize) -> Option<()> {
        (depth < MAX_DEPTH).then_some(())?;
        self.space();
        match self.peek()? {
            b'{' => self.members(b'{', b'}', is_in_payload, depth),
            b'[' => self.members(b'[', b']', is_in_payload, depth),
            b'"' => {
                let quoted = self.string()?;
                let text: String = serde_json::from_slice(quoted).ok()?;
                match self.mask.hides_text(&text) {
                    true => self.put_masked(),
                    false => self.into.extend_from_slice(quoted),
                }
                Some(())
            }
            _ => {
                let start = self.at;
                while matches!(self.peek(), Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
                {
                    self.at += 1;
                }
                self.into.extend_from_slice(&self.from[start..self.at]);
                (self.at > start).then_some(())
            }
        }
    }

    fn put_masked(&mut self) {
        self.into.push(b'"');
        self.into.extend_from_slice(MASKED.as_bytes());
        self.into.push(b'"');
    }

    fn members(&mut self, open: u8, close: u8, is_in_payload: bool, depth: usize) -> Option<()> {
        self.take(open)?;
        self.space();
        if self.take(close).is_some() {
            return Some(());
        }
        loop {
            self.space();
            match open {
                b'{' => self.member(is_in_payload, depth)?,
                _ => self.value(is_in_payload, depth + 1)?,
            }
            self.space();
            match self.peek()? {
                b',' => self.take(b',')?,
                _ => return self.take(close),
            }
        }
    }

    fn member(&mut self, is_in_payload: bool, depth: usize) -> Option<()> {
        let quoted = self.string()?;
        let name: String = serde_json::from_slice(quoted).ok()?;
        self.into.extend_from_slice(quoted);
        self.space();
        self.take(b':')?;
        self.space();
        let is_payload = is_in_payload || PAYLOADS.contains(&name.as_str());
        if self.peek()? == b'n' || !self.mask.hides(&name, is_in_payload) {
            return self.value(is_payload, depth + 1);
        }
        // Read and dropped: what it holds is not looked at.
        let kept = self.into.len();
        self.value(is_payload, depth + 1)?;
        self.into.truncate(kept);
        self.put_masked();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(mask: Mask<'_>, json: &str) -> Option<String> {
        mask.apply(json.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn payloads_are_hidden_and_all_else_stays_byte_for_byte() {
        let json = r#"{ "id": "run_1", "input" : {"card":"4111","n":[1,{"a":"]"}]}, "output":null,"version":9007199254740993,
            "steps":[{"id":"a","output":"x\"y","failure":{"message":"500: {\"card\":1}","code":"http_500"}}] }"#;
        let expected = r#"{ "id": "run_1", "input" : "[masked]", "output":null,"version":9007199254740993,
            "steps":[{"id":"a","output":"[masked]","failure":{"message":"[masked]","code":"http_500"}}] }"#;
        assert_eq!(masked(Mask::Payloads, json).unwrap(), expected);
    }

    #[test]
    fn a_sensitive_field_is_hidden_wherever_it_is_inside_a_payload() {
        let names = BTreeSet::from(["card".to_owned(), "id".to_owned()]);
        let mask = Mask::Fields(&names);
        for (json, expected) in [
            (
                r#"{"id":"run_1","input":{"card":{"n":1},"amount":1.10}}"#,
                r#"{"id":"run_1","input":{"card":"[masked]","amount":1.10}}"#,
            ),
            (
                r#"{"output":[{"id":7,"x":{"card":[1,2]}}]}"#,
                r#"{"output":[{"id":"[masked]","x":{"card":"[masked]"}}]}"#,
            ),
            (r#"{"output":{"c\u0061rd":"4111"}}"#, r#"{"output":{"c\u0061rd":"[masked]"}}"#),
            (r#"{"card":"a field of the API"}"#, r#"{"card":"a field of the API"}"#),
            (r#"{"rawBody":"{\"card\":\"4111\"}"}"#, r#"{"rawBody":"[masked]"}"#),
            (r#"{"message":"answered {\"card\":\"4111\"}"}"#, r#"{"message":"[masked]"}"#),
            (r#"{"message":"the card was refused"}"#, r#"{"message":"the card was refused"}"#),
            ("[]", "[]"),
            (r#"{"value":{}}"#, r#"{"value":{}}"#),
        ] {
            assert_eq!(masked(mask, json).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_not_json_is_not_passed_on() {
        for broken in
            ["", "{", r#"{"a"}"#, r#"{"a":1"#, r#"{"a":"x"#, "[1,]", "{} {}", r#""\"#, &"[".repeat(100_000)]
        {
            assert_eq!(masked(Mask::Payloads, broken), None, "{broken:.20}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_masked_text_is_json_of_the_same_shape(depth in 0_usize..4, text in "\\PC{0,20}") {
            let mut value = serde_json::json!({ "input": text, "kept": text, "n": 1.5e300 });
            for _ in 0..depth {
                value = serde_json::json!({ "steps": [value, null, true], "k\u{1}": "\u{7f}" });
            }
            let mut masked: serde_json::Value =
                serde_json::from_slice(&Mask::Payloads.apply(value.to_string().as_bytes()).unwrap()).unwrap();
            let mut inner = (&mut value, &mut masked);
            for _ in 0..depth {
                inner = (&mut inner.0["steps"][0], &mut inner.1["steps"][0]);
            }
            inner.0["input"] = MASKED.into();
            proptest::prop_assert_eq!(value, masked);
        }
    }
}
