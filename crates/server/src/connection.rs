//! One connection from its first byte to its last: HTTP/1.1 or HTTP/2, with a limit on every wait
//! that a client can cause.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Request, Version, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};
use tower::ServiceExt;
use tower_service::Service;

use crate::body_budget::BodyBudget;
use crate::drain::Draining;
use crate::idle_tracked_io::IdleTrackedIo;
use crate::idle_tracker::{IdleTracker, Verdict};
use crate::limits;
use crate::listen::ListenOptions;
use crate::paced_streams::{AnswerBody, StreamExecutor};
use crate::proxies::Proxies;
use crate::request_body::{RequestBody, UnreadBody};
use crate::trace::TraceId;
use crate::validate_uri::validate_uri;

/// Service that answers requests: an axum `Router`, or a type that looks like one.
pub trait Answers:
    Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Answers for S where
    S: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

/// The caller's end of a connection; in the extensions of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Address of the caller: the other end of the connection, or the client that a trusted proxy
    /// names ([`Proxies`]), without a port.
    pub address: SocketAddr,
    /// Does this server terminate TLS on the connection?
    pub is_tls: bool,
}

impl Peer {
    /// Reads the caller from these headers if the peer is a trusted proxy.
    fn told_by(self, proxies: &Proxies, headers: &HeaderMap) -> Self {
        let address = match proxies.client(self.address.ip(), headers) {
            same if same == self.address.ip() => self.address,
            client => SocketAddr::new(client, 0),
        };
        Peer { address, ..self }
    }

    /// Returns true if the request came over TLS that this server terminates.
    pub(crate) fn is_tls<B>(request: &Request<B>) -> bool {
        request.extensions().get::<Peer>().is_some_and(|peer| peer.is_tls)
    }
}

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
    let pulse = IdleTracker::new(Instant::now());
    let io = TokioIo::new(IdleTrackedIo::new(io, pulse.clone(), options.write_stall_timeout));
    let intake = RequestIntake {
        max_uri_bytes: options.max_uri_bytes,
        body_timeout: options.body_read_timeout,
        body_budget: options.body_budget.clone(),
        pulse: pulse.clone(),
    };
    let proxies = options.proxies.clone();
    let answer = {
        let pulse = pulse.clone();
        hyper::service::service_fn(move |request: Request<Incoming>| {
            let in_flight = pulse.begin_request();
            let peer = peer.told_by(&proxies, request.headers());
            let answer = answer(service.clone(), request, peer, intake.clone());
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
            _ = draining.begun(), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            () = watch.as_mut() => {
                let now = Instant::now();
                match pulse.judge(now, options.header_read_timeout, options.idle_timeout) {
                    Verdict::LookAgain(at) => watch.as_mut().reset(at),
                    Verdict::CutSlowHead => return,
                    // It was asked to close a round ago, and did not.
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
        // The idle tracker cuts slow heads earlier; hyper's own timer also runs while a connection
        // is merely idle.
        .header_read_timeout(options.idle_timeout + options.header_read_timeout)
        .max_buf_size(options.max_header_bytes.max(limits::MIN_HTTP1_BUFFER))
        .max_headers(options.max_headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.max_http2_streams)
        .max_pending_accept_reset_streams(limits::MAX_HTTP2_PENDING_RESETS)
        .max_send_buf_size(limits::MAX_HTTP2_SEND_BUFFER)
        .initial_stream_window_size(limits::HTTP2_STREAM_WINDOW)
        .initial_connection_window_size(limits::HTTP2_CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(options.http2_ping_interval)
        .keep_alive_timeout(options.http2_ping_timeout);
    builder
}

/// Shared state for accepting a request.
#[derive(Clone)]
struct RequestIntake {
    max_uri_bytes: usize,
    body_timeout: Duration,
    body_budget: Arc<BodyBudget>,
    pulse: IdleTracker,
}

async fn answer<S: Answers>(
    service: S,
    request: Request<Incoming>,
    peer: Peer,
    intake: RequestIntake,
) -> Response {
    let (mut head, body) = request.into_parts();
    if let Err(refused) = validate_uri(&head, intake.max_uri_bytes) {
        let id = TraceId::from_request(&head.headers);
        let mut response = id.scope(async { refused.into_response() }).await;
        // The sender may have smuggled a second request behind this one.
        if head.version < Version::HTTP_2 {
            response.headers_mut().insert(header::CONNECTION, http::HeaderValue::from_static("close"));
        }
        return response;
    }
    head.extensions.insert(peer);
    // Kept until the response: until then the handler may hold the bytes it read.
    let charge = intake.body_budget.charge(peer.address.ip());
    head.extensions.insert(charge.clone());
    let unread = match head.version < Version::HTTP_2 && !head.headers.contains_key(header::EXPECT) {
        true => UnreadBody::Discarded(intake.pulse),
        false => UnreadBody::Dropped,
    };
    let body = Body::new(RequestBody::new(body, intake.body_timeout, charge.clone(), unread));
    let answered = service.oneshot(Request::from_parts(head, body)).await;
    drop(charge);
    match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
