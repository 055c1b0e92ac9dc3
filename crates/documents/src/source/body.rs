//! The body of a webhook as data: strict JSON, or a form, which becomes an object.

use std::fmt;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use percent_encoding::percent_decode;
use serde_json::{Map, Value};

use crate::limits::{MAX_EVENT_BYTES, MAX_EVENT_HEADER_BYTES, MAX_FORM_FIELDS};
use crate::node::read_json;
use crate::problem::excerpt;

/// Reason why a webhook cannot be read. Sending it again would not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// The body is too large.
    TooLarge,
    /// The headers are too large.
    HeadersTooLarge,
    /// The body is compressed.
    Compressed,
    /// The body is malformed.
    Body(String),
    /// The event has no usable id.
    EventId(String),
}

impl Unreadable {
    /// A short stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Unreadable::TooLarge | Unreadable::HeadersTooLarge => "too_large",
            Unreadable::Compressed => "compressed",
            Unreadable::Body(_) => "bad_body",
            Unreadable::EventId(_) => "bad_event_id",
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::TooLarge => write!(f, "the body has more than {MAX_EVENT_BYTES} bytes"),
            Unreadable::HeadersTooLarge => {
                write!(f, "the headers have more than {MAX_EVENT_HEADER_BYTES} bytes")
            }
            Unreadable::Compressed => f.write_str("the body is compressed; send it without Content-Encoding"),
            Unreadable::Body(why) => write!(f, "the body cannot be read: {why}"),
            Unreadable::EventId(why) => write!(f, "the event has no usable id: {why}"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// Parses a body by its headers. A body that is not declared as a form is JSON.
pub(super) fn read_body(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Unreadable> {
    if bytes.len() > MAX_EVENT_BYTES {
        return Err(Unreadable::TooLarge);
    }
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Unreadable::Compressed);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Unreadable::Body(format!("byte {} is not UTF-8", error.valid_up_to())))?;
    match is_form(headers) {
        true => read_form(text),
        false => json(text),
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

fn json(text: &str) -> Result<Value, Unreadable> {
    read_json(text).map_err(|problem| {
        let place = match problem.path.as_str() {
            "" => String::new(),
            path => format!("at {}: ", excerpt(path)),
        };
        Unreadable::Body(format!("{place}{}", problem.message))
    })
}

/// Each field is a string. A form with only the field `payload` contains JSON, as Slack and GitHub send it.
fn read_form(text: &str) -> Result<Value, Unreadable> {
    let mut fields = Map::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        if fields.len() >= MAX_FORM_FIELDS {
            return Err(Unreadable::Body(format!("the form has more than {MAX_FORM_FIELDS} fields")));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        let shown = excerpt(&name);
        if fields.insert(name, Value::String(value)).is_some() {
            return Err(Unreadable::Body(format!("the field {shown:?} is there twice")));
        }
    }
    match fields.get("payload") {
        Some(Value::String(payload)) if fields.len() == 1 => {
            let payload = json(payload)?;
            Ok(Value::Object(Map::from_iter([("payload".to_string(), payload)])))
        }
        _ => Ok(Value::Object(fields)),
    }
}

fn decoded(text: &str) -> Result<String, Unreadable> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8();
    let decoded = decoded.map_err(|_| Unreadable::Body("a field of the form is not UTF-8".to_string()))?;
    match decoded.contains('\0') {
        true => {
            Err(Unreadable::Body("a field of the form holds NUL, which not every store can keep".to_string()))
        }
        false => Ok(decoded.into_owned()),
    }
}
