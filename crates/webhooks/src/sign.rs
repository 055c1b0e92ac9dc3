//! Signing of outgoing webhooks, by Standard Webhooks.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::limits::{MAX_SECRETS, MAX_SENT_BYTES};
use crate::mac::mac;
use crate::message::MessageId;
use crate::scheme::Algorithm;
use crate::secret::{SignWith, SigningSecret};

/// Headers of a signed webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHeaders {
    /// `webhook-id`: the same for all attempts.
    pub id: MessageId,
    /// `webhook-timestamp`: time of this attempt, in seconds since 1970.
    pub timestamp: u64,
    /// `webhook-signature`: one signature per secret, separated by spaces.
    pub signature: String,
}

/// Reason why nothing was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsignable {
    /// There is no secret, and nothing is sent without one.
    #[error("there is no secret to sign with")]
    NoSecret,
    /// More secrets than a receiver should have to check.
    #[error("there are more than {MAX_SECRETS} secrets; end the rotation of the oldest first")]
    TooManySecrets,
    /// A body larger than a receiver should have to accept.
    #[error("the body has more than {MAX_SENT_BYTES} bytes")]
    TooLarge,
    /// The clock is before 1970.
    #[error("the clock is before 1970")]
    Clock,
}

/// Signs one attempt at `now`. `body` must be sent byte for byte. During a rotation all secrets sign, the newest first.
pub fn sign(
    secrets: &[SigningSecret],
    id: &MessageId,
    now: SystemTime,
    body: &[u8],
) -> Result<SignedHeaders, Unsignable> {
    if body.len() > MAX_SENT_BYTES {
        return Err(Unsignable::TooLarge);
    }
    sign_any(secrets, id, now, body)
}

/// Like [`sign`], for a body of any size: for receivers that agreed to take larger ones.
pub fn sign_any(
    secrets: &[SigningSecret],
    id: &MessageId,
    now: SystemTime,
    body: &[u8],
) -> Result<SignedHeaders, Unsignable> {
    match secrets.len() {
        0 => return Err(Unsignable::NoSecret),
        1..=MAX_SECRETS => {}
        _ => return Err(Unsignable::TooManySecrets),
    }
    let timestamp = now.duration_since(UNIX_EPOCH).map_err(|_| Unsignable::Clock)?.as_secs();
    let before_body = format!("{id}.{timestamp}.");
    let parts = [before_body.as_bytes(), body];
    let signature = |secret: &SigningSecret| match secret.sign_with() {
        SignWith::Shared(key) => format!("v1,{}", STANDARD.encode(mac(Algorithm::Sha256, key, &parts))),
        SignWith::KeyPair(pair) => format!("v1a,{}", STANDARD.encode(pair.sign(&parts.concat()))),
    };
    let signatures: Vec<String> = secrets.iter().map(signature).collect();
    Ok(SignedHeaders { id: id.clone(), timestamp, signature: signatures.join(" ") })
}

impl SignedHeaders {
    /// The three headers.
    pub fn to_headers(&self) -> HeaderMap {
        let header = |name, value: &str| {
            let value = HeaderValue::from_str(value).expect("ids and base64 are printable ASCII");
            (HeaderName::from_static(name), value)
        };
        HeaderMap::from_iter([
            header("webhook-id", self.id.as_str()),
            header("webhook-timestamp", &self.timestamp.to_string()),
            header("webhook-signature", &self.signature),
        ])
    }
}
