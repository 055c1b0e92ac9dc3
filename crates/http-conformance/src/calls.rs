//! Calls to the service: requests made from the config's shapes, and the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::clause::{Stop, expect, need};
use crate::config::{Config, KeyForm, Shape, fill, fill_text, merge};
use crate::limits::{LOOK_AGAIN_AFTER, MAX_ANSWER_BYTES, MAX_QUOTED_CHARS};

pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const REPLAYED: &str = "idempotency-replayed";

/// Context of a clause: the service, the config, and a unique value.
pub(crate) struct Bench {
    pub(crate) config: Config,
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
    pub(crate) tls: std::sync::Arc<rustls::ClientConfig>,
    pub(crate) unique: String,
}

/// A request to send.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Call {
    pub(crate) fn header(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        if let Ok(value) = HeaderValue::from_bytes(value.as_ref()) {
            self.headers.append(name, value);
        }
        self
    }

    /// Replaces the body and keeps the head.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    fn credential(mut self, other: &BTreeMap<String, String>, unique: &str) -> Self {
        for (name, value) in other {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), fill_text(value, unique).parse()) {
                self.headers.insert(name, value);
            }
        }
        self
    }
}

impl Reply {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.text_of(REPLAYED).is_some_and(|value| matches!(value.trim(), "true" | "?1"))
    }

    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    pub(crate) fn text_of(&self, header: &str) -> Option<&str> {
        self.headers.get(header).and_then(|value| value.to_str().ok())
    }

    /// Code of a problem document.
    pub(crate) fn find_code(&self) -> Option<String> {
        self.json()?.get("code")?.as_str().map(str::to_owned)
    }

    /// Returns true if both answers report the outcome of the same operation, by id or by content.
    pub(crate) fn is_same_operation(&self, first: &Reply) -> bool {
        let same_content = match (self.json(), first.json()) {
            (Some(own), Some(other)) => own == other,
            _ => self.body == first.body,
        };
        self.is_success() == first.is_success() && (self.is_replayed() || same_content)
    }

    /// The answer as a short text.
    pub(crate) fn told(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body).chars().take(MAX_QUOTED_CHARS).collect();
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match text.is_empty() {
            true => format!("{} without a body", self.status),
            false => format!("{} {text}", self.status),
        }
    }
}

