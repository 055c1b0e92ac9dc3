//! Spans as the message `ExportTraceServiceRequest` of OTLP 1.x, in protobuf.
//!
//! The message is small and stable, so it is written by hand: the protobuf crates would slow down
//! every build for these few fields.

use std::time::{SystemTime, UNIX_EPOCH};

use super::span_layer::{Finished, Value};

const KIND_INTERNAL: u64 = 1;
const KIND_SERVER: u64 = 2;
const STATUS_ERROR: u64 = 2;

/// All spans in one message.
pub(super) fn encode(spans: &[Finished], service: &str) -> Vec<u8> {
    let mut resource = Message::default();
    resource.message(1, attribute("service.name", &Value::Text(service.to_owned())));
    resource.message(1, attribute("service.version", &Value::Text(env!("CARGO_PKG_VERSION").to_owned())));
    let mut scope = Message::default();
    scope.bytes(1, b"hapax");
    let mut scope_spans = Message::default();
    scope_spans.message(1, scope);
    for span in spans {
        scope_spans.message(2, encode_span(span));
    }
    let mut resource_spans = Message::default();
    resource_spans.message(1, resource);
    resource_spans.message(2, scope_spans);
    let mut request = Message::default();
    request.message(1, resource_spans);
    request.0
}

fn encode_span(span: &Finished) -> Message {
    let mut message = Message::default();
    message.bytes(1, &span.trace_id);
    message.bytes(2, &span.span_id);
    if let Some(parent) = &span.parent_span_id {
        message.bytes(4, parent);
    }
    message.bytes(5, span.name.as_bytes());
    message.number(6, if span.is_server { KIND_SERVER } else { KIND_INTERNAL });
    message.fixed64(7, nanos(span.began_at));
    message.fixed64(8, nanos(span.ended_at));
    for (name, value) in &span.attributes {
        message.message(9, attribute(name, value));
    }
    if span.has_failed {
        let mut status = Message::default();
        status.number(3, STATUS_ERROR);
        message.message(15, status);
    }
    message
}

fn attribute(name: &str, value: &Value) -> Message {
    let mut any = Message::default();
    match value {
        Value::Text(text) => any.bytes(1, text.as_bytes()),
        Value::Truth(truth) => any.number(2, u64::from(*truth)),
        Value::Number(number) => any.number(3, number.cast_unsigned()),
    }
    let mut pair = Message::default();
    pair.bytes(1, name.as_bytes());
    pair.message(2, any);
    pair
}

fn nanos(at: SystemTime) -> u64 {
    u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// A protobuf message being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u64, wire_type: u64) {
        self.varint((field << 3) | wire_type);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.tag(field, 0);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u64, value: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn message(&mut self, field: u64, message: Message) {
        self.bytes(field, &message.0);
    }
}
