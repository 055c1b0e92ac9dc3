//! A load balancer at its worst: every request goes to a random node, and requests and answers are cut, late and repeated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// Longest time of one exchange with a node.
const EXCHANGE: Duration = Duration::from_secs(20);

/// Where nodes listen, and what happens to requests on their way.
pub struct Proxy {
    pub url: String,
    state: Arc<ProxyState>,
}

struct ProxyState {
    nodes: Vec<String>,
    dice: Mutex<fastrand::Rng>,
    has_faults: AtomicBool,
    cut: AtomicU64,
    repeated: AtomicU64,
}

impl Proxy {
    pub async fn start(nodes: Vec<String>, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(ProxyState {
            nodes,
            dice: Mutex::new(fastrand::Rng::with_seed(seed)),
            has_faults: AtomicBool::new(false),
            cut: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        });
        let serving = state.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(timeout(EXCHANGE * 2, pass_on(serving.clone(), client)));
            }
        });
        Proxy { url, state }
    }

    pub fn set_faults(&self, has_faults: bool) {
        self.state.has_faults.store(has_faults, Ordering::Relaxed);
    }

    /// How many requests were cut, and how many were repeated.
    pub fn faults(&self) -> (u64, u64) {
        (self.state.cut.load(Ordering::Relaxed), self.state.repeated.load(Ordering::Relaxed))
    }
}

impl ProxyState {
    fn roll(&self, sides: u64) -> u64 {
        self.dice.lock().unwrap().u64(0..sides)
    }

    async fn ask(&self, request: &[u8]) -> Option<Vec<u8>> {
        let node = self.nodes[self.roll(self.nodes.len() as u64) as usize].clone();
        let exchange = async {
            let mut server = TcpStream::connect(node).await.ok()?;
            server.write_all(request).await.ok()?;
            let mut answer = Vec::new();
            server.read_to_end(&mut answer).await.ok()?;
            (!answer.is_empty()).then_some(answer)
        };
        timeout(EXCHANGE, exchange).await.ok().flatten()
    }
}

/// Passes on one request; the connection ends with its answer.
async fn pass_on(state: Arc<ProxyState>, mut client: TcpStream) {
    let Some(request) = read_request(&mut client).await else { return };
    let fate = if state.has_faults.load(Ordering::Relaxed) { state.roll(12) } else { 99 };
    let answer = match fate {
        0 => {
            state.cut.fetch_add(1, Ordering::Relaxed);
            return;
        }
        1 => {
            state.cut.fetch_add(1, Ordering::Relaxed);
            state.ask(&request).await;
            return;
        }
        2 => {
            // Both at once, over different nodes perhaps; the second answer counts.
            state.repeated.fetch_add(1, Ordering::Relaxed);
            tokio::join!(state.ask(&request), state.ask(&request)).1
        }
        3 => {
            state.repeated.fetch_add(1, Ordering::Relaxed);
            let (late, again, wait) = (state.clone(), request.clone(), state.roll(400));
            tokio::spawn(async move {
                sleep(Duration::from_millis(wait)).await;
                late.ask(&again).await;
            });
            state.ask(&request).await
        }
        4 => {
            sleep(Duration::from_millis(state.roll(300))).await;
            state.ask(&request).await
        }
        _ => state.ask(&request).await,
    };
    if let Some(answer) = answer {
        let _ = client.write_all(&answer).await;
        let _ = client.shutdown().await;
    }
}

/// Reads a request, and asks for the connection to be closed behind the answer.
async fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    let head_end = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if client.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(read[..head_end].to_vec()).ok()?;
    let header = |line: &str, name: &str| line.to_ascii_lowercase().starts_with(name);
    let length = head.lines().find(|line| header(line, "content-length:"));
    let length: usize = length.and_then(|line| line.split(':').nth(1)?.trim().parse().ok()).unwrap_or(0);
    while read.len() < head_end + length {
        if client.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
    let mut request = String::new();
    for line in head.lines().filter(|line| !line.is_empty() && !header(line, "connection:")) {
        request.push_str(line);
        request.push_str("\r\n");
    }
    request.push_str("connection: close\r\n\r\n");
    let mut request = request.into_bytes();
    request.extend_from_slice(&read[head_end..]);
    Some(request)
}
