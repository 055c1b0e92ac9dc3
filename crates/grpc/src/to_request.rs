//! From a message to a request of its route.

use std::fmt::Write as _;

use hapax_api::{Code, Problem};
use http::{HeaderName, HeaderValue, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _, Value};
use serde_json::value::RawValue;

use crate::SERVICES;
use crate::methods::Method;

/// Characters of a path or query that stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The request that a message stands for.
#[derive(Debug)]
pub(crate) struct RouteRequest {
    pub(crate) uri: Uri,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// JSON; `None` for routes without a body.
    pub(crate) body: Option<String>,
}

/// Makes the request of `method` that `message` stands for.
pub(crate) fn request_of(
    method: &Method,
    message: &DynamicMessage,
    max_uri_bytes: usize,
) -> Result<RouteRequest, Problem> {
    let shapes = &SERVICES.shapes;
    let (mut path, mut in_path) = (String::new(), Vec::new());
    for (place, part) in method.route.split(['{', '}']).enumerate() {
        // Every second part is the name of a field.
        if place % 2 == 0 {
            path.push_str(part);
            continue;
        }
        let value =
            message.get_field_by_name(part).unwrap_or_else(|| panic!("{} has no {part}", method.path));
        let segment = value.as_str().unwrap_or_default();
        check_segment(part, segment)?;
        let _ = write!(path, "{}", utf8_percent_encode(segment, ENCODED));
        in_path.push(part);
    }
    let (mut headers, mut rest) = (Vec::new(), Vec::new());
    for field in method.input.fields().filter(|field| !in_path.contains(&field.name())) {
        match shapes.headers.get(field.full_name()) {
            Some(header) if message.has_field(&field) => {
                let value = header.template.replace("{}", &plain_text(&message.get_field(&field)));
                let name = header.name.parse().expect("a test makes all headers");
                headers
                    .push((name, HeaderValue::try_from(value).expect("a number has no control characters")));
            }
            Some(_) => {}
            None => rest.push(field),
        }
    }
    let mut body = None;
    if method.has_body {
        let mut json = Json::default();
        json.object(message, &rest)?;
        body = Some(json.text);
    } else {
        let mut separator = '?';
        for field in rest.iter().filter(|field| message.has_field(field) || !field.supports_presence()) {
            let text = plain_text(&message.get_field(field));
            let _ = write!(path, "{separator}{}={}", field.json_name(), utf8_percent_encode(&text, ENCODED));
            separator = '&';
        }
    }
    if path.len() > max_uri_bytes {
        let detail = format!(
            "The names and filters of this call make {} bytes; {max_uri_bytes} are allowed.",
            path.len()
        );
        return Err(Problem::new(Code::UriTooLong, detail).with("maxBytes", max_uri_bytes));
    }
    let uri = path.parse().expect("all but plain characters are encoded");
    Ok(RouteRequest { uri, headers, body })
}

/// Names in a path are what no other program could read differently; see `validate_uri.rs` of the server.
fn check_segment(field: &str, segment: &str) -> Result<(), Problem> {
    if segment.is_empty() || matches!(segment, "." | "..") || segment.contains('\0') {
        let detail = format!("`{field}` is missing, or is no name of anything.");
        return Err(Problem::new(Code::InvalidRequest, detail).with("path", format!("/{field}")));
    }
    Ok(())
}

/// Text of a value in a path, a query or a header.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::U32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        other => unreachable!("no path, query or header holds {other:?}"),
    }
}

/// The JSON of a message.
pub(crate) fn json_of(message: &DynamicMessage) -> Result<String, Problem> {
    let fields: Vec<_> = message.descriptor().fields().collect();
    let mut json = Json::default();
    json.object(message, &fields)?;
    Ok(json.text)
}

/// JSON that is being written.
#[derive(Default)]
struct Json {
    text: String,
}

impl Json {
    /// Writes the fields of a message as an object.
    fn object(&mut self, message: &DynamicMessage, fields: &[FieldDescriptor]) -> Result<(), Problem> {
        self.text.push('{');
        let begin = self.text.len();
        self.members(message, fields, begin)?;
        self.text.push('}');
        Ok(())
    }

    fn members(
        &mut self,
        message: &DynamicMessage,
        fields: &[FieldDescriptor],
        begin: usize,
    ) -> Result<(), Problem> {
        for field in fields {
            // A value that is absent stays absent. Others are written even if they are 0 or empty.
            if field.supports_presence() && !message.has_field(field) {
                continue;
            }
            let value = message.get_field(field);
            if matches!(&*value, Value::Bytes(bytes) if bytes.is_empty()) {
                continue;
            }
            match (SERVICES.shapes.flat.get(field.full_name()), &*value) {
                (Some(tag), Value::Message(inner)) => {
                    if let Some(tag) = tag {
                        self.name(&tag.member, begin);
                        self.string(&tag.value);
                    }
                    let fields: Vec<_> = inner.descriptor().fields().collect();
                    self.members(inner, &fields, begin)?;
                }
                (_, value) => {
                    self.name(field.json_name(), begin);
                    self.value(field, value)?;
                }
            }
        }
        Ok(())
    }

    fn name(&mut self, name: &str, begin: usize) {
        if self.text.len() > begin {
            self.text.push(',');
        }
        self.string(name);
        self.text.push(':');
    }

    fn string(&mut self, text: &str) {
        self.text.push_str(&serde_json::to_string(text).expect("text is JSON"));
    }

    fn value(&mut self, field: &FieldDescriptor, value: &Value) -> Result<(), Problem> {
        match value {
            Value::String(text) => self.string(text),
            Value::Bytes(bytes) => {
                let raw: &RawValue = serde_json::from_slice(bytes).map_err(|error| {
                    let detail =
                        format!("`{}` holds bytes that are not one JSON value: {error}.", field.name());
                    Problem::new(Code::InvalidJson, detail)
                })?;
                self.text.push_str(raw.get());
            }
            Value::F64(number) => {
                let _ = match number.is_finite() {
                    true => write!(self.text, "{number}"),
                    // The route refuses it, with its place.
                    false => write!(self.text, "\"{number}\""),
                };
            }
            Value::List(values) => {
                self.text.push('[');
                for (place, value) in values.iter().enumerate() {
                    if place > 0 {
                        self.text.push(',');
                    }
                    self.value(field, value)?;
                }
                self.text.push(']');
            }
            Value::Message(inner) => {
                let fields: Vec<_> = inner.descriptor().fields().collect();
                self.object(inner, &fields)?;
            }
            plain => self.text.push_str(&plain_text(plain)),
        }
        Ok(())
    }
}
