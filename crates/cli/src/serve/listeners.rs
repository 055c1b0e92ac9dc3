//! Listening addresses: bound before anything is opened, so that the server's own addresses are
//! known in time, and served once everything is ready.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket};

use super::settings::Settings;
use crate::limits::LISTEN_BACKLOG;

/// Bound addresses; connections are not answered until the server is ready.
pub(crate) struct BoundListeners {
    main: BoundListener,
    metrics: Option<BoundListener>,
}

struct BoundListener {
    address: SocketAddr,
    socket: Socket,
}

enum Socket {
    Taken(TcpSocket),
    /// Connections wait here until they are accepted.
    Listening(std::net::TcpListener),
}

impl BoundListeners {
    pub(crate) fn take(settings: &Settings) -> Result<Self> {
        let main = bind(settings.listen)?;
        let metrics = settings.metrics_listen.map(bind).transpose()?;
        Ok(BoundListeners { main, metrics })
    }

    /// With the actual port, if port 0 was requested.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let metrics = self.metrics.as_ref().map(|place| place.address);
        std::iter::once(self.main.address).chain(metrics).collect()
    }

    /// Listens for requests and for metrics. Call it again only after the earlier listeners have stopped.
    pub(crate) fn listen(self) -> Result<(Self, TcpListener, Option<TcpListener>)> {
        let (main, listener) = self.main.listen()?;
        let (metrics, for_metrics) = match self.metrics.map(BoundListener::listen).transpose()? {
            Some((place, listener)) => (Some(place), Some(listener)),
            None => (None, None),
        };
        Ok((BoundListeners { main, metrics }, listener, for_metrics))
    }
}

impl BoundListener {
    fn listen(self) -> Result<(Self, TcpListener)> {
        let BoundListener { address, socket } = self;
        let listening = || {
            let socket = match socket {
                Socket::Taken(socket) => socket.listen(LISTEN_BACKLOG)?.into_std()?,
                Socket::Listening(socket) => socket,
            };
            let listener = TcpListener::from_std(socket.try_clone()?)?;
            Ok::<_, std::io::Error>((BoundListener { address, socket: Socket::Listening(socket) }, listener))
        };
        listening().with_context(|| format!("cannot listen on {address}"))
    }
}

fn bind(wanted: SocketAddr) -> Result<BoundListener> {
    let bound = || {
        let socket = if wanted.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Connections of a server that has just ended do not block the address.
        socket.set_reuseaddr(true)?;
        socket.bind(wanted)?;
        Ok::<_, std::io::Error>(BoundListener {
            address: socket.local_addr()?,
            socket: Socket::Taken(socket),
        })
    };
    bound().with_context(|| format!("cannot listen on {wanted}"))
}
