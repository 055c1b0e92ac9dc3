//! A receiver of webhooks: records them, and answers as the test says.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::sync::watch;

use super::PATIENCE;

/// One webhook as it came.
#[derive(Debug, Clone)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The signature that the official crate makes of it with `secret` is among those it bears.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let official = standardwebhooks::Webhook::new(secret).unwrap();
        let at = self.header("webhook-timestamp").parse().unwrap();
        let signature = official.sign(self.header("webhook-id"), at, &self.body).unwrap();
        self.header("webhook-signature").split(' ').any(|one| one == signature)
    }
}

type Plan = (u16, Vec<(&'static str, String)>);

#[derive(Default)]
struct ReceivedRequest {
    received: Vec<Received>,
    plan: VecDeque<Plan>,
    usual: u16,
}

/// The receiver. It answers what is planned, and after that what is usual: 204.
pub struct Receiver {
    address: SocketAddr,
    heard: Arc<Mutex<ReceivedRequest>>,
    count: watch::Receiver<usize>,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(ReceivedRequest { usual: 204, ..ReceivedRequest::default() }));
        let (told, count) = watch::channel(0);
        let noted = heard.clone();
        let hear = move |headers: HeaderMap, body: Bytes| {
            let mut heard = noted.lock().unwrap();
            heard.received.push(Received { headers, body });
            let usual = (heard.usual, Vec::new());
            let (status, headers) = heard.plan.pop_front().unwrap_or(usual);
            told.send_replace(heard.received.len());
            let mut response: Response = StatusCode::from_u16(status).unwrap().into_response();
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            std::future::ready(response)
        };
        let router = axum::Router::new().fallback(hear);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Receiver { address, heard, count }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }

    /// Status of its response without a plan.
    pub fn usually(&self, status: u16) {
        self.heard.lock().unwrap().usual = status;
    }

    /// Plans its next response.
    pub fn plan(&self, status: u16, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.heard.lock().unwrap().plan.push_back((status, headers));
    }

    pub fn received(&self) -> Vec<Received> {
        self.heard.lock().unwrap().received.clone()
    }

    /// Waits until so many have come; answers all of them.
    pub async fn until(&self, count: usize) -> Vec<Received> {
        let since = Instant::now();
        let mut counted = self.count.clone();
        let came = tokio::time::timeout(PATIENCE, counted.wait_for(|came| *came >= count)).await;
        assert!(came.is_ok(), "{} of {count} came in {:?}", self.received().len(), since.elapsed());
        self.received()
    }
}
