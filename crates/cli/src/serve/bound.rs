//! Where the server will listen: taken before anything is opened, so that its own addresses are known in time, and listened on once all
//! is ready.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket};

use super::settings::Settings;
use crate::limits::LISTEN_BACKLOG;

/// Addresses that are ours; nobody is answered there yet.
pub(crate) struct Bound {
    main: (SocketAddr, TcpSocket),
    metrics: Option<(SocketAddr, TcpSocket)>,
}

impl Bound {
    pub(crate) fn take(settings: &Settings) -> Result<Self> {
        let main = bind(settings.listen)?;
        let metrics = settings.metrics_listen.map(bind).transpose()?;
        Ok(Bound { main, metrics })
    }

    /// With the port that was taken where any would do.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let metrics = self.metrics.as_ref().map(|(address, _)| *address);
        std::iter::once(self.main.0).chain(metrics).collect()
    }

    /// Listens from now on: for requests, and for those who read metrics.
    pub(crate) fn listen(self) -> Result<(TcpListener, Option<TcpListener>)> {
        let listen = |(address, socket): (SocketAddr, TcpSocket)| {
            socket.listen(LISTEN_BACKLOG).with_context(|| format!("{address} cannot be listened on"))
        };
        Ok((listen(self.main)?, self.metrics.map(listen).transpose()?))
    }
}

fn bind(wanted: SocketAddr) -> Result<(SocketAddr, TcpSocket)> {
    let bound = || {
        let socket = if wanted.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // The connections of a server that ended a moment ago do not keep the next one from its address.
        socket.set_reuseaddr(true)?;
        socket.bind(wanted)?;
        Ok::<_, std::io::Error>((socket.local_addr()?, socket))
    };
    bound().with_context(|| format!("{wanted} cannot be listened on"))
}
