//! The accept loop: connection limits, TLS, running out of file descriptors, and graceful shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hapax_api::{Code, PROBLEM_JSON, Problem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::body_budget::BodyBudget;
use crate::connection::{Answers, Peer, serve_connection};
use crate::connection_limit::{ConnectionLimit, ConnectionPermit};
use crate::drain::Draining;
use crate::limits;
use crate::proxies::Proxies;
use crate::tls::Tls;

/// Limits of one listener. Each limit field has the constant of the same name in [`limits`] as its
/// default.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Most connections at once.
    pub max_connections: usize,
    /// Most connections at once from one address; proxies are exempt.
    pub max_connections_per_address: usize,
    /// Longest time to read the head of a request.
    pub header_read_timeout: Duration,
    /// Longest time to read a body.
    pub body_read_timeout: Duration,
    /// Longest time that a client may leave bytes unread.
    pub write_stall_timeout: Duration,
    /// Longest time without a request.
    pub idle_timeout: Duration,
    /// Longest TLS handshake.
    pub tls_handshake_timeout: Duration,
    /// Longest time for requests in flight to end.
    pub drain_timeout: Duration,
    /// Largest head of a request, in bytes.
    pub max_header_bytes: usize,
    /// Most headers of a request.
    pub max_headers: usize,
    /// Longest path and query, in bytes.
    pub max_uri_bytes: usize,
    /// Most requests at once on one HTTP/2 connection.
    pub max_http2_streams: u32,
    /// Interval between HTTP/2 pings.
    pub http2_ping_interval: Duration,
    /// Longest wait for the answer to a ping.
    pub http2_ping_timeout: Duration,
    /// TLS configuration; `None` is plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// How often it is checked whether the files of the certificate changed.
    pub tls_reload_every: Duration,
    /// Trusted proxies in front.
    pub proxies: Arc<Proxies>,
    /// Budget for bodies in memory.
    pub body_budget: Arc<BodyBudget>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            max_connections: limits::MAX_CONNECTIONS,
            max_connections_per_address: limits::MAX_CONNECTIONS_PER_ADDRESS,
            header_read_timeout: limits::HEADER_READ_TIMEOUT,
            body_read_timeout: limits::BODY_READ_TIMEOUT,
            write_stall_timeout: limits::WRITE_STALL_TIMEOUT,
            idle_timeout: limits::IDLE_TIMEOUT,
            tls_handshake_timeout: limits::TLS_HANDSHAKE_TIMEOUT,
            drain_timeout: limits::DRAIN_TIMEOUT,
            max_header_bytes: limits::MAX_HEADER_BYTES,
            max_headers: limits::MAX_HEADERS,
            max_uri_bytes: limits::MAX_URI_BYTES,
            max_http2_streams: limits::MAX_HTTP2_STREAMS,
            http2_ping_interval: limits::HTTP2_PING_INTERVAL,
            http2_ping_timeout: limits::HTTP2_PING_TIMEOUT,
            tls: None,
            tls_reload_every: limits::TLS_RELOAD_EVERY,
            proxies: Arc::default(),
            body_budget: Arc::default(),
        }
    }
}

/// How a listener ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still busy at the end of the drain time, and were cut.
    pub cut: usize,
}

/// Serves `listener` with `service` until the shutdown signal. Then it accepts no new connections,
/// closes idle ones, lets requests in flight end, and cuts the rest after `drain_timeout`.
pub async fn serve<S: Answers>(
    listener: TcpListener,
    service: S,
    options: ListenOptions,
    mut draining: Draining,
) -> Drained {
    let options = Arc::new(options);
    let seats = ConnectionLimit::new(options.max_connections, options.max_connections_per_address);
    let refusals = Arc::new(Semaphore::new(limits::MAX_POLITE_REFUSALS));
    let mut connections = JoinSet::new();
    let mut pause = None;
    let mut reload = interval(options.tls_reload_every);
    reload.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = draining.begun() => break,
            _ = reload.tick(), if options.tls.is_some() => {
                if let Some(tls) = options.tls.clone() {
                    connections.spawn(reload_certificate(tls));
                }
            }
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, address)) => {
                    pause = None;
                    let is_proxy = options.proxies.has_sent(address.ip());
                    match seats.find_seat((!is_proxy).then_some(address.ip())) {
                        Some(seat) => {
                            let (service, options, draining) = (service.clone(), options.clone(), draining.clone());
                            connections.spawn(welcome(socket, address, seat, service, options, draining));
                        }
                        None => refuse_politely(socket, options.tls.is_some(), &refusals),
                    }
                }
                Err(error) => {
                    pause = pause_after(&error, pause);
                    tracing::warn!(%error, ?pause, "a connection could not be accepted");
                    if let Some(pause) = pause {
                        // Connections that end during the pause free their descriptors.
                        tokio::select! {
                            () = sleep(pause) => {}
                            _ = draining.begun() => break,
                        }
                    }
                }
            },
        }
    }
    drop(listener);
    let deadline = draining.begun().await + options.drain_timeout;
    while let Ok(Some(_)) = timeout_at(deadline, connections.join_next()).await {}
    let cut = connections.len();
    connections.shutdown().await;
    Drained { cut }
}

