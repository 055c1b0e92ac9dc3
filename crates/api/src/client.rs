//! The typed client: one method per route. Every change is sent under a key.
//!
//! Each change carries an `Idempotency-Key`, generated per call unless the caller gives one, so the
//! client can retry it after a cut connection or a `503` without a second effect. The client never
//! follows a redirect: the API key would go along.

mod entities;
mod error;
mod event_text;
mod follow;
mod limits;
mod promises;
mod routes;
mod sending;
mod webhook_sources;
mod webhooks;
mod why;
mod workers;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

pub use entities::OperationFilter;
pub use error::ClientError;
pub use follow::{Followed, Follower};
pub use promises::{PromiseFilter, Settled};
pub use routes::{AuditFilter, CreatedOrExisting, Document, Paging, RunFilter};
pub use webhook_sources::ReceivedFilter;
pub use webhooks::DeliveryFilter;

/// Options of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// Key of the request; generated if absent.
    pub idempotency_key: Option<String>,
    /// Apply the change only if the resource still has this version.
    pub if_version: Option<u64>,
}

/// Client of one server with one API key. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Without a slash at its end.
    base: Arc<str>,
    patience: Duration,
}

impl Client {
    /// Creates a client of the server at `base_url`, such as `https://hapax.example`, that sends
    /// `api_key`.
    pub fn new(base_url: &str, api_key: &SecretString) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        let shown = format!("Bearer {}", api_key.expose_secret());
        let mut shown = HeaderValue::try_from(shown).map_err(|_| {
            ClientError::Setup(
                "the API key has invalid characters; a key is one word that begins with hpx_".into(),
            )
        })?;
        shown.set_sensitive(true);
        headers.insert(AUTHORIZATION, shown);
        Client::with_headers(base_url, headers)
    }

    /// Creates a client without an API key, for the health routes.
    pub fn without_key(base_url: &str) -> Result<Self, ClientError> {
        Client::with_headers(base_url, HeaderMap::new())
    }

    fn with_headers(base_url: &str, headers: HeaderMap) -> Result<Self, ClientError> {
        let base = read_base(base_url)?;
        let http = reqwest::Client::builder()
            .user_agent(concat!("hapax/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(limits::CONNECT_TIMEOUT)
            .no_proxy()
            .tls_backend_preconfigured(trust()?)
            .build()
            .map_err(|error| ClientError::Setup(error::chain(&error)))?;
        Ok(Client { http, base: base.as_str().trim_end_matches('/').into(), patience: limits::PATIENCE })
    }

    /// Sets how long, in all, a call is retried after a cut connection or a `503`.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// URL of the server.
    pub fn server(&self) -> &str {
        &self.base
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

fn read_base(text: &str) -> Result<Url, ClientError> {
    let refused =
        |why: &str| ClientError::Setup(format!("{why}; give the server as http://HOST:PORT or https://HOST"));
    let url = Url::parse(text)
        .map_err(|error| refused(&format!("the address of the server cannot be read ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(refused("the address of the server is not one of HTTP"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("the address of the server must not contain a name or a password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("the address of the server has a query or a fragment"));
    }
    Ok(url)
}

/// Trusts the certificate authorities of the machine.
fn trust() -> Result<rustls::ClientConfig, ClientError> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Setup(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_a_server_is_refused() {
        let key = SecretString::from("hpx_x");
        for bad in [
            "",
            "localhost:1",
            "ftp://h",
            "http://",
            "http://u:p@h",
            "http://u@h",
            "http://h?x=1",
            "http://h#x",
            "/",
        ] {
            let refused = Client::new(bad, &key).unwrap_err();
            assert!(matches!(refused, ClientError::Setup(_)), "{bad}");
        }
        for good in ["http://127.0.0.1:7171", "https://h/", "https://h/prefix/", "http://[::1]:1"] {
            assert!(!Client::new(good, &key).unwrap().server().ends_with('/'), "{good}");
        }
    }

    #[test]
    fn a_key_is_one_word_and_never_shown() {
        assert!(Client::new("http://h", &SecretString::from("hpx_a\nb")).is_err());
        let client = Client::new("http://h", &SecretString::from("hpx_canary")).unwrap();
        assert!(!format!("{client:?}").contains("canary"));
    }
}
