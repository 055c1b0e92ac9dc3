//! Ed25519 key pairs, for receivers that may verify but not sign. The sender keeps `whsk_`, and receivers get `whpk_`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use secrecy::{ExposeSecret, SecretSlice};

use crate::secret::{BadSecret, NoRandomness};

/// Prefix of a private key in text.
pub(crate) const PRIVATE: &str = "whsk_";
/// Prefix of a public key.
pub(crate) const PUBLIC: &str = "whpk_";
/// The length of a signature, in bytes.
pub(crate) const SIGNATURE_BYTES: usize = 64;

const SEED_BYTES: usize = 32;
const PUBLIC_BYTES: usize = 32;

/// The public key of a pair. It verifies webhooks that were signed with the private key. It is not secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; PUBLIC_BYTES]);

impl PublicKey {
    /// Parses a public key from its text form.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let bytes = text.strip_prefix(PUBLIC).and_then(|text| STANDARD.decode(text).ok());
        bytes.and_then(|bytes| bytes.try_into().ok()).map(PublicKey).ok_or(BadSecret::NotAPublicKey)
    }

    /// Returns true if the private key signed `message`.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key pair.
#[derive(Clone)]
pub(crate) struct KeyPair {
    seed: SecretSlice<u8>,
    pub(crate) public: PublicKey,
}

impl KeyPair {
    pub(crate) fn generate() -> Result<Self, NoRandomness> {
        let mut seed = vec![0; SEED_BYTES];
        getrandom::fill(&mut seed).map_err(|_| NoRandomness)?;
        Ok(KeyPair::from_seed(seed))
    }

    /// Parses `whsk_` and base64 of the seed and the public key, which must belong together.
    pub(crate) fn parse(text: &str) -> Result<Self, BadSecret> {
        let bytes = text.strip_prefix(PRIVATE).and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.filter(|bytes| bytes.len() == SEED_BYTES + PUBLIC_BYTES);
        let bytes = bytes.ok_or(BadSecret::NotAPair)?;
        let pair = KeyPair::from_seed(bytes[..SEED_BYTES].to_vec());
        match pair.public.0[..] == bytes[SEED_BYTES..] {
            true => Ok(pair),
            false => Err(BadSecret::NotAPair),
        }
    }

    fn from_seed(seed: Vec<u8>) -> Self {
        let public = PublicKey(keys(&seed).public_key().as_ref().try_into().expect("32 bytes"));
        KeyPair { seed: seed.into(), public }
    }

    pub(crate) fn reveal(&self) -> String {
        format!("{PRIVATE}{}", STANDARD.encode([self.seed.expose_secret(), &self.public.0].concat()))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        keys(self.seed.expose_secret()).sign(message).as_ref().to_vec()
    }
}

fn keys(seed: &[u8]) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed is any 32 bytes")
}
