//! A provider for http steps: notes what it is asked, and answers, fails or hangs up by the path.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub path: String,
    pub key: Option<String>,
    pub body: Value,
}

/// The provider. `/cut…` reads the request and hangs up, `/fail…` answers 500, all else is done and answered 200.
pub struct Provider {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Provider {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let noted = noted.clone();
                tokio::spawn(async move { serve(stream, &noted).await });
            }
        });
        Provider { address, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
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

async fn serve(mut stream: TcpStream, noted: &Mutex<Vec<Asked>>) -> Option<()> {
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
    let number = {
        let mut all = noted.lock().unwrap();
        all.push(Asked { path: path.clone(), key: header("idempotency-key"), body });
        all.len()
    };
    if path.starts_with("/cut") {
        return None;
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
