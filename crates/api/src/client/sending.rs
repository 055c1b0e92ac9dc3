//! One call: sends, retries while that can help, and reads the response.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, IF_MATCH, LOCATION};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::limits::{ANSWER_TIMEOUT, FIRST_PAUSE, MAX_ANSWER_BYTES, MAX_ECHO_CHARS, MAX_PAUSE};
use super::{Client, ClientError, RequestOptions};
use crate::Problem;

/// One request to send.
#[derive(Debug)]
pub(super) struct Ask {
    method: Method,
    /// The path and the query, encoded.
    target: String,
    body: Option<(&'static str, Vec<u8>)>,
    headers: Vec<(&'static str, String)>,
    /// May it be sent twice without happening twice?
    is_repeatable: bool,
}

impl Ask {
    pub(super) fn read(target: String) -> Self {
        Ask { method: Method::GET, target, body: None, headers: Vec::new(), is_repeatable: true }
    }

    /// A change without a key, because its response holds a secret; so it is sent once.
    pub(super) fn change_once<T: Serialize>(target: String, body: &T) -> Result<Self, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| ClientError::Setup(error.to_string()))?;
        Ok(Ask {
            method: Method::POST,
            target,
            body: Some(("application/json", body)),
            headers: Vec::new(),
            is_repeatable: false,
        })
    }

    /// A change under a key.
    pub(super) fn change<T: Serialize>(
        target: String,
        body: &T,
        options: RequestOptions,
    ) -> Result<Self, ClientError> {
        Ask::change_once(target, body)?.under(options)
    }

    /// A change whose body is text of this media type.
    pub(super) fn change_text(
        target: String,
        kind: &'static str,
        text: &str,
        options: RequestOptions,
    ) -> Result<Self, ClientError> {
        let body = Some((kind, text.as_bytes().to_vec()));
        Ask { method: Method::POST, target, body, headers: Vec::new(), is_repeatable: false }.under(options)
    }

    /// A change of some fields, under a key.
    pub(super) fn patch<T: Serialize>(
        target: String,
        body: &T,
        options: RequestOptions,
    ) -> Result<Self, ClientError> {
        Ok(Ask { method: Method::PATCH, ..Ask::change(target, body, options)? })
    }

    /// A removal, under a key.
    pub(super) fn delete(target: String, options: RequestOptions) -> Result<Self, ClientError> {
        Ask { method: Method::DELETE, ..Ask::read(target) }.under(options)
    }

    /// A replacement by text of this media type, under a key.
    pub(super) fn put_text(
        target: String,
        kind: &'static str,
        text: &str,
        options: RequestOptions,
    ) -> Result<Self, ClientError> {
        Ok(Ask { method: Method::PUT, ..Ask::change_text(target, kind, text, options)? })
    }

    fn under(mut self, options: RequestOptions) -> Result<Self, ClientError> {
        let key = match options.idempotency_key {
            Some(key) => key,
            None => new_key()?,
        };
        self.headers.push(("idempotency-key", key));
        if let Some(version) = options.if_version {
            self.headers.push((IF_MATCH.as_str(), format!("\"{version}\"")));
        }
        self.is_repeatable = true;
        Ok(self)
    }

    pub(super) fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// One response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::Protocol {
            status: None,
            detail: format!(
                "the answer is not one of a Hapax server of this version ({error}); check the address of the server, and \
                 `hapax --version` against the server's"
            ),
        })
    }

    pub(super) fn text(self) -> Result<String, ClientError> {
        let no_text = |_| ClientError::Protocol { status: None, detail: "the answer is not text".into() };
        String::from_utf8(self.body).map_err(no_text)
    }
}

impl Client {
    /// Sends `ask`, retries it under the same key while that can help, and reads the response as
    /// JSON.
    pub(super) async fn call<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, ClientError> {
        self.send(ask).await?.json()
    }

