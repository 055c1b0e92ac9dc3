//! Sending: from a request to its answer, under the rules.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Version};
use http_body_util::Full;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::connect::connect;
use crate::exchange::exchange;
use crate::fault::{Fault, Refusal};
use crate::limits::{
    FINAL_POLL_FOR, LONGEST_TIMEOUT, MAX_REQUEST_BYTES, MAX_REQUEST_HEAD_BYTES, MAX_REQUEST_HEADERS,
};
use crate::lookup::{Lookup, SystemLookup};
use crate::request::{Answer, Request};
use crate::rules::Rules;
use crate::target::{Host, Target};
use crate::tls;
use crate::tracked_stream::Progress;

/// Header fields that decide where a request ends, who receives it, or what the connection becomes.
const OURS: &[&str] = &[
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "http2-settings",
];

/// Sends requests to the outside world. Cheap to clone.
#[derive(Clone)]
pub struct Outgoing {
    rules: Arc<Rules>,
    user_agent: HeaderValue,
    lookup: Arc<dyn Lookup>,
    tls: TlsConnector,
}

/// Invalid rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRules {
    /// The user agent is not a valid header value.
    #[error("the user agent `{text}` cannot be sent in a header; use printable ASCII")]
    UserAgent {
        /// The given value.
        text: String,
    },
    /// A limit of zero, or a connection timeout longer than the total.
    #[error("{what}")]
    Limit {
        /// The wrong setting, and its valid range.
        what: &'static str,
    },
    /// An extra root certificate that is invalid.
    #[error("an extra root certificate cannot be used: {detail}; give it as DER")]
    Root {
        /// The problem.
        detail: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {detail}")]
    Tls {
        /// The problem.
        detail: String,
    },
}

impl Outgoing {
    /// Creates a client with these rules and the operating system's resolver.
    pub fn new(rules: Rules) -> Result<Self, InvalidRules> {
        Self::with_lookup(rules, SystemLookup)
    }

    /// Creates a client with these rules and another resolver.
    pub fn with_lookup(rules: Rules, lookup: impl Lookup) -> Result<Self, InvalidRules> {
        let tls = tls::connector(&rules.extra_roots)?;
        let user_agent = judge(&rules)?;
        Ok(Self { rules: Arc::new(rules), user_agent, lookup: Arc::new(lookup), tls })
    }

