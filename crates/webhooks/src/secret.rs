//! Signing secrets of Standard Webhooks: a shared secret (`whsec_` and base64), or a key pair whose private key only the sender has.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use crate::limits::{
    MAX_SECRET_CHARS, MAX_SIGNING_KEY_BYTES, MIN_SECRET_CHARS, MIN_SIGNING_KEY_BYTES, SIGNING_KEY_BYTES,
};
use crate::pair::{KeyPair, PRIVATE, PublicKey};

const PREFIX: &str = "whsec_";

/// Some providers omit the padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Problem with a secret. It does not contain the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// With an empty secret anyone could sign.
    #[error("it is empty")]
    Empty,
    /// Usually the newline at the end of a file.
    #[error("it begins or ends with white space; store it without")]
    Whitespace,
    /// Whoever has one signed webhook could find it by trying.
    #[error("it is shorter than {MIN_SECRET_CHARS} characters, so it can be guessed; choose a random one")]
    TooShort,
    /// Longer than any real secret.
    #[error("it is longer than {MAX_SECRET_CHARS} characters")]
    TooLong,
    /// Not a secret of Standard Webhooks.
    #[error(
        "it is not whsec_ and base64 of {MIN_SIGNING_KEY_BYTES} to {MAX_SIGNING_KEY_BYTES} bytes, which Standard Webhooks asks for"
    )]
    NotStandard,
    /// Not a public key.
    #[error("it is not whpk_ and base64 of the 32 bytes of a public key")]
    NotAPublicKey,
    /// Not a private key with its public key.
    #[error("it is not whsk_ and base64 of a private key and the public key that belongs to it")]
    NotAPair,
    /// The verifier needs the public key.
    #[error("it is the sender's private key; use the public key, whpk_…")]
    Private,
}

/// The operating system returned no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes, so no secret can be made")]
pub struct NoRandomness;

/// Secret or private key that signs webhooks to one receiver.
#[derive(Clone)]
pub struct SigningSecret(Kind);

#[derive(Clone)]
enum Kind {
    /// The receiver has the same secret.
    Shared(SecretSlice<u8>),
    /// The receiver has the public key.
    KeyPair(KeyPair),
}

/// Signing key.
pub(crate) enum SignWith<'s> {
    Shared(&'s [u8]),
    KeyPair(&'s KeyPair),
}

impl SigningSecret {
    /// Generates a secret of 32 random bytes.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut key = vec![0; SIGNING_KEY_BYTES];
        getrandom::fill(&mut key).map_err(|_| NoRandomness)?;
        Ok(SigningSecret(Kind::Shared(key.into())))
    }

    /// Creates a pair of Ed25519 keys. The public key can verify and cannot sign.
    pub fn generate_pair() -> Result<Self, NoRandomness> {
        Ok(SigningSecret(Kind::KeyPair(KeyPair::generate()?)))
    }

    /// Parses the text form that [`reveal`](SigningSecret::reveal) returns, or another secret of Standard Webhooks.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        match text.starts_with(PRIVATE) {
            true => KeyPair::parse(text).map(|pair| SigningSecret(Kind::KeyPair(pair))),
            false => key_of(text).map(|key| SigningSecret(Kind::Shared(key))),
        }
    }

    /// The text form of the secret, for storage. A shared secret is shown to the receiver in this form, once.
    pub fn reveal(&self) -> SecretString {
        match &self.0 {
            Kind::Shared(key) => format!("{PREFIX}{}", STANDARD.encode(key.expose_secret())).into(),
            Kind::KeyPair(pair) => pair.reveal().into(),
        }
    }

    /// The receiver's key, if it differs.
    pub fn public_key(&self) -> Option<PublicKey> {
        match &self.0 {
            Kind::Shared(_) => None,
            Kind::KeyPair(pair) => Some(pair.public),
        }
    }

    pub(crate) fn sign_with(&self) -> SignWith<'_> {
        match &self.0 {
            Kind::Shared(key) => SignWith::Shared(key.expose_secret()),
            Kind::KeyPair(pair) => SignWith::KeyPair(pair),
        }
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// Decodes a secret of Standard Webhooks. The prefix may be missing, as the specification allows.
pub(crate) fn key_of(secret: &str) -> Result<SecretSlice<u8>, BadSecret> {
    match secret {
        "" | PREFIX => return Err(BadSecret::Empty),
        secret if secret.trim() != secret => return Err(BadSecret::Whitespace),
        secret if secret.len() > MAX_SECRET_CHARS => return Err(BadSecret::TooLong),
        _ => {}
    }
    let key = LENIENT.decode(secret.strip_prefix(PREFIX).unwrap_or(secret));
    let key = key.ok().filter(|key| (MIN_SIGNING_KEY_BYTES..=MAX_SIGNING_KEY_BYTES).contains(&key.len()));
    key.map(SecretSlice::from).ok_or(BadSecret::NotStandard)
}
