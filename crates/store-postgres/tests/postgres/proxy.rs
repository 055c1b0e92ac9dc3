//! A TCP proxy between store and server that can be told to misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Cuts a connection instead of passing its COMMIT on; once, and passes everything on from then.
    LoseCommit,
    /// Passes a COMMIT on, and cuts its connection when the answer comes; once, and passes everything on from then.
    LoseAnswerToCommit,
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
                let (cut, commits) = (Arc::new(watch::Sender::new(false)), Arc::new(AtomicBool::new(false)));
                let wire = |is_answer| Wire {
                    way: told.subscribe(),
                    orders: told.clone(),
                    cut: cut.clone(),
                    commits: commits.clone(),
                    is_answer,
                };
                tokio::spawn(wire(false).carry(from_client, to_server));
                tokio::spawn(wire(true).carry(from_server, to_client));
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

/// One direction of a connection.
struct Wire {
    way: watch::Receiver<Way>,
    orders: Arc<watch::Sender<Way>>,
    cut: Arc<watch::Sender<bool>>,
    /// Has a COMMIT been passed on?
    commits: Arc<AtomicBool>,
    is_answer: bool,
}

impl Wire {
    async fn carry(mut self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 64 * 1024];
        let mut is_cut = self.cut.subscribe();
        loop {
            let read = tokio::select! {
                read = from.read(&mut buffer) => read,
                _ = is_cut.wait_for(|cut| *cut) => return,
            };
            let Ok(count @ 1..) = read else { return };
            let sent = &buffer[..count];
            let now = *self.way.borrow();
            let cuts = match now {
                Way::Hold => {
                    if self.way.wait_for(|way| *way != Way::Hold).await.is_err() {
                        return;
                    }
                    false
                }
                Way::Pass => false,
                Way::CutBeforeAnswer => self.is_answer,
                Way::LoseCommit => !self.is_answer && is_commit(sent),
                Way::LoseAnswerToCommit if self.is_answer => self.commits.load(Ordering::Relaxed),
                Way::LoseAnswerToCommit => {
                    self.commits.fetch_or(is_commit(sent), Ordering::Relaxed);
                    false
                }
            };
            if cuts {
                if matches!(now, Way::LoseCommit | Way::LoseAnswerToCommit) {
                    self.orders.send_replace(Way::Pass);
                }
                self.cut.send_replace(true);
                return;
            }
            if to.write_all(sent).await.is_err() {
                return;
            }
        }
    }
}

fn is_commit(sent: &[u8]) -> bool {
    sent.windows(7).any(|bytes| bytes == b"COMMIT\0")
}
