//! Backpressure for HTTP/2 responses. The client opens the flow-control window of each stream, and
//! a stream whose client opens it too slowly, or never, is reset. The socket itself looks fine all
//! the while, so it cannot be detected there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, sleep};

use crate::idle_tracker::InFlight;
use crate::limits::MAX_PIECE_BYTES;

tokio::task_local! {
    /// Set in the task of a stream, and so absent on HTTP/1.
    static PACE: Arc<StreamTurn>;
}

/// Spawns hyper's tasks for HTTP/2 streams, and ends a task whose client reads nothing for too
/// long: that resets the stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamExecutor {
    pub(crate) stall_timeout: Duration,
}

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let (stall_timeout, pace) = (self.stall_timeout, Arc::new(StreamTurn::new()));
        let stalled = pace.clone();
        let work = PACE.scope(pace, stream);
        tokio::spawn(async move {
            tokio::select! {
                _ = work => {}
                () = stalled.until_stalled(stall_timeout) => {
                    tracing::debug!("a stream was reset: its client does not read the response");
                }
            }
        });
    }
}

/// Whose turn it is, the client's or the server's.
#[derive(Debug)]
struct StreamTurn {
    born: Instant,
    /// Start of the client's turn in milliseconds since `born`, plus one; 0 during the server's
    /// turn.
    clients_turn_since: AtomicU64,
}

impl StreamTurn {
    fn new() -> Self {
        StreamTurn { born: Instant::now(), clients_turn_since: AtomicU64::new(0) }
    }

    fn is_clients_turn(&self) {
        let since = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.clients_turn_since.store(since + 1, Ordering::Relaxed);
    }

    fn is_our_turn(&self) {
        self.clients_turn_since.store(0, Ordering::Relaxed);
    }

    /// Ends once the client has stalled for this long. It checks at intervals, so that may take up
    /// to twice as long.
    async fn until_stalled(&self, stall_timeout: Duration) {
        let mut pause = stall_timeout;
        loop {
            sleep(pause).await;
            let waited = match self.clients_turn_since.load(Ordering::Relaxed) {
                0 => Duration::ZERO,
                since => self.born.elapsed().saturating_sub(Duration::from_millis(since - 1)),
            };
            pause = stall_timeout.saturating_sub(waited);
            if pause.is_zero() {
                return;
            }
        }
    }
}

/// The body of a response. It keeps its request in flight until it is sent. On HTTP/2 it is split
/// into pieces, and the last piece of a frame is a single byte: hyper asks for the next piece when
/// the client has made room for the one before, and finishes a frame only once all of it may go
/// out.
pub(crate) struct AnswerBody {
    inner: Body,
    pace: Option<Arc<StreamTurn>>,
    rest: Bytes,
    _in_flight: InFlight,
}

impl AnswerBody {
    pub(crate) fn new(inner: Body, in_flight: InFlight) -> Self {
        let pace = PACE.try_with(Arc::clone).ok();
        AnswerBody { inner, pace, rest: Bytes::new(), _in_flight: in_flight }
    }

    fn next_piece(&mut self) -> Bytes {
        let piece = match self.rest.len() {
            length @ 0..=1 => length,
            length => (length - 1).min(MAX_PIECE_BYTES),
        };
        self.rest.split_to(piece)
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(pace) = self.pace.clone() else { return Pin::new(&mut self.inner).poll_frame(cx) };
        pace.is_our_turn();
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end_or_error => return Poll::Ready(end_or_error),
            }
        }
        pace.is_clients_turn();
        Poll::Ready(Some(Ok(Frame::data(self.next_piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.inner.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::idle_tracker::IdleTracker;

    async fn pieces(body: Body) -> Vec<usize> {
        let in_flight = IdleTracker::new(Instant::now()).begin_request();
        let mut body = AnswerBody::new(body, in_flight);
        let length = http_body::Body::size_hint(&body).exact();
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap().len());
            if let Some(length) = length {
                let left = http_body::Body::size_hint(&body).exact();
                assert_eq!(left, Some(length - pieces.iter().sum::<usize>() as u64));
            }
        }
        pieces
    }

    #[tokio::test]
    async fn a_body_is_handed_over_in_pieces_on_http2_and_as_it_is_on_http1() {
        assert_eq!(pieces(Body::from("hello")).await, [5]);
        let on_http2 = async |body: Body| PACE.scope(Arc::new(StreamTurn::new()), pieces(body)).await;
        assert_eq!(on_http2(Body::from("hello")).await, [4, 1]);
        assert_eq!(on_http2(Body::from("h")).await, [1]);
        assert!(on_http2(Body::empty()).await.is_empty());
        let large = vec![0; 2 * MAX_PIECE_BYTES + 7];
        assert_eq!(on_http2(Body::from(large)).await, [MAX_PIECE_BYTES, MAX_PIECE_BYTES, 6, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_waited_for_and_our_own_work_is_not() {
        let (begin, pace, most) = (Instant::now(), Arc::new(StreamTurn::new()), Duration::from_secs(30));
        let stalled = tokio::spawn({
            let pace = pace.clone();
            async move { pace.until_stalled(most).await }
        });
        sleep(most * 10).await;
        assert!(!stalled.is_finished(), "a handler may take its time");
        pace.is_clients_turn();
        sleep(most - Duration::from_secs(1)).await;
        pace.is_our_turn();
        pace.is_clients_turn();
        sleep(Duration::from_secs(20)).await;
        assert!(!stalled.is_finished(), "it took a piece meanwhile");
        stalled.await.unwrap();
        let waited = begin.elapsed() - most * 10 - Duration::from_secs(29);
        assert!((30..=60).contains(&waited.as_secs()), "{waited:?}");
    }
}
