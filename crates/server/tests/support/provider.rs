//! A provider for http steps: records its requests, and answers, fails or hangs up by the path.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// One request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderRequest {
    pub path: String,
    pub key: Option<String>,
    pub body: Value,
}

/// The provider. `/cut…` reads the request and hangs up, `/fail…` answers 500, `/held…` answers
/// after a release, and all others answer 200.
pub struct Provider {
    address: SocketAddr,
    asked: Arc<watch::Sender<Vec<ProviderRequest>>>,
    released: watch::Sender<bool>,
}

impl Provider {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(watch::Sender::new(Vec::new()));
        let noted = asked.clone();
        let (released, release) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, release) = (noted.clone(), release.clone());
                tokio::spawn(async move { serve(stream, &noted, release).await });
            }
        });
        Provider { address, asked, released }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Answers all that is held.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    pub fn asked(&self) -> Vec<ProviderRequest> {
        self.asked.borrow().clone()
    }

    /// Waits until it has been asked for this path as often.
    pub async fn until_asked(&self, path: &str, times: usize) {
        let mut asked = self.asked.subscribe();
        let is_so =
            |asked: &Vec<ProviderRequest>| asked.iter().filter(|asked| asked.path == path).count() >= times;
        tokio::time::timeout(super::PATIENCE, asked.wait_for(is_so)).await.unwrap().unwrap();
    }

    /// A document of one http step that charges `input.amount` here.
    pub fn payment(&self, name: &str) -> Value {
        json!({
            "name": name, "version": 1,
            "steps": [{
                "name": "charge", "type": "http", "method": "POST", "url": self.url("/charges"),
                "body": { "amount": "{{ input.amount }}" }, "output": { "charge": "{{ response.body.id }}" },
            }],
        })
    }
}

async fn serve(
    mut stream: TcpStream,
    noted: &watch::Sender<Vec<ProviderRequest>>,
    mut release: watch::Receiver<bool>,
) -> Option<()> {
    let mut read = Vec::new();
    let head_end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&read[..head_end]).into_owned();
    let header = |wanted: &str| {
        let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim().to_owned())
    };
    let length: usize = header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    while read.len() < head_end + length {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = serde_json::from_slice(&read[head_end..]).unwrap_or(Value::Null);
    let asked = ProviderRequest { path: path.clone(), key: header("idempotency-key"), body };
    let mut number = 0;
    noted.send_modify(|all| {
        all.push(asked);
        number = all.len();
    });
    if path.starts_with("/cut") {
        return None;
    }
    if path.starts_with("/held") {
        release.wait_for(|released| *released).await.ok()?;
    }
    let status = if path.starts_with("/fail") { "500 Internal Server Error" } else { "200 OK" };
    let body = json!({ "id": format!("ch_{number}") }).to_string();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}
