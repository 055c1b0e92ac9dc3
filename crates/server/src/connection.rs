//! One connection from its first byte to its last: HTTP/1.1 or HTTP/2, with a limit on everything a client can make us wait for.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::Request;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::ServiceExt;
use tower_service::Service;

use crate::drain::Draining;
use crate::limits;
use crate::listen::ListenOptions;
use crate::paced_streams::{AnswerBody, StreamExecutor};
use crate::pulse::{Pulse, Verdict};
use crate::screen::screen;
use crate::trace::TraceId;
use crate::watched_io::WatchedIo;

/// What answers requests: an axum `Router`, or anything that looks like one.
pub trait Answers:
    Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Answers for S where
    S: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

/// Who is at the other end; in the extensions of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The address the connection comes from. Behind a proxy it is the proxy's.
    pub address: SocketAddr,
    /// Is the connection encrypted by us?
    pub is_tls: bool,
}

impl Peer {
    /// Did the request come over a connection that is encrypted by us?
    pub(crate) fn is_tls<B>(request: &Request<B>) -> bool {
        request.extensions().get::<Peer>().is_some_and(|peer| peer.is_tls)
    }
}

/// A body took longer than it may; handlers find it in the cause of a failed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body did not arrive in time")]
pub struct BodyTimedOut;

/// Serves one connection until it ends, is cut, or has drained.
pub(crate) async fn serve_connection<T, S>(
    io: T,
    peer: Peer,
    service: S,
    options: &ListenOptions,
    mut draining: Draining,
) where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    S: Answers,
{
    let pulse = Pulse::new(Instant::now());
    let io = TokioIo::new(WatchedIo::new(io, pulse.clone(), options.write_stall_timeout));
    let (max_uri_bytes, body_timeout) = (options.max_uri_bytes, options.body_read_timeout);
    let answer = {
        let pulse = pulse.clone();
        hyper::service::service_fn(move |request: Request<Incoming>| {
            let in_flight = pulse.begin_request();
            let answer = answer(service.clone(), request, peer, max_uri_bytes, body_timeout);
            async move { Ok::<_, Infallible>(answer.await.map(|inner| AnswerBody::new(inner, in_flight))) }
        })
    };
    let builder = protocols(options);
    let mut connection = pin!(builder.serve_connection(io, answer));
    let mut watch = pin!(sleep(options.header_read_timeout));
    let mut is_closing = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = draining.begun(), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            () = watch.as_mut() => {
                let now = Instant::now();
                match pulse.judge(now, options.header_read_timeout, options.idle_timeout) {
                    Verdict::LookAgain(at) => watch.as_mut().reset(at),
                    Verdict::CutSlowHead => return,
                    // Was asked to close a round ago, and did not.
                    Verdict::CloseIdle if is_closing => return,
                    Verdict::CloseIdle => {
                        is_closing = true;
                        connection.as_mut().graceful_shutdown();
                        watch.as_mut().reset(now + options.header_read_timeout);
                    }
                }
            }
        }
    }
}

fn protocols(options: &ListenOptions) -> auto::Builder<StreamExecutor> {
    let mut builder = auto::Builder::new(StreamExecutor { stall_timeout: options.write_stall_timeout });
    builder
        .http1()
        .timer(TokioTimer::new())
        // The watch cuts slow heads earlier; hyper's own clock also runs while a connection is merely idle.
        .header_read_timeout(options.idle_timeout + options.header_read_timeout)
        .max_buf_size(options.max_header_bytes.max(limits::MIN_HTTP1_BUFFER))
        .max_headers(options.max_headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.max_http2_streams)
        .max_pending_accept_reset_streams(limits::MAX_HTTP2_PENDING_RESETS)
        .max_send_buf_size(limits::MAX_HTTP2_SEND_BUFFER)
        .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(options.http2_ping_interval)
        .keep_alive_timeout(options.http2_ping_timeout);
    builder
}

async fn answer<S: Answers>(
    service: S,
    request: Request<Incoming>,
    peer: Peer,
    max_uri_bytes: usize,
    body_timeout: Duration,
) -> Response {
    let (mut head, body) = request.into_parts();
    if let Err(refused) = screen(&head, max_uri_bytes) {
        let id = TraceId::of_request(&head.headers);
        let mut response = id.scope(async { refused.into_response() }).await;
        // Whoever sends such a request may have more in store that is not what it seems.
        if head.version < http::Version::HTTP_2 {
            response.headers_mut().insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
        }
        return response;
    }
    head.extensions.insert(peer);
    let body = Body::new(TimedBody { inner: body, timeout: body_timeout, deadline: None });
    match service.oneshot(Request::from_parts(head, body)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// A request's body that must arrive in time, counted from the first read.
struct TimedBody {
    inner: Incoming,
    timeout: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let end = Instant::now() + self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyTimedOut.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
