//! Verification of webhooks on the raw bytes, before they are parsed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use secrecy::{ExposeSecret, SecretSlice};

use crate::claim::read_claim;
use crate::limits::{MAX_SECRET_CHARS, MAX_SECRETS, TOLERANCE};
use crate::mac::any_matches;
use crate::pair::{PRIVATE, PUBLIC, PublicKey};
use crate::refused::VerificationError;
use crate::scheme::Scheme;
use crate::secret::{BadSecret, key_of};

/// Verifies the webhooks of one source.
#[derive(Debug, Clone)]
pub struct Verifier {
    scheme: Scheme,
    keys: Vec<SecretSlice<u8>>,
    public_keys: Vec<PublicKey>,
}

/// Reason why secrets cannot be used, for the owner of the source. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSecrets {
    /// There are none, so no webhook could ever be accepted.
    #[error("there is no secret to verify signatures with; add one")]
    None,
    /// More than the limit.
    #[error("there are more than {MAX_SECRETS} secrets; remove the unused ones")]
    TooMany,
    /// The scheme uses none.
    #[error(
        "webhooks of this source are not signed, so it needs no secret; take it away, or say how they are signed"
    )]
    NotUsed,
    /// One of them is not valid for the scheme.
    #[error("secret {} of the source cannot be used: {why}", index + 1)]
    Unusable {
        /// Its index, from 0.
        index: usize,
        /// The problem.
        why: BadSecret,
    },
}

impl Verifier {
    /// Creates a verifier that accepts a signature by any of `secrets`. Write secrets as the provider shows them: for
    /// Standard Webhooks base64 after `whsec_`, or the sender's public key after `whpk_`. Stripe's secrets look similar
    /// but are used as they are.
    pub fn new<S: AsRef<str>>(scheme: Scheme, secrets: &[S]) -> Result<Self, BadSecrets> {
        match (&scheme, secrets.len()) {
            (Scheme::Unsigned, 0) => {}
            (Scheme::Unsigned, _) => return Err(BadSecrets::NotUsed),
            (_, 0) => return Err(BadSecrets::None),
            (_, 1..=MAX_SECRETS) => {}
            (_, _) => return Err(BadSecrets::TooMany),
        }
        let (mut keys, mut public_keys) = (Vec::new(), Vec::new());
        for (index, secret) in secrets.iter().enumerate() {
            let unusable = |why| BadSecrets::Unusable { index, why };
            match (&scheme, secret.as_ref()) {
                (Scheme::StandardWebhooks, text) if text.starts_with(PUBLIC) => {
                    public_keys.push(PublicKey::parse(text).map_err(unusable)?);
                }
                (Scheme::StandardWebhooks, text) if text.starts_with(PRIVATE) => {
                    return Err(unusable(BadSecret::Private));
                }
                (Scheme::StandardWebhooks, text) => keys.push(key_of(text).map_err(unusable)?),
                (_, text) => keys.push(text_key(text).map_err(unusable)?),
            }
        }
        Ok(Verifier { scheme, keys, public_keys })
    }

    /// The scheme.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Checks that one of the secrets signed `body`, byte for byte, and that the signature is recent at `now`.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Result<(), VerificationError> {
        let Some(claim) = read_claim(&self.scheme, headers)? else { return Ok(()) };
        let keys = self.keys.iter().map(ExposeSecret::expose_secret);
        let parts = [claim.before_body.as_bytes(), body];
        let is_shared = any_matches(claim.algorithm, keys, &parts, &claim.signatures);
        if !is_shared && !self.any_public_matches(&claim.public_signatures, &parts) {
            return Err(VerificationError::NoMatch);
        }
        // The age is reported only if the signature is valid.
        claim.signed_at.map_or(Ok(()), |signed_at| check_time(signed_at, now))
    }
}

impl Verifier {
    /// Public keys are not secret, so the time may reveal which of them matched.
    fn any_public_matches(&self, signatures: &[Vec<u8>], parts: &[&[u8]]) -> bool {
        if signatures.is_empty() || self.public_keys.is_empty() {
            return false;
        }
        let message = parts.concat();
        let matches = |key: &PublicKey| signatures.iter().any(|signature| key.verifies(&message, signature));
        self.public_keys.iter().any(matches)
    }
}

fn check_time(signed_at: u64, now: SystemTime) -> Result<(), VerificationError> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (age, lead) = (now.saturating_sub(signed_at), signed_at.saturating_sub(now));
    match TOLERANCE.as_secs() {
        tolerance if age > tolerance => Err(VerificationError::Stale { seconds: age }),
        tolerance if lead > tolerance => Err(VerificationError::FromTheFuture { seconds: lead }),
        _ => Ok(()),
    }
}

/// A secret that is used as it is. With an empty one anyone could sign.
fn text_key(secret: &str) -> Result<SecretSlice<u8>, BadSecret> {
    match secret {
        "" => Err(BadSecret::Empty),
        secret if secret.trim() != secret => Err(BadSecret::Whitespace),
        secret if secret.len() > MAX_SECRET_CHARS => Err(BadSecret::TooLong),
        secret => Ok(secret.as_bytes().to_vec().into()),
    }
}
