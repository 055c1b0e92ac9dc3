//! The body of a request as it comes in. It must arrive in time, it is charged to the server's
//! budget, and it is read to its end if its handler did not.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::body_budget::BodyCharge;
use crate::idle_tracker::IdleTracker;
use crate::limits::{DISCARD_BODY_FOR, MAX_DISCARDED_BODY_BYTES};

/// The body took too long; handlers find this in the cause of a failed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body did not arrive in time")]
pub struct BodyTimedOut;

/// A body that is being received.
pub(crate) struct RequestBody {
    /// `None` after it is dropped.
    inner: Option<Incoming>,
    /// Starts at the first read.
    timeout: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
    charge: BodyCharge,
    unread: UnreadBody,
}

/// Treatment of a body that the handler does not read to its end.
pub(crate) enum UnreadBody {
    /// Dropped: the protocol resets the stream, or the client waits for `100 Continue`.
    Dropped,
    /// Read and dropped for a while. Closing an HTTP/1 connection with unread bytes would reset it
    /// and could lose the response.
    Discarded(IdleTracker),
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, timeout: Duration, charge: BodyCharge, unread: UnreadBody) -> Self {
        RequestBody { inner: Some(inner), timeout, deadline: None, charge, unread }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(inner).poll_frame(cx) {
            let counted = |frame: Frame<Bytes>| {
                if let Some(data) = frame.data_ref() {
                    self.charge.add(data.len())?;
                }
                Ok(frame)
            };
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into).and_then(counted)));
        }
        let end = Instant::now() + self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(deadline.as_mut().poll(cx));
        // Such a slow sender is not waited for any longer.
        self.unread = UnreadBody::Dropped;
        Poll::Ready(Some(Err(BodyTimedOut.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map(http_body::Body::size_hint).unwrap_or_default()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let UnreadBody::Discarded(pulse) = &self.unread else { return };
        let Some(inner) = self.inner.take().filter(|inner| !inner.is_end_stream()) else { return };
        // Without a runtime the process is about to end.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (in_flight, patience) = (pulse.begin_request(), self.timeout.min(DISCARD_BODY_FOR));
            runtime.spawn(async move {
                let _in_flight = in_flight;
                let _ = timeout(patience, discard(inner)).await;
            });
        }
    }
}

async fn discard(mut body: Incoming) {
    let mut left = MAX_DISCARDED_BODY_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}
