//! Whether a webhook is believed. Strangers learn nothing from the answer, nor, as far as we can help it, from how long it takes.

use hapax_engine::model::Timestamp;
use hapax_webhooks::{Refused, Scheme, Verifier};
use http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Hooks;
use super::source::StoredSource;

/// Why a webhook is not believed: for the log and the metrics, never for its sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Disbelieved {
    /// Nobody set such a source up.
    #[error("there is no such source")]
    UnknownSource,
    /// It is signed well, but its source is disabled.
    #[error("the source is disabled")]
    Disabled,
    /// No secret of the source could be had.
    #[error("no secret of the source can be used: {0}")]
    NoSecret(String),
    /// It is not signed as it should be.
    #[error(transparent)]
    Signature(#[from] Refused),
}

impl Disbelieved {
    /// A short stable word.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Disbelieved::UnknownSource => "unknown_source",
            Disbelieved::Disabled => "disabled",
            Disbelieved::NoSecret(_) => "no_secret",
            Disbelieved::Signature(refused) => refused.code(),
        }
    }
}

/// Every code of [`Disbelieved`], for metrics.
pub(crate) const DISBELIEVED: [&str; 10] = [
    "unknown_source",
    "disabled",
    "no_secret",
    "missing_header",
    "repeated_header",
    "too_long",
    "malformed",
    "stale",
    "from_the_future",
    "no_match",
];

/// A signature that never holds, checked in place of one that is not there, so that both take about as long.
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

impl Hooks {
    /// Is it from `source`, byte for byte, and not sent long ago?
    pub(super) async fn verify(
        &self,
        source: Option<&StoredSource>,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), Disbelieved> {
        let believed = match source {
            Some(source) => self.verify_known(source, headers, body, now).await,
            None => Err(Disbelieved::UnknownSource),
        };
        // Nothing was compared in these cases.
        if matches!(
            believed,
            Err(Disbelieved::UnknownSource
                | Disbelieved::NoSecret(_)
                | Disbelieved::Signature(
                    Refused::MissingHeader { .. }
                        | Refused::RepeatedHeader { .. }
                        | Refused::TooLong { .. }
                        | Refused::Malformed { .. }
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
    ) -> Result<(), Disbelieved> {
        let document = source.source();
        let hands = self.hands.of(&source.workspace);
        let (mut secrets, mut missing) = (Vec::new(), Vec::new());
        for name in &document.secrets {
            match hands.get_secret(name).await {
                Ok(secret) => {
                    let secret = secret.into_value();
                    match Verifier::new(document.signature.clone(), &[&secret]) {
                        Ok(_) => secrets.push(SecretString::from(secret)),
                        Err(bad) => missing.push(format!("{name}: {bad}")),
                    }
                }
                // While secrets are rotated one of them may not be there yet, or no longer.
                Err(failure) => missing.push(failure.message().to_owned()),
            }
        }
        if !missing.is_empty() {
            let missing = missing.join("; ");
            tracing::warn!(source = source.name(), workspace = %source.workspace, missing, "secrets of a webhook source are missing");
        }
        let texts: Vec<&str> = secrets.iter().map(ExposeSecret::expose_secret).collect();
        let verifier = Verifier::new(document.signature.clone(), &texts)
            .map_err(|bad| Disbelieved::NoSecret(bad.to_string()))?;
        verifier.verify(headers, body, system_time(now))?;
        match source.is_enabled() {
            true => Ok(()),
            false => Err(Disbelieved::Disabled),
        }
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
            Refused::MissingHeader { name: name.clone() },
            Refused::RepeatedHeader { name: name.clone() },
            Refused::TooLong { name: name.clone(), limit: 1 },
            Refused::Malformed { name, why: "" },
            Refused::Stale { seconds: 1 },
            Refused::FromTheFuture { seconds: 1 },
            Refused::NoMatch,
        ];
        for refused in refused {
            assert!(DISBELIEVED.contains(&Disbelieved::Signature(refused).code()));
        }
        for own in [Disbelieved::UnknownSource, Disbelieved::Disabled, Disbelieved::NoSecret(String::new())] {
            assert!(DISBELIEVED.contains(&own.code()));
        }
    }
}