/// Takes a renewed certificate into use. Connections that are open keep the old one.
async fn reload_certificate(tls: Arc<Tls>) {
    match tokio::task::spawn_blocking(move || tls.reload()).await {
        Ok(Ok(true)) => tracing::info!("the certificate was read again, because its files changed"),
        Ok(Ok(false)) | Err(_) => {}
        Ok(Err(error)) => {
            tracing::error!(%error, "the new certificate cannot be used; the old one stays in use");
        }
    }
}

/// Pause before the next accept. Errors of one connection need none; running out of descriptors or
/// memory does, or the loop would spin.
fn pause_after(error: &io::Error, last: Option<Duration>) -> Option<Duration> {
    match error.kind() {
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted => {
            None
        }
        _ => Some(last.map_or(limits::MIN_ACCEPT_PAUSE, |last| (last * 2).min(limits::MAX_ACCEPT_PAUSE))),
    }
}

async fn welcome<S: Answers>(
    socket: TcpStream,
    address: SocketAddr,
    _seat: ConnectionPermit,
    service: S,
    options: Arc<ListenOptions>,
    draining: Draining,
) {
    // Responses are small and urgent. A socket that rejects the option still works.
    let _ = socket.set_nodelay(true);
    let Some(tls) = options.tls.clone() else {
        let peer = Peer { address, is_tls: false };
        return serve_connection(socket, peer, service, &options, draining).await;
    };
    let handshake = TlsAcceptor::from(tls.config()).accept(socket);
    match timeout(options.tls_handshake_timeout, handshake).await {
        Ok(Ok(stream)) => {
            let peer = Peer { address, is_tls: true };
            serve_connection(stream, peer, service, &options, draining).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Sends a "no room" response, if the client can understand it and not too many are being sent
/// already.
fn refuse_politely(mut socket: TcpStream, is_tls: bool, refusals: &Arc<Semaphore>) {
    let Ok(permit) = refusals.clone().try_acquire_owned() else { return };
    if is_tls {
        return;
    }
    tokio::spawn(async move {
        let _permit = permit;
        let work = async {
            socket.write_all(no_room().as_bytes()).await?;
            socket.shutdown().await?;
            // Closing with unread bytes would reset the connection and could lose the response.
            let mut scratch = [0; 1024];
            while socket.read(&mut scratch).await? > 0 {}
            io::Result::Ok(())
        };
        let _ = timeout(limits::REFUSAL_TIMEOUT, work).await;
    });
}

fn no_room() -> String {
    let problem = Problem::new(
        Code::TooManyConnections,
        "The server has reached its limit of connections; reuse connections, or try again in a moment.",
    )
    .retry_after(1);
    let body = serde_json::to_string(&problem).unwrap_or_default();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\nretry-after: 1\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RELIABILITY, fault 41.
    #[test]
    fn out_of_descriptors_the_loop_waits_longer_and_longer_and_never_gives_up() {
        let out_of_files = io::Error::from_raw_os_error(24);
        let mut pause = None;
        for _ in 0..20 {
            let next = pause_after(&out_of_files, pause).unwrap();
            assert!(next >= pause.unwrap_or(limits::MIN_ACCEPT_PAUSE) && next <= limits::MAX_ACCEPT_PAUSE);
            pause = Some(next);
        }
        assert_eq!(pause, Some(limits::MAX_ACCEPT_PAUSE));
        let gone = io::Error::from(io::ErrorKind::ConnectionAborted);
        assert_eq!(pause_after(&gone, pause), None);
    }
}