impl Bench {
    /// A fresh key.
    pub(crate) fn key(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    /// The main request under a key.
    pub(crate) fn call(&self, key: &str) -> Call {
        self.keyed(&self.config.request, key)
    }

    /// A request of a shape under a key, in the key form that the config selects.
    pub(crate) fn keyed(&self, shape: &Shape, key: &str) -> Call {
        match self.config.key_form() {
            KeyForm::Bare => self.unkeyed(shape).header("idempotency-key", key),
            KeyForm::Quoted => self.unkeyed(shape).header("idempotency-key", format!("\"{key}\"")),
        }
    }

    /// A request of a shape without a key.
    pub(crate) fn unkeyed(&self, shape: &Shape) -> Call {
        let body = shape.body.as_ref().map(|body| fill(body, &self.unique).to_string().into_bytes());
        let mut headers = HeaderMap::new();
        if body.is_some() {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let method = shape.method.parse().unwrap_or(Method::POST);
        let url = format!("{}{}", self.base, fill_text(&shape.path, &self.unique));
        Call { method, url, headers, body }.credential(&shape.headers, &self.unique)
    }

    /// The main request under a key, with its body changed by a merge patch.
    pub(crate) fn patched(&self, key: &str, patch: &Value) -> Call {
        let body = self.config.request.body.clone().unwrap_or(Value::Null);
        let shape = Shape { body: Some(merge(&body, patch)), ..self.config.request.clone() };
        self.keyed(&shape, key)
    }

    /// The main request under a key, sent with the other credential.
    pub(crate) fn by_other(&self, key: &str) -> Result<Call, Stop> {
        match self.config.other_credential.is_empty() {
            true => Err(Stop::Skipped { why: "the config gives no `otherCredential`".to_owned() }),
            false => Ok(self.call(key).credential(&self.config.other_credential, &self.unique)),
        }
    }

    pub(crate) fn max_wait(&self) -> Duration {
        Duration::from_millis(self.config.max_wait_ms)
    }

    /// Sends a call. A lost connection or a timeout ends the clause.
    pub(crate) async fn send(&self, call: Call) -> Result<Reply, Stop> {
        self.try_send(call).await.map_err(|saw| Stop::Failed { expected: "an answer".to_owned(), saw })
    }

    pub(crate) async fn try_send(&self, call: Call) -> Result<Reply, String> {
        let told = |error: reqwest::Error| {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            text
        };
        let mut request =
            self.client.request(call.method, call.url).headers(call.headers).timeout(self.max_wait());
        if let Some(body) = call.body {
            request = request.body(body);
        }
        let mut response = request.send().await.map_err(told)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(told)? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(format!("an answer of more than {MAX_ANSWER_BYTES} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { status, headers, body })
    }

    /// Sends a call that must succeed.
    pub(crate) async fn succeed(&self, call: Call) -> Result<Reply, Stop> {
        let reply = self.send(call).await?;
        expect(reply.is_success(), "2xx", reply.told())?;
        Ok(reply)
    }

    /// Repeats a call while the answer says that another is in progress.
    pub(crate) async fn settle(&self, call: Call) -> Result<Reply, Stop> {
        let deadline = Instant::now() + self.max_wait();
        loop {
            let reply = self.send(call.clone()).await?;
            if reply.status != 409 || Instant::now() >= deadline {
                return Ok(reply);
            }
            sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    /// Number of effects so far. Skips the clause if the config does not say how to count.
    pub(crate) async fn effects(&self) -> Result<u64, Stop> {
        let effects = need(&self.config.effects, "effects")?;
        let shape = Shape {
            method: "GET".to_owned(),
            path: effects.path.clone(),
            headers: effects.headers.clone(),
            body: None,
        };
        let reply = self.send(self.unkeyed(&shape)).await?;
        let json = reply.json().filter(|_| reply.is_success());
        let counted =
            json.as_ref().and_then(|json| json.pointer(&effects.pointer)).and_then(|found| match found {
                Value::Array(items) => Some(items.len() as u64),
                found => found.as_u64(),
            });
        let expected = "a number or a list at the pointer of `effects`";
        counted.ok_or_else(|| Stop::Failed { expected: expected.to_owned(), saw: reply.told() })
    }

    /// Returns whether effects can be counted.
    pub(crate) fn counts(&self) -> bool {
        self.config.effects.is_some()
    }

    /// Ends the clause unless exactly `wanted` effects have happened since an earlier count. Waits for late effects,
    /// and fails at once if there are too many.
    pub(crate) async fn expect_effects(&self, before: u64, wanted: u64) -> Result<(), Stop> {
        let deadline = Instant::now() + self.max_wait();
        loop {
            let seen = self.effects().await?.saturating_sub(before);
            if seen == wanted {
                return Ok(());
            }
            if seen > wanted || Instant::now() >= deadline {
                return expect(false, &effects_in_words(wanted), effects_in_words(seen));
            }
            sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    /// Like [`Bench::effects`] and [`Bench::expect_effects`], for clauses that are useful even without a count.
    pub(crate) async fn effects_if_counted(&self) -> Result<Option<u64>, Stop> {
        match self.counts() {
            true => Ok(Some(self.effects().await?)),
            false => Ok(None),
        }
    }

    pub(crate) async fn expect_effects_if_counted(
        &self,
        before: Option<u64>,
        wanted: u64,
    ) -> Result<(), Stop> {
        match before {
            Some(before) => self.expect_effects(before, wanted).await,
            None => Ok(()),
        }
    }
}

fn effects_in_words(count: u64) -> String {
    match count {
        0 => "no effect".to_owned(),
        1 => "one effect".to_owned(),
        count => format!("{count} effects"),
    }
}
