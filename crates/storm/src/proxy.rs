//! A TCP proxy whose connections can be cut, stalled, half-opened and robbed of replies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use crate::limits::MAX_CONNECTIONS;
use crate::plan::LinkFault;

/// How long after the caller left the connection is closed.
const LEAVES_WITHIN: Duration = Duration::from_millis(60);

/// How bytes pass at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass,
    Refuse,
    Stall,
    LoseReplies,
    HalfOpen,
}

#[derive(Debug, Clone, Copy)]
struct State {
    mode: Mode,
    /// Each reply is held this long, or until it is lifted.
    reply_lag: Option<Duration>,
    /// Connections are not accepted, so clients and their requests wait.
    holds_connects: bool,
    /// Connections of an earlier epoch are reset.
    epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

/// One proxy.
#[derive(Debug, Clone)]
pub struct Link {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    cut: Arc<AtomicUsize>,
}

impl Link {
    /// Listens on a port of its own. A request that is held longer than `deliver_within` is cut instead of being delivered late.
    pub async fn start(upstream: SocketAddr, deliver_within: Option<Duration>) -> Result<Link> {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).context("no port for a proxy")?;
        let address = listener.local_addr()?;
        let state =
            watch::Sender::new(State { mode: Mode::Pass, reply_lag: None, holds_connects: false, epoch: 0 });
        let link = Link { address, state: Arc::new(state), cut: Arc::default() };
        tokio::spawn(accept(link.clone(), listener, upstream, deliver_within));
        Ok(link)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that faults have reset so far.
    pub fn count_cut(&self) -> usize {
        self.cut.load(Ordering::Relaxed)
    }

    /// Lets one fault happen, from its beginning to its end.
    pub async fn suffer(&self, fault: &LinkFault) {
        let mode = match fault {
            LinkFault::Cut => Mode::Pass,
            LinkFault::Refuse { .. } => Mode::Refuse,
            LinkFault::Stall { .. } => Mode::Stall,
            LinkFault::LoseReplies { .. } => Mode::LoseReplies,
            LinkFault::HalfOpen { .. } => Mode::HalfOpen,
        };
        let resets_first = matches!(fault, LinkFault::Cut | LinkFault::Refuse { .. });
        self.state.send_modify(|state| {
            state.mode = mode;
            state.epoch += u64::from(resets_first);
        });
        tokio::time::sleep(fault.span()).await;
        let resets_last = matches!(fault, LinkFault::LoseReplies { .. } | LinkFault::HalfOpen { .. });
        self.state.send_modify(|state| {
            state.mode = Mode::Pass;
            state.epoch += u64::from(resets_last);
        });
    }

    /// Makes every reply late, or lets all that are held back go.
    pub fn delay_replies(&self, lag: Option<Duration>) {
        self.state.send_modify(|state| state.reply_lag = lag);
    }

    /// Makes new connections wait, or accepts them. One or two get through, because the kernel queues them.
    pub fn hold_connects(&self, hold: bool) {
        self.state.send_modify(|state| state.holds_connects = hold);
    }

    /// Ends every fault. Open connections stay.
    pub fn heal(&self) {
        self.state.send_modify(|state| {
            state.epoch += u64::from(matches!(state.mode, Mode::LoseReplies | Mode::HalfOpen));
            (state.mode, state.reply_lag, state.holds_connects) = (Mode::Pass, None, false);
        });
    }
}

/// Listens with room for hardly anybody, so that connecting can be made to wait.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1)
}

async fn accept(link: Link, listener: TcpListener, upstream: SocketAddr, deliver_within: Option<Duration>) {
    let mut listener = Some(listener);
    let mut changes = link.state.subscribe();
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let State { mode, holds_connects, .. } = *changes.borrow_and_update();
        if mode == Mode::Refuse {
            listener = None;
        } else if listener.is_none() {
            // The port is ours again as soon as the kernel says so.
            match listen(link.address) {
                Ok(bound) => listener = Some(bound),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
            continue;
        }
        let accepted = async {
            match listener.as_ref().filter(|_| !holds_connects) {
                Some(listener) => listener.accept().await.ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            stream = accepted => {
                let Some((stream, _)) = stream else { continue };
                if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                    open.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (link, open) = (link.clone(), open.clone());
                tokio::spawn(async move {
                    carry(&link, stream, upstream, deliver_within).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
    }
}

/// Carries one connection to its end.
async fn carry(link: &Link, near: TcpStream, upstream: SocketAddr, deliver_within: Option<Duration>) {
    let mut changes = link.state.subscribe();
    let epoch = changes.borrow_and_update().epoch;
    let Ok(far) = TcpStream::connect(upstream).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (mut near_reads, mut near_writes) = near.into_split();
    let (mut far_reads, mut far_writes) = far.into_split();
    let pump_both = async {
        let requests = pump(link, Direction::Request, deliver_within, &mut near_reads, &mut far_writes);
        let replies = pump(link, Direction::Reply, None, &mut far_reads, &mut near_writes);
        // A caller that has said everything may still wait for its answer; one whose answer has ended needs nothing more.
        tokio::pin!(requests, replies);
        tokio::select! {
            went_well = &mut requests => if went_well { replies.await; },
            _ = &mut replies => {}
        }
    };
    let is_cut = changes.wait_for(|state| state.epoch != epoch);
    tokio::select! {
        () = pump_both => {}
        _ = is_cut => {
            link.cut.fetch_add(1, Ordering::Relaxed);
            // A reset, not an orderly end.
            let _ = near_writes.as_ref().set_zero_linger();
            let _ = far_writes.as_ref().set_zero_linger();
        }
    }
}

/// Copies one direction until it ends. Returns `false` if the connection must be closed.
async fn pump(
    link: &Link,
    direction: Direction,
    deliver_within: Option<Duration>,
    from: &mut tokio::net::tcp::OwnedReadHalf,
    to: &mut tokio::net::tcp::OwnedWriteHalf,
) -> bool {
    let mut changes = link.state.subscribe();
    let mut chunk = vec![0; 16 << 10];
    loop {
        let Ok(read) = from.read(&mut chunk).await else { return false };
        let is_reply = direction == Direction::Reply;
        let came_at = Instant::now();
        let lag = changes.borrow_and_update().reply_lag.filter(|_| is_reply);
        if let Some(lag) = lag {
            let is_lifted = changes.wait_for(|state| state.reply_lag.is_none());
            let _ = tokio::time::timeout(lag, is_lifted).await;
        }
        let passes = changes.wait_for(|state| state.mode != Mode::Stall).await;
        let Ok(state) = passes.map(|state| *state) else { return false };
        if deliver_within.is_some_and(|most| came_at.elapsed() > most) {
            return false;
        }
        // A caller whose connection waited in the kernel may have left long ago. What it sent then is not delivered now.
        if deliver_within.is_some() && read > 0 {
            let has_left = tokio::time::timeout(LEAVES_WITHIN, from.peek(&mut [0])).await;
            if matches!(has_left, Ok(Ok(0) | Err(_))) {
                return false;
            }
        }
        let is_lost = match state.mode {
            Mode::LoseReplies => is_reply,
            Mode::HalfOpen => true,
            Mode::Pass | Mode::Refuse | Mode::Stall => false,
        };
        if is_lost {
            if read == 0 {
                // Nobody hears of the end either, until the fault is over and the connection is reset.
                std::future::pending::<()>().await;
            }
            continue;
        }
        if read == 0 {
            let _ = to.shutdown().await;
            return true;
        }
        if to.write_all(&chunk[..read]).await.is_err() {
            return false;
        }
    }
}
