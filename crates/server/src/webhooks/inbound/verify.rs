//! Verification of webhooks. The response tells a stranger nothing, nor, as far as possible, does
//! the time it takes.

use hapax_documents::UNKNOWN_SECRET;
use hapax_engine::model::{FailureClass, Timestamp};
use hapax_webhooks::{Scheme, VerificationError, Verifier};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::InboundWebhooks;
use super::source::StoredSource;

/// Why verification failed: for the log and the metrics, never for the sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureRejection {
    /// There is no such source.
    #[error("there is no such source")]
    UnknownSource,
    /// The signature is valid, but the source is disabled.
    #[error("the source is disabled")]
    Disabled,
    /// The source has no usable secret, and a retry would not change that.
    #[error("no secret of the source can be used: {0}")]
    NoSecret(String),
    /// A secret that may have signed it could not be read. That is a server error, so the sender is
    /// asked to retry.
    #[error("a secret of the source cannot be read now: {0}")]
    SecretUnavailable(String),
    /// The signature is invalid.
    #[error(transparent)]
    Signature(#[from] VerificationError),
}

impl SignatureRejection {
    /// A short stable word.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            SignatureRejection::UnknownSource => "unknown_source",
            SignatureRejection::Disabled => "disabled",
            SignatureRejection::NoSecret(_) => "no_secret",
            SignatureRejection::SecretUnavailable(_) => "secret_unavailable",
            SignatureRejection::Signature(refused) => refused.code(),
        }
    }
}

/// Every code of [`SignatureRejection`], for metrics.
pub(crate) const DISBELIEVED: [&str; 11] = [
    "unknown_source",
    "disabled",
    "no_secret",
    "secret_unavailable",
    "missing_header",
    "repeated_header",
    "too_long",
    "malformed",
    "stale",
    "from_the_future",
    "no_match",
];

/// A fake signature to check where there is no real one, so that both cases take about as long.
pub(super) struct Decoy {
    verifier: Verifier,
    headers: HeaderMap,
}

impl Default for Decoy {
    fn default() -> Self {
        let verifier = Verifier::new(Scheme::GitHub, &["nobody signs with this"]).expect("a valid literal");
        let signature = HeaderValue::from_static(
            "sha256=0000000000000000000000000000000000000000000000000000000000000000",
        );
        let headers =
            HeaderMap::from_iter([(http::HeaderName::from_static("x-hub-signature-256"), signature)]);
        Decoy { verifier, headers }
    }
}

impl Decoy {
    /// Takes about as long as it takes to check a signature over `body`.
    fn check(&self, body: &[u8]) {
        let _ = std::hint::black_box(self.verifier.verify(&self.headers, body, UNIX_EPOCH));
    }
}

/// Reads and drops a body, with about as much work as checking a signature.
pub(super) struct DecoyDigest(Hmac<Sha256>);

impl DecoyDigest {
    pub(super) fn new() -> Self {
        DecoyDigest(Hmac::new_from_slice(b"nobody signs with this").expect("any length is fine"))
    }

    pub(super) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(super) fn finish(self) {
        let _ = std::hint::black_box(self.0.finalize());
    }
}

/// The secrets of a source that could be read.
#[derive(Default)]
struct Secrets {
    usable: Vec<SecretString>,
    /// Not configured, or unusable.
    missing: Vec<String>,
    /// Configured, but unreadable at the moment.
    unreadable: Vec<String>,
}

impl InboundWebhooks {
    /// Verifies that the request is from `source`, unchanged, and recent.
    pub(super) async fn verify(
        &self,
        source: &StoredSource,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), SignatureRejection> {
        let believed = self.verify_known(source, headers, body, now).await;
        // No signature was compared in these cases.
        if matches!(
            believed,
            Err(SignatureRejection::NoSecret(_)
                | SignatureRejection::Signature(
                    VerificationError::MissingHeader { .. }
                        | VerificationError::RepeatedHeader { .. }
                        | VerificationError::TooLong { .. }
                        | VerificationError::Malformed { .. }
                ))
        ) {
            self.decoy.check(body);
        }
        believed
    }

    async fn verify_known(
        &self,
        source: &StoredSource,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), SignatureRejection> {
        let secrets = self.read_secrets(source).await;
        let texts: Vec<&str> = secrets.usable.iter().map(ExposeSecret::expose_secret).collect();
        let verified = match Verifier::new(source.source().signature.clone(), &texts) {
            Ok(verifier) => {
                verifier.verify(headers, body, system_time(now)).map_err(SignatureRejection::from)
            }
            Err(bad) => Err(SignatureRejection::NoSecret(bad.to_string())),
        };
        let is_open = matches!(
            verified,
            Err(SignatureRejection::NoSecret(_) | SignatureRejection::Signature(VerificationError::NoMatch))
        );
        if is_open && !secrets.unreadable.is_empty() {
            return Err(SignatureRejection::SecretUnavailable(secrets.unreadable.join("; ")));
        }
        verified?;
        match source.is_enabled() {
            true => Ok(()),
            false => Err(SignatureRejection::Disabled),
        }
    }

    async fn read_secrets(&self, source: &StoredSource) -> Secrets {
        let document = source.source();
        let services = self.services.of(&source.workspace);
        let (mut secrets, mut absent) = (Secrets::default(), Vec::new());
        for name in &document.secrets {
            match services.get_secret(name).await {
                Ok(secret) => {
                    let secret = secret.into_value();
                    match Verifier::new(document.signature.clone(), &[&secret]) {
                        Ok(_) => secrets.usable.push(SecretString::from(secret)),
                        Err(bad) => secrets.missing.push(format!("{name}: {bad}")),
                    }
                }
                Err(failure) if failure.class() == FailureClass::Permanent => {
                    secrets.missing.push(failure.message().to_owned());
                }
                Err(failure) if failure.code() == Some(UNKNOWN_SECRET) => {
                    absent.push(failure.message().to_owned());
                }
                Err(failure) => secrets.unreadable.push(failure.message().to_owned()),
            }
        }
        // During a rotation one of the secrets may be missing. If all are missing, this node is
        // misconfigured.
        match secrets.usable.is_empty() {
            true => secrets.unreadable.extend(absent),
            false => secrets.missing.extend(absent),
        }
        let lacking: Vec<&str> =
            secrets.missing.iter().chain(&secrets.unreadable).map(String::as_str).collect();
        if !lacking.is_empty() {
            let lacking = lacking.join("; ");
            tracing::warn!(source = source.name(), workspace = %source.workspace, lacking, "secrets of a webhook source cannot be used");
        }
        secrets
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_that_a_signature_can_have_is_listed_for_metrics() {
        let name = http::HeaderName::from_static("x");
        let refused = [
            VerificationError::MissingHeader { name: name.clone() },
            VerificationError::RepeatedHeader { name: name.clone() },
            VerificationError::TooLong { name: name.clone(), limit: 1 },
            VerificationError::Malformed { name, why: "" },
            VerificationError::Stale { seconds: 1 },
            VerificationError::FromTheFuture { seconds: 1 },
            VerificationError::NoMatch,
        ];
        for refused in refused {
            assert!(DISBELIEVED.contains(&SignatureRejection::Signature(refused).code()));
        }
        for own in [
            SignatureRejection::UnknownSource,
            SignatureRejection::Disabled,
            SignatureRejection::NoSecret(String::new()),
            SignatureRejection::SecretUnavailable(String::new()),
        ] {
            assert!(DISBELIEVED.contains(&own.code()));
        }
    }
}
