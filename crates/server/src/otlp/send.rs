//! Sends spans in batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hapax_outgoing::{Outgoing, Request};
use http::header::{CONTENT_TYPE, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::encode::encode;
use super::settings::OtlpSettings;
use super::span_layer::Finished;
use super::{DROPPED, EXPORTED, ExporterCommand};
use crate::limits::{MAX_SPANS_PER_EXPORT, SPAN_EXPORT_EVERY};

/// Interval of warnings about a receiver that rejects spans.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Sends spans until all senders are gone.
pub(super) async fn keep_sending(
    mut told: mpsc::Receiver<ExporterCommand>,
    outgoing: Outgoing,
    settings: Arc<OtlpSettings>,
) {
    let mut complained_at: Option<Instant> = None;
    while let Some(first) = told.recv().await {
        let mut spans = Vec::new();
        let mut waiting: Option<oneshot::Sender<()>> = None;
        let mut next = Some(first);
        let until = Instant::now() + SPAN_EXPORT_EVERY;
        loop {
            match next.take() {
                Some(ExporterCommand::Span(span)) => spans.push(*span),
                Some(ExporterCommand::Flush(done)) => {
                    waiting = Some(done);
                    break;
                }
                None => break,
            }
            if spans.len() >= MAX_SPANS_PER_EXPORT {
                break;
            }
            next = timeout_at(until, told.recv()).await.unwrap_or_default();
        }
        if let Err(why) = send(&outgoing, &settings, &spans).await {
            DROPPED.fetch_add(spans.len() as u64, Ordering::Relaxed);
            if complained_at.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                complained_at = Some(Instant::now());
                tracing::warn!(%why, spans = spans.len(), "spans could not be exported; they are dropped");
            }
        }
        if let Some(done) = waiting {
            // The caller may have stopped waiting.
            let _ = done.send(());
        }
    }
}

async fn send(outgoing: &Outgoing, settings: &OtlpSettings, spans: &[Finished]) -> Result<(), String> {
    if spans.is_empty() {
        return Ok(());
    }
    let mut request = Request::post(settings.url(), encode(spans, settings.service()));
    request.headers = settings.headers().clone();
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    let answer = outgoing.send(request).await.map_err(|fault| fault.to_string())?;
    match answer.is_success() {
        true => {
            EXPORTED.fetch_add(spans.len() as u64, Ordering::Relaxed);
            Ok(())
        }
        false => Err(format!("the receiver answered {}", answer.status)),
    }
}