    /// Creates a client with other rules, for example the rules of one workspace. The trusted certificates are shared, so
    /// the `extra_roots` of the first client stay in force.
    pub fn under(&self, rules: Rules) -> Result<Self, InvalidRules> {
        let user_agent = judge(&rules)?;
        Ok(Self { rules: Arc::new(rules), user_agent, lookup: self.lookup.clone(), tls: self.tls.clone() })
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Checks a request without sending it, as far as possible before its host is resolved. The upload of a definition
    /// uses it.
    pub fn check(&self, request: &Request) -> Result<(), Refusal> {
        let target = Target::read(&request.url)?;
        self.head(request, &target)?;
        self.rules.judge_target(&target)?;
        match target.host {
            Host::Address(address) => self.rules.judge_address(&target, address),
            Host::Name(_) => Ok(()),
        }
    }

    /// Sends a request and reads its answer. Dropping the future closes the connection; the request may have happened.
    pub async fn send(&self, request: Request) -> Result<Answer, Fault> {
        let target = Target::read(&request.url)?;
        let headers = self.head(&request, &target)?;
        let start = Instant::now();
        let allowed = request.timeout.unwrap_or(self.rules.total_timeout).min(self.rules.longest_timeout);
        let deadline = start + allowed;
        let connected_by = start + self.rules.connect_timeout.min(allowed);

        let mut message = http::Request::new(Full::new(request.body));
        *message.method_mut() = request.method;
        *message.version_mut() = Version::HTTP_11;
        *message.headers_mut() = headers;
        let unreadable = |_| Refusal::BadUrl { detail: "the path cannot be sent".to_owned() };
        *message.uri_mut() = target.path.parse().map_err(unreadable)?;

        let progress = Arc::new(Progress::checked_by(request.send_check));
        let stream = connect(&self.rules, self.lookup.as_ref(), &target, connected_by).await?;
        let _ = stream.set_nodelay(true);
        let outcome = match target.is_tls {
            false => {
                let exchange = exchange(&self.rules, stream, message, progress.clone());
                within(deadline, exchange).await
            }
            true => {
                let failed =
                    |why: String| Fault::NotSent { why: format!("TLS with `{}`: {why}", target.authority) };
                let name = server_name(&target).map_err(failed)?;
                let secured = timeout_at(connected_by, self.tls.connect(name, stream)).await;
                let stream = secured
                    .map_err(|_| failed("no handshake in time".to_owned()))?
                    .map_err(|error| failed(error.to_string()))?;
                let exchange = exchange(&self.rules, stream, message, progress.clone());
                within(deadline, exchange).await
            }
        };
        match outcome {
            Some(answer) => answer,
            None if !progress.is_sent() => {
                Err(Fault::NotSent { why: format!("not sent within {allowed:?}") })
            }
            None => {
                let status = progress.find_status();
                Err(Fault::Unknown { why: format!("no whole answer within {allowed:?}"), status })
            }
        }
    }

    /// The header fields to send; refuses invalid ones.
    fn head(&self, request: &Request, target: &Target) -> Result<HeaderMap, Refusal> {
        if matches!(request.method, Method::CONNECT | Method::TRACE) {
            return Err(Refusal::Method { method: request.method.to_string() });
        }
        if request.body.len() > MAX_REQUEST_BYTES {
            return Err(Refusal::TooLarge { what: "body", limit: MAX_REQUEST_BYTES });
        }
        if request.headers.len() > MAX_REQUEST_HEADERS {
            return Err(Refusal::TooLarge { what: "number of header fields", limit: MAX_REQUEST_HEADERS });
        }
        let bytes: usize =
            request.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > MAX_REQUEST_HEAD_BYTES {
            return Err(Refusal::TooLarge { what: "head", limit: MAX_REQUEST_HEAD_BYTES });
        }
        if let Some(name) = OURS.iter().find(|name| request.headers.contains_key(**name)) {
            return Err(Refusal::Header { name: name.to_string() });
        }
        let mut headers = request.headers.clone();
        let host = HeaderValue::from_str(&target.authority);
        headers.insert(header::HOST, host.map_err(|_| Refusal::BadUrl { detail: "the host".to_owned() })?);
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(header::ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let agent = match headers.get(header::USER_AGENT) {
            Some(own) => {
                HeaderValue::from_bytes(&[own.as_bytes(), b" ", self.user_agent.as_bytes()].concat()).ok()
            }
            None => None,
        };
        headers.insert(header::USER_AGENT, agent.unwrap_or_else(|| self.user_agent.clone()));
        Ok(headers)
    }
}

/// Awaits the answer until `deadline`. After a pause of this process both the answer and the timeout may be ready, and
/// the runtime may poll the timer first. An answer that has already arrived wins.
async fn within<T>(deadline: Instant, answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = pin!(answer);
    match timeout_at(deadline, &mut answer).await {
        Ok(answer) => Some(answer),
        Err(_) => timeout(FINAL_POLL_FOR, answer).await.ok(),
    }
}

/// The name that the receiver's certificate must match.
fn server_name(target: &Target) -> Result<ServerName<'static>, String> {
    match &target.host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        Host::Name(name) => {
            ServerName::try_from(name.clone()).map_err(|_| "no name a certificate can bear".to_owned())
        }
    }
}

fn judge(rules: &Rules) -> Result<HeaderValue, InvalidRules> {
    if rules.total_timeout.is_zero() || rules.connect_timeout.is_zero() {
        return Err(InvalidRules::Limit {
            what: "a timeout of zero lets no request through; give it at least a moment",
        });
    }
    if rules.longest_timeout > LONGEST_TIMEOUT {
        return Err(InvalidRules::Limit { what: "longest_timeout may be an hour at most" });
    }
    if rules.total_timeout > rules.longest_timeout {
        return Err(InvalidRules::Limit { what: "total_timeout may be longest_timeout at most" });
    }
    if rules.max_response_headers == 0 {
        return Err(InvalidRules::Limit { what: "max_response_headers must be at least 1" });
    }
    let text = &rules.user_agent;
    HeaderValue::from_str(text)
        .ok()
        .filter(|_| !text.trim().is_empty())
        .ok_or(InvalidRules::UserAgent { text: text.clone() })
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("rules", &self.rules).finish_non_exhaustive()
    }
}
