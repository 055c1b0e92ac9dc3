//! A receiver of OTLP over HTTP, as small as can be.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A span, as the receiver reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub trace_id: String,
    pub span_id: String,
    pub parent_span_id: String,
    pub name: String,
    pub kind: u64,
    pub has_failed: bool,
    pub attributes: Vec<(String, String)>,
}

impl Span {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Receives spans until it is dropped.
pub struct Collector {
    pub endpoint: String,
    spans: Arc<Mutex<tokio::sync::mpsc::UnboundedReceiver<Span>>>,
}

impl Collector {
    pub async fn start() -> Self {
        let (sender, receiver) = unbounded_channel();
        let routes = Router::new().route("/v1/traces", post(take)).with_state(sender);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Collector { endpoint, spans: Arc::new(Mutex::new(receiver)) }
    }

    /// All that has come so far.
    pub async fn received(&self) -> Vec<Span> {
        let mut receiver = self.spans.lock().await;
        let mut spans = Vec::new();
        while let Ok(span) = receiver.try_recv() {
            spans.push(span);
        }
        spans
    }
}

async fn take(State(told): State<UnboundedSender<Span>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if headers.get("content-type").is_none_or(|kind| kind != "application/x-protobuf") {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    // ExportTraceServiceRequest.resource_spans.scope_spans.spans
    for resource_spans in messages(&body, 1) {
        for scope_spans in messages(resource_spans, 2) {
            for span in messages(scope_spans, 2) {
                let _ = told.send(read_span(span));
            }
        }
    }
    StatusCode::OK
}

fn read_span(bytes: &[u8]) -> Span {
    let hex = |field| {
        messages(bytes, field).next().unwrap_or_default().iter().map(|b| format!("{b:02x}")).collect()
    };
    let (began_at, ended_at) = (number(bytes, 7).unwrap(), number(bytes, 8).unwrap());
    assert!(began_at > 1_600_000_000_000_000_000 && ended_at >= began_at);
    let attribute = |pair: &[u8]| {
        let value = messages(pair, 2).next().unwrap();
        let text = messages(value, 1).next().map(|text| String::from_utf8(text.to_vec()).unwrap());
        (text_of(pair, 1), text.or(number(value, 3).map(|number| number.to_string())).unwrap_or_default())
    };
    Span {
        trace_id: hex(1),
        span_id: hex(2),
        parent_span_id: hex(4),
        name: text_of(bytes, 5),
        kind: number(bytes, 6).unwrap(),
        has_failed: messages(bytes, 15).any(|status| number(status, 3) == Some(2)),
        attributes: messages(bytes, 9).map(attribute).collect(),
    }
}

fn text_of(bytes: &[u8], field: u64) -> String {
    String::from_utf8(messages(bytes, field).next().unwrap_or_default().to_vec()).unwrap()
}

/// One field of a protobuf message.
enum Part<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn parts(mut bytes: &[u8]) -> Vec<(u64, Part<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let part = match tag & 7 {
            0 => Part::Number(varint(&mut bytes)),
            1 => {
                let (fixed, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Part::Number(u64::from_le_bytes(*fixed))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (part, rest) = bytes.split_at(length);
                bytes = rest;
                Part::Bytes(part)
            }
            other => panic!("wire type {other}"),
        };
        parts.push((tag >> 3, part));
    }
    parts
}

fn messages(bytes: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    parts(bytes).into_iter().filter_map(move |(field, part)| match part {
        Part::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    })
}

fn number(bytes: &[u8], wanted: u64) -> Option<u64> {
    parts(bytes).into_iter().find_map(|(field, part)| match part {
        Part::Number(number) if field == wanted => Some(number),
        _ => None,
    })
}
