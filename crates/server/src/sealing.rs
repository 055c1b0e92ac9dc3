//! Seals secrets that must be usable again, so that they are safe from a reader of the store
//! without the key.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use hmac::{Hmac, Mac};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretBox};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::limits::MIN_SEALING_SECRET_BYTES;

const NONCE_BYTES: usize = 24;

/// A key that secrets are sealed with.
pub struct SealingKey(SecretBox<[u8; 32]>);

/// The secret is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sealing key has at least {MIN_SEALING_SECRET_BYTES} bytes; make one with: openssl rand -base64 32"
)]
pub struct SealingKeyTooShort;

impl SealingKey {
    /// Derives the key from a secret of any form.
    pub fn from_secret(secret: &[u8]) -> Result<Self, SealingKeyTooShort> {
        if secret.len() < MIN_SEALING_SECRET_BYTES {
            return Err(SealingKeyTooShort);
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(b"hapax sealing key v1").expect("any length is fine");
        mac.update(secret);
        Ok(SealingKey(SecretBox::new(Box::new(mac.finalize().into_bytes().into()))))
    }

    /// Name of the key in a record; it reveals nothing about the key.
    fn id(&self) -> String {
        let digest = Sha256::new().chain_update(b"hapax sealing key id").chain_update(self.0.expose_secret());
        digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Clone for SealingKey {
    fn clone(&self) -> Self {
        SealingKey(SecretBox::new(Box::new(*self.0.expose_secret())))
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id())
    }
}

/// A sealed secret, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// Id of the key that opens it.
    key: String,
    nonce: String,
    text: String,
}

/// Why a sealed secret cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Closed {
    #[error(
        "it was sealed with the key {0}, which this server does not have; configure it beside the newer one"
    )]
    UnknownKey(String),
    #[error("it was changed, or copied from another place")]
    Broken,
}

/// The operating system gave no random bytes.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the operating system gives no random bytes")]
pub(crate) struct NoRandom;

/// Seals with the newest key and opens with any.
#[derive(Debug)]
pub(crate) struct Sealer {
    newest: SealingKey,
    older: Vec<SealingKey>,
}

impl Sealer {
    pub(crate) fn new(newest: SealingKey, older: Vec<SealingKey>) -> Self {
        Sealer { newest, older }
    }

    /// Seals `secret` for one `place`; it cannot be opened at another.
    pub(crate) fn seal(&self, place: &str, secret: &[u8]) -> Result<Sealed, NoRandom> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| NoRandom)?;
        let payload = Payload { msg: secret, aad: place.as_bytes() };
        let text = cipher(&self.newest).encrypt(&nonce.into(), payload).expect("a secret is short");
        Ok(Sealed { key: self.newest.id(), nonce: STANDARD.encode(nonce), text: STANDARD.encode(text) })
    }

    /// Opens a secret that was sealed for this `place`.
    pub(crate) fn open(&self, place: &str, sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, Closed> {
        let mut keys = std::iter::once(&self.newest).chain(&self.older);
        let key = keys.find(|key| key.id() == sealed.key);
        let key = key.ok_or_else(|| Closed::UnknownKey(sealed.key.chars().take(16).collect()))?;
        let decoded = |text: &str| STANDARD.decode(text).map_err(|_| Closed::Broken);
        let nonce: [u8; NONCE_BYTES] = decoded(&sealed.nonce)?.try_into().map_err(|_| Closed::Broken)?;
        let payload = Payload { msg: &decoded(&sealed.text)?, aad: place.as_bytes() };
        let secret = cipher(key).decrypt(&nonce.into(), payload).map_err(|_| Closed::Broken)?;
        Ok(Zeroizing::new(secret))
    }
}

fn cipher(key: &SealingKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.0.expose_secret().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SealingKey {
        SealingKey::from_secret(&[byte; 32]).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_at_its_place_with_its_key_and_nowhere_else() {
        let sealer = Sealer::new(key(1), vec![]);
        let sealed = sealer.seal("here", b"s3cret").unwrap();
        assert_eq!(sealer.open("here", &sealed).unwrap().as_slice(), b"s3cret");
        assert_eq!(sealer.open("there", &sealed).unwrap_err(), Closed::Broken);
        let other = Sealer::new(key(2), vec![]);
        assert!(matches!(other.open("here", &sealed).unwrap_err(), Closed::UnknownKey(_)));
        let rotated = Sealer::new(key(2), vec![key(1)]);
        assert_eq!(rotated.open("here", &sealed).unwrap().as_slice(), b"s3cret");
        assert_ne!(rotated.seal("here", b"s3cret").unwrap().key, sealed.key, "the newest key seals");
    }

    #[test]
    fn the_same_secret_is_sealed_differently_each_time_and_no_part_can_be_changed() {
        let sealer = Sealer::new(key(1), vec![]);
        let sealed = sealer.seal("here", b"s3cret").unwrap();
        assert_ne!(sealer.seal("here", b"s3cret").unwrap(), sealed);
        let flip = |text: &str| text.replacen(|_| true, if text.starts_with('A') { "B" } else { "A" }, 1);
        for broken in [
            Sealed { nonce: flip(&sealed.nonce), ..sealed.clone() },
            Sealed { text: flip(&sealed.text), ..sealed.clone() },
            Sealed { text: "?".into(), ..sealed.clone() },
            Sealed { nonce: "AAAA".into(), ..sealed.clone() },
        ] {
            assert_eq!(sealer.open("here", &broken).unwrap_err(), Closed::Broken, "{broken:?}");
        }
    }

    #[test]
    fn a_key_is_long_enough_and_never_shown() {
        assert_eq!(SealingKey::from_secret(&[7; 31]).unwrap_err(), SealingKeyTooShort);
        assert!(format!("{:?}", key(7)).starts_with("SealingKey("));
    }
}