    pub(super) async fn send(&self, ask: Ask) -> Result<Answer, ClientError> {
        let give_up_at = Instant::now() + self.patience;
        let mut pause = FIRST_PAUSE;
        let mut was_sent = false;
        loop {
            let failure = match self.send_once(&ask).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            was_sent |= matches!(failure, ClientError::Unreachable { was_sent: true, .. });
            let wait = wait_before_next(&failure, pause);
            if !ask.is_repeatable || !failure.is_passing(was_sent) || Instant::now() + wait > give_up_at {
                return Err(match failure {
                    // An earlier try may have been done, even if this one was not.
                    ClientError::Unreachable { detail, .. } => ClientError::Unreachable { detail, was_sent },
                    failure => failure,
                });
            }
            sleep(wait).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn send_once(&self, ask: &Ask) -> Result<Answer, ClientError> {
        let response = self.open(ask, Some(ANSWER_TIMEOUT)).await?;
        read(response).await
    }

    /// Sends `ask` once, and returns the response before its body is read.
    pub(super) async fn open(&self, ask: &Ask, within: Option<Duration>) -> Result<Response, ClientError> {
        let mut request = self.http.request(ask.method.clone(), format!("{}{}", self.base, ask.target));
        request = match within {
            Some(within) => request.timeout(within),
            None => request,
        };
        for (name, value) in &ask.headers {
            let value = HeaderValue::from_str(value).map_err(|_| {
                ClientError::Setup(format!(
                    "{value:?} cannot be sent as {name}: use printable ASCII characters"
                ))
            })?;
            request = request.header(*name, value);
        }
        if !ask.headers.iter().any(|(name, _)| *name == ACCEPT.as_str()) {
            request = request.header(ACCEPT, "application/json, application/problem+json");
        }
        if let Some((kind, body)) = &ask.body {
            request = request.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        request.send().await.map_err(|error| match error.is_builder() {
            true => ClientError::Setup(super::error::chain(&error)),
            false => ClientError::from_transport(&error),
        })
    }
}

/// Reads the response; a rejection becomes an error.
pub(super) async fn read(mut response: Response) -> Result<Answer, ClientError> {
    let status = response.status();
    if status.is_redirection() {
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let location = location.unwrap_or("nowhere").chars().take(MAX_ECHO_CHARS).collect();
        return Err(ClientError::Redirected { status: status.as_u16(), location });
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| ClientError::from_transport(&error))? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            let detail = format!("the answer has more than {MAX_ANSWER_BYTES} bytes; ask for less at a time");
            return Err(ClientError::Protocol { status: None, detail });
        }
        body.extend_from_slice(&chunk);
    }
    match status.is_success() {
        true => Ok(Answer { status, body }),
        false => Err(refusal(status, &body)),
    }
}

fn refusal(status: StatusCode, body: &[u8]) -> ClientError {
    if let Ok(problem) = serde_json::from_slice::<Problem>(body) {
        return ClientError::Refused(Box::new(problem));
    }
    // A newer server may use codes that this client does not know, and a proxy may send errors of
    // its own.
    let said: Option<Value> = serde_json::from_slice(body).ok();
    let said = said.as_ref().and_then(|said| said.get("detail")).and_then(Value::as_str);
    let said: Option<String> = said.map(|said| said.chars().take(MAX_ECHO_CHARS).collect());
    let detail = match said {
        Some(said) => format!("the server answered {status}: {said}"),
        None => format!("the server answered {status} without a reason; it may not be a Hapax server"),
    };
    ClientError::Protocol { status: Some(status.as_u16()), detail }
}

/// Wait that the server asks for, or else a random part of `pause`, so that clients do not all come
/// back at once.
fn wait_before_next(failure: &ClientError, pause: Duration) -> Duration {
    match failure.problem().and_then(|problem| problem.retry_after) {
        Some(wait) => wait.0,
        None => pause.mul_f64(0.5 + fastrand::f64() / 2.0),
    }
}

/// A new unique key.
fn new_key() -> Result<String, ClientError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        ClientError::Setup(format!("the operating system gives no random bytes: {error}"))
    })?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
