//! Spans for an OpenTelemetry receiver, by OTLP over HTTP with protobuf.
//!
//! Exported are requests (in the trace of the caller, if it names one), stretches of driving a run,
//! and the attempts at effects within them. All stretches of one run form one trace, on any node
//! and at any time, because the trace id is the run id.

mod encode;
mod send;
mod settings;
mod span_layer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hapax_outgoing::Outgoing;
use tokio::sync::{mpsc, oneshot};
use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::FilterFn;

use crate::limits::MAX_PENDING_SPANS;
pub use settings::{OtlpError, OtlpSettings};
pub use span_layer::SpanLayer;

static EXPORTED: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Spans that a receiver accepted, in this process.
pub(crate) fn count_exported() -> u64 {
    EXPORTED.load(Ordering::Relaxed)
}

/// Spans that were not exported.
pub(crate) fn count_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Command for an exporter.
enum ExporterCommand {
    Span(Box<span_layer::Finished>),
    /// Send all current spans, then report completion.
    Flush(oneshot::Sender<()>),
}

/// Accepts spans and sends them, in bounded batches. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Exporter {
    queue: mpsc::Sender<ExporterCommand>,
    settings: Arc<OtlpSettings>,
}

impl Exporter {
    /// Creates an exporter from the environment (`OTEL_EXPORTER_OTLP_ENDPOINT`, …); `None` without
    /// an endpoint. Must be called in a Tokio runtime.
    pub fn from_env() -> Result<Option<Self>, OtlpError> {
        let settings = OtlpSettings::read(|name| std::env::var(name).ok())?;
        settings.map(Exporter::start).transpose()
    }

    /// Creates an exporter with these settings. Must be called in a Tokio runtime.
    pub fn start(settings: OtlpSettings) -> Result<Self, OtlpError> {
        let outgoing =
            Outgoing::new(settings.rules()).map_err(|error| OtlpError::Endpoint(error.to_string()))?;
        let settings = Arc::new(settings);
        let (queue, told) = mpsc::channel(MAX_PENDING_SPANS);
        tokio::spawn(send::keep_sending(told, outgoing, settings.clone()));
        Ok(Exporter { queue, settings })
    }

    /// Layer that collects spans; add it to a subscriber under [`Exporter::filter`].
    pub fn layer(&self) -> SpanLayer {
        SpanLayer::new(self.queue.clone())
    }

    /// Filter for exported spans. It excludes the exporter's own work, and events that are not
    /// logged cost nothing.
    pub fn filter() -> FilterFn {
        let is_exported = |about: &Metadata<'_>| {
            let is_ours = about.target() == "hapax::http" || about.target().starts_with("hapax_engine");
            about.is_span() && is_ours
        };
        FilterFn::new(is_exported as fn(&Metadata<'_>) -> bool).with_max_level_hint(LevelFilter::DEBUG)
    }

    /// Sends all current spans, before the process ends.
    pub async fn flush(&self) {
        let (done, told) = oneshot::channel();
        if self.queue.send(ExporterCommand::Flush(done)).await.is_ok() {
            // An error means that the sender has stopped.
            let _ = told.await;
        }
    }

    /// Where spans go.
    pub fn url(&self) -> &str {
        self.settings.url()
    }
}
