//! One identity provider: its description, its keys, and the exchange of a code for tokens.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_engine::model::Timestamp;
use hapax_outgoing::{DestinationPattern, InvalidRules, Outgoing, Request, Rules};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::jwt::{BadToken, Expected, Key, Token};
use super::settings::{ProviderOptions, is_private_enough, place_of};
use crate::limits::{
    IDENTITY_KEYS_KEPT_FOR, IDENTITY_KEYS_REFRESHED_AFTER, IDENTITY_PROVIDER_TIMEOUT, IDENTITY_RETRY_PAUSE,
    MAX_IDENTITY_ANSWER_BYTES,
};

/// The provider did not answer as it should. The operator's log has the cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProviderFault(pub(super) String);

fn fault(text: impl fmt::Display) -> ProviderFault {
    ProviderFault(text.to_string())
}

/// Why a token was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rejected {
    /// It does not count.
    Token(BadToken),
    /// The provider's keys cannot be read, so nobody knows.
    Provider(ProviderFault),
}

impl From<ProviderFault> for Rejected {
    fn from(fault: ProviderFault) -> Self {
        Rejected::Provider(fault)
    }
}

/// Description of a provider by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Description {
    issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Description and keys, and when they were read.
#[derive(Debug, Clone)]
struct ProviderKeys {
    description: Arc<Description>,
    keys: Arc<Vec<Key>>,
    read_at: Timestamp,
}

#[derive(Debug, Default)]
struct Cache {
    known: Option<ProviderKeys>,
    /// When reading began last, so that nobody makes the server ask all the time.
    tried_at: Option<Timestamp>,
    /// When reading failed last, if it did not succeed since.
    failed_at: Option<Timestamp>,
    /// When reading began last for a key that is unknown.
    searched_at: Option<Timestamp>,
}

/// A provider with its cached description and keys.
pub(super) struct Provider {
    pub(super) options: ProviderOptions,
    outgoing: Outgoing,
    cache: Mutex<Cache>,
    /// One caller reads; the others wait for what it finds.
    reading: Semaphore,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.options.name).finish_non_exhaustive()
    }
}

/// Body of a token response. The access token is not used.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

impl Provider {
    pub(super) fn new(options: ProviderOptions, outgoing: &Outgoing) -> Result<Self, InvalidRules> {
        let common = outgoing.rules();
        // The operator named the issuer, so it may be on a private network.
        let issuer = place_of(&options.issuer).and_then(|place| place.parse::<DestinationPattern>().ok());
        let rules = Rules {
            allow: common.allow.iter().cloned().chain(issuer).collect(),
            max_response_bytes: MAX_IDENTITY_ANSWER_BYTES,
            total_timeout: IDENTITY_PROVIDER_TIMEOUT,
            connect_timeout: common.connect_timeout.min(IDENTITY_PROVIDER_TIMEOUT),
            ..common.clone()
        };
        let outgoing = outgoing.under(rules)?;
        Ok(Provider { options, outgoing, cache: Mutex::default(), reading: Semaphore::new(1) })
    }

    /// The description, as old as [`IDENTITY_KEYS_REFRESHED_AFTER`]; older if the provider does not answer.
    pub(super) async fn describe(&self, now: Timestamp) -> Result<Arc<Description>, ProviderFault> {
        Ok(self.known(now).await?.description)
    }

    /// Returns the claims of a token that one of the provider's keys signed. An unknown key is looked for once more, because
    /// providers change their keys.
    pub(super) async fn verify(
        &self,
        text: &str,
        expected: &Expected<'_>,
        now: Timestamp,
    ) -> Result<Map<String, Value>, Rejected> {
        let judge = |keys: &[Key]| {
            let token = Token::parse(text)?;
            let names_no_key = token.names_no_key();
            let seconds = now.as_millis().div_euclid(1_000);
            token.verify(keys, expected, seconds).map_err(|bad| match bad {
                BadToken::Signature if names_no_key => BadToken::UnknownKey,
                bad => bad,
            })
        };
        let known = self.known(now).await?;
        let judged = judge(&known.keys);
        if judged != Err(BadToken::UnknownKey) || !self.may_search(now) {
            return judged.map_err(Rejected::Token);
        }
        let known = self.read(now, Some(known.read_at)).await?;
        judge(&known.keys).map_err(Rejected::Token)
    }

    /// Takes the right to look for an unknown key; it comes back after a pause.
    fn may_search(&self, now: Timestamp) -> bool {
        let mut cache = self.cache.lock().expect("no holder panics");
        let may = cache.searched_at.is_none_or(|at| now.since(at) >= IDENTITY_RETRY_PAUSE);
        if may {
            cache.searched_at = Some(now);
        }
        may
    }

