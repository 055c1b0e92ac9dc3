//! A TCP proxy between store and server that misbehaves on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Behaviour of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    /// Passes everything on.
    Pass,
    /// Accepts everything and passes nothing on, in either direction.
    Hold,
    /// Drops everything silently. A connection that lost data stays open and silent.
    Swallow,
    /// Passes requests on, swallows the first answer, and cuts the connection.
    CutBeforeAnswer,
    /// Cuts one connection instead of passing its COMMIT on; then passes everything on.
    LoseCommit,
    /// Passes one COMMIT on, and cuts its connection at the response; then passes everything on.
    LoseAnswerToCommit,
}

pub(crate) struct Proxy {
    url: String,
    way: Arc<watch::Sender<ProxyMode>>,
    dead: Arc<Dead>,
    accepting: tokio::task::JoinHandle<()>,
}

/// Numbers of open dead connections.
#[derive(Debug, Default)]
struct Dead {
    now: AtomicUsize,
    at_most: AtomicUsize,
}

/// One connection through the proxy.
struct ProxiedConnection {
    orders: Arc<watch::Sender<ProxyMode>>,
    cut: watch::Sender<bool>,
    /// Has a COMMIT been passed on?
    commits: AtomicBool,
    is_dead: AtomicBool,
    dead: Arc<Dead>,
}

impl ProxiedConnection {
    fn die(&self) {
        if !self.is_dead.swap(true, Ordering::SeqCst) {
            let now = self.dead.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.dead.at_most.fetch_max(now, Ordering::SeqCst);
        }
    }
}

impl Drop for ProxiedConnection {
    fn drop(&mut self) {
        if self.is_dead.load(Ordering::SeqCst) {
            self.dead.now.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Proxy {
    /// A proxy to the server of this URL that passes everything on at first.
    pub(crate) async fn start(url: &str) -> Proxy {
        let (before, place) = url.rsplit_once('@').unwrap();
        let (server, database) = place.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let way = Arc::new(watch::Sender::new(ProxyMode::Pass));
        let dead = Arc::new(Dead::default());
        let (told, counted, server) = (way.clone(), dead.clone(), server.to_owned());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let wire = ProxiedConnection {
                    orders: told.clone(),
                    cut: watch::Sender::new(false),
                    commits: AtomicBool::new(false),
                    is_dead: AtomicBool::new(false),
                    dead: counted.clone(),
                };
                let wire = Arc::new(wire);
                tokio::spawn(carry(from_client, to_server, told.subscribe(), wire.clone(), false));
                tokio::spawn(carry(from_server, to_client, told.subscribe(), wire, true));
            }
        });
        Proxy { url: format!("{before}@{own}/{database}"), way, dead, accepting }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn set(&self, way: ProxyMode) {
        self.way.send_replace(way);
    }

    /// Number of dead connections that are still open, and its maximum.
    pub(crate) fn dead(&self) -> (usize, usize) {
        (self.dead.now.load(Ordering::SeqCst), self.dead.at_most.load(Ordering::SeqCst))
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
    mut way: watch::Receiver<ProxyMode>,
    wire: Arc<ProxiedConnection>,
    is_answer: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut is_cut = wire.cut.subscribe();
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = is_cut.wait_for(|cut| *cut) => return,
        };
        let Ok(count @ 1..) = read else {
            // The other side of a dead connection sees nothing; here both ends are dropped.
            if wire.is_dead.load(Ordering::SeqCst) && !is_answer {
                wire.cut.send_replace(true);
            }
            return;
        };
        let sent = &buffer[..count];
        let now = *way.borrow();
        if now == ProxyMode::Swallow || wire.is_dead.load(Ordering::SeqCst) {
            wire.die();
            continue;
        }
        let cuts = match now {
            ProxyMode::Hold => {
                if way.wait_for(|way| *way != ProxyMode::Hold).await.is_err() {
                    return;
                }
                false
            }
            ProxyMode::Pass | ProxyMode::Swallow => false,
            ProxyMode::CutBeforeAnswer => is_answer,
            ProxyMode::LoseCommit => !is_answer && is_commit(sent),
            ProxyMode::LoseAnswerToCommit if is_answer => wire.commits.load(Ordering::Relaxed),
            ProxyMode::LoseAnswerToCommit => {
                wire.commits.fetch_or(is_commit(sent), Ordering::Relaxed);
                false
            }
        };
        if cuts {
            if matches!(now, ProxyMode::LoseCommit | ProxyMode::LoseAnswerToCommit) {
                wire.orders.send_replace(ProxyMode::Pass);
            }
            wire.cut.send_replace(true);
            return;
        }
        if to.write_all(sent).await.is_err() {
            return;
        }
    }
}

fn is_commit(sent: &[u8]) -> bool {
    sent.windows(7).any(|bytes| bytes == b"COMMIT\0")
}
