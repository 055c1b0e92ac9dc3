//! A TCP proxy between store and server that can be told to misbehave.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the proxy does with what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Passes everything on.
    Pass,
    /// Takes everything and passes nothing on, in either direction.
    Hold,
    /// Passes requests on, swallows the first answer, and cuts the connection.
    CutBeforeAnswer,
}

pub(crate) struct Proxy {
    url: String,
    way: Arc<watch::Sender<Way>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// A proxy to the server of this URL, as obedient as a wire.
    pub(crate) async fn start(url: &str) -> Proxy {
        let (before, place) = url.rsplit_once('@').unwrap();
        let (server, database) = place.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let way = Arc::new(watch::Sender::new(Way::Pass));
        let (told, server) = (way.clone(), server.to_owned());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let cut = Arc::new(watch::Sender::new(false));
                tokio::spawn(carry(from_client, to_server, told.subscribe(), cut.clone(), false));
                tokio::spawn(carry(from_server, to_client, told.subscribe(), cut, true));
            }
        });
        Proxy { url: format!("{before}@{own}/{database}"), way, accepting }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut way: watch::Receiver<Way>,
    cut: Arc<watch::Sender<bool>>,
    is_answer: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut is_cut = cut.subscribe();
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = is_cut.wait_for(|cut| *cut) => return,
        };
        let Ok(count @ 1..) = read else { return };
        let now = *way.borrow();
        match now {
            Way::Hold => {
                if way.wait_for(|way| *way != Way::Hold).await.is_err() {
                    return;
                }
            }
            Way::CutBeforeAnswer if is_answer => {
                cut.send_replace(true);
                return;
            }
            Way::Pass | Way::CutBeforeAnswer => {}
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