    async fn known(&self, now: Timestamp) -> Result<ProviderKeys, ProviderFault> {
        let (known, tried_at, failed_at) = {
            let cache = self.cache.lock().expect("no holder panics");
            (cache.known.clone(), cache.tried_at, cache.failed_at)
        };
        // Anybody can cause a look, so a provider that is away is not asked each time.
        if known.is_none() && failed_at.is_some_and(|at| now.since(at) < IDENTITY_RETRY_PAUSE) {
            return Err(fault("it did not answer a moment ago"));
        }
        let age = known.as_ref().map(|known| now.since(known.read_at));
        if let (Some(known), Some(age)) = (&known, age) {
            let is_due = age >= IDENTITY_KEYS_REFRESHED_AFTER;
            let tried_lately = tried_at.is_some_and(|at| now.since(at) < IDENTITY_RETRY_PAUSE);
            if !is_due || (tried_lately && age < IDENTITY_KEYS_KEPT_FOR) {
                return Ok(known.clone());
            }
        }
        match (self.read(now, known.as_ref().map(|known| known.read_at)).await, known, age) {
            (Ok(read), _, _) => Ok(read),
            (Err(error), Some(known), Some(age)) if age < IDENTITY_KEYS_KEPT_FOR => {
                tracing::warn!(provider = %self.options.name, %error, "the keys of the identity provider are old, because it does not answer");
                Ok(known)
            }
            (Err(error), _, _) => Err(error),
        }
    }

    /// Reads description and keys, unless another request did since `seen`.
    async fn read(&self, now: Timestamp, seen: Option<Timestamp>) -> Result<ProviderKeys, ProviderFault> {
        let _turn = self.reading.acquire().await.expect("it is never closed");
        {
            let mut cache = self.cache.lock().expect("no holder panics");
            if let Some(known) = cache.known.as_ref().filter(|known| Some(known.read_at) > seen) {
                return Ok(known.clone());
            }
            if cache.known.is_none() && cache.failed_at.is_some_and(|at| now.since(at) < IDENTITY_RETRY_PAUSE)
            {
                return Err(fault("it did not answer a moment ago"));
            }
            cache.tried_at = Some(now);
        }
        let read = self.read_now(now).await;
        let mut cache = self.cache.lock().expect("no holder panics");
        match &read {
            Ok(known) => (cache.known, cache.failed_at) = (Some(known.clone()), None),
            Err(_) => cache.failed_at = Some(now),
        }
        read
    }

    async fn read_now(&self, now: Timestamp) -> Result<ProviderKeys, ProviderFault> {
        let base = self.options.issuer.trim_end_matches('/');
        let description: Description = self.get(&format!("{base}/.well-known/openid-configuration")).await?;
        if description.issuer != self.options.issuer {
            return Err(fault(format_args!(
                "the provider calls itself {:.200}, and the settings call it {}",
                description.issuer, self.options.issuer
            )));
        }
        for address in
            [&description.authorization_endpoint, &description.token_endpoint, &description.jwks_uri]
        {
            if !is_private_enough(address) {
                return Err(fault(format_args!("the address {address:.200} is not encrypted")));
            }
        }
        let keys = self.fetch(Request::get(&description.jwks_uri)).await?;
        let keys = Key::read_set(&keys).map_err(|_| fault("its keys cannot be read"))?;
        Ok(ProviderKeys { description: Arc::new(description), keys: Arc::new(keys), read_at: now })
    }

    /// Exchanges the code of a sign-in for the ID token.
    pub(super) async fn exchange(
        &self,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
        now: Timestamp,
    ) -> Result<String, ProviderFault> {
        let description = self.describe(now).await?;
        let mut form = form_urlencoded(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
            ("client_id", &self.options.client_id),
        ]);
        let mut headers = HeaderMap::new();
        if let Some(secret) = &self.options.client_secret {
            let methods = description.token_endpoint_auth_methods_supported.as_deref();
            let takes_basic =
                methods.is_none_or(|methods| methods.iter().any(|it| it == "client_secret_basic"));
            match takes_basic {
                true => {
                    let pair =
                        format!("{}:{}", encode(&self.options.client_id), encode(secret.expose_secret()));
                    let value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)));
                    let mut value = value.map_err(|_| fault("the client's secret cannot be sent"))?;
                    value.set_sensitive(true);
                    headers.insert(AUTHORIZATION, value);
                }
                false => {
                    form.push('&');
                    form.push_str(&form_urlencoded(&[("client_secret", secret.expose_secret())]));
                }
            }
        }
        let mut request = Request::post(&description.token_endpoint, form);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        request.headers = headers;
        let body = self.fetch(request).await?;
        let tokens: Tokens = serde_json::from_slice(&body).map_err(|_| fault("it gave no ID token"))?;
        Ok(tokens.id_token)
    }

    async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, ProviderFault> {
        let body = self.fetch(Request::get(url)).await?;
        serde_json::from_slice(&body)
            .map_err(|error| fault(format_args!("its description cannot be read: {error}")))
    }

    async fn fetch(&self, mut request: Request) -> Result<bytes::Bytes, ProviderFault> {
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let host = place_of(&request.url).unwrap_or_default();
        let answer =
            self.outgoing.send(request).await.map_err(|error| fault(format_args!("{host}: {error}")))?;
        match answer.is_success() {
            true => Ok(answer.body),
            false => Err(fault(format_args!("{host} answered {}", answer.status))),
        }
    }
}

/// Longest time that a sign-in waits for the provider.
const _: () = assert!(IDENTITY_PROVIDER_TIMEOUT.as_secs() <= Duration::from_secs(15).as_secs());

pub(super) fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

pub(super) fn form_urlencoded(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
}
