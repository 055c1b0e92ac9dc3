//! Collects spans as they open, get fields, and close.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use hapax_engine::model::RunId;
use tokio::sync::mpsc;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::{DROPPED, ExporterCommand};
use crate::limits::{MAX_SPAN_ATTRIBUTE_BYTES, MAX_SPAN_ATTRIBUTES};

/// A layer that hands closed spans to an [`super::Exporter`].
#[derive(Debug, Clone)]
pub struct SpanLayer {
    queue: mpsc::Sender<ExporterCommand>,
}

/// A closed span.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) parent_span_id: Option<[u8; 8]>,
    pub(super) name: String,
    pub(super) is_server: bool,
    pub(super) has_failed: bool,
    pub(super) began_at: SystemTime,
    pub(super) ended_at: SystemTime,
    pub(super) attributes: Vec<(&'static str, Value)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    Truth(bool),
}

/// An open span.
struct OpenSpan {
    trace_id: Option<[u8; 16]>,
    span_id: [u8; 8],
    parent_span_id: Option<[u8; 8]>,
    name: Option<String>,
    is_sampled: bool,
    has_failed: bool,
    began_at: SystemTime,
    attributes: Vec<(&'static str, Value)>,
}

impl SpanLayer {
    pub(super) fn new(queue: mpsc::Sender<ExporterCommand>) -> Self {
        SpanLayer { queue }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut open = OpenSpan {
            trace_id: None,
            span_id: random(),
            parent_span_id: None,
            name: None,
            is_sampled: true,
            has_failed: false,
            began_at: SystemTime::now(),
            attributes: Vec::new(),
        };
        attributes.record(&mut open);
        if let Some(parent) = span.parent()
            && let Some(above) = parent.extensions().get::<OpenSpan>()
        {
            open.trace_id = above.trace_id;
            open.parent_span_id = Some(above.span_id);
            open.is_sampled = above.is_sampled;
        }
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(open);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        if !open.is_sampled {
            return;
        }
        let about = span.metadata();
        let finished = Finished {
            trace_id: open.trace_id.unwrap_or_else(random),
            span_id: open.span_id,
            parent_span_id: open.parent_span_id,
            name: open.name.unwrap_or_else(|| about.name().to_owned()),
            is_server: about.target() == "hapax::http",
            has_failed: open.has_failed,
            began_at: open.began_at,
            ended_at: SystemTime::now(),
            attributes: open.attributes,
        };
        if self.queue.try_send(ExporterCommand::Span(Box::new(finished))).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl OpenSpan {
    fn keep(&mut self, name: &'static str, value: Value) {
        match (name, &value) {
            ("trace_id", Value::Text(text)) => self.trace_id = read_hex(text),
            ("parent_span_id", Value::Text(text)) => self.parent_span_id = read_hex(text),
            ("sampled", Value::Truth(is_sampled)) => self.is_sampled = *is_sampled,
            ("otel.name", Value::Text(text)) => self.name = Some(text.clone()),
            _ => {
                // All stretches of a run form one trace, and a run id is as wide as a trace id.
                if let ("run", Value::Text(text), None) = (name, &value, self.trace_id) {
                    self.trace_id = text.parse().ok().map(|run: RunId| run.as_u128().to_be_bytes());
                }
                self.has_failed |= match (name, &value) {
                    ("http.response.status_code", Value::Number(status)) => *status >= 500,
                    ("outcome", Value::Text(outcome)) => outcome != "completed",
                    _ => false,
                };
                if self.attributes.len() < MAX_SPAN_ATTRIBUTES {
                    self.attributes.push((name, value));
                }
            }
        }
    }
}

impl Visit for OpenSpan {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let cut = value.floor_char_boundary(MAX_SPAN_ATTRIBUTE_BYTES);
        self.keep(field.name(), Value::Text(value[..cut].to_owned()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field.name(), Value::Number(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field.name(), Value::Number(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field.name(), Value::Truth(value));
    }
}

/// Not a secret: it only has to be unlikely to collide.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() || bytes.iter().all(|byte| *byte == 0) {
        bytes[N - 1] = 1;
    }
    bytes
}

fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}
