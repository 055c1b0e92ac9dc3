//! Signing secrets of Standard Webhooks: `whsec_` and base64.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use crate::limits::{MAX_SECRET_CHARS, MAX_SIGNING_KEY_BYTES, MIN_SIGNING_KEY_BYTES, SIGNING_KEY_BYTES};

const PREFIX: &str = "whsec_";

/// Some who hand secrets out leave the padding away.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What is wrong with a secret. The secret is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// With it anybody could sign.
    #[error("it is empty")]
    Empty,
    /// As when a file's last newline is read along.
    #[error("it begins or ends with white space; store it without")]
    Whitespace,
    /// Longer than any that is handed out.
    #[error("it is longer than {MAX_SECRET_CHARS} characters")]
    TooLong,
    /// Not what Standard Webhooks calls a secret.
    #[error(
        "it is not whsec_ and base64 of {MIN_SIGNING_KEY_BYTES} to {MAX_SIGNING_KEY_BYTES} bytes, which Standard Webhooks asks for"
    )]
    NotStandard,
}

/// The operating system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes, so no secret can be made")]
pub struct NoRandomness;

/// A secret that webhooks to one receiver are signed with.
#[derive(Clone)]
pub struct SigningSecret(SecretSlice<u8>);

impl SigningSecret {
    /// A new one of 32 random bytes.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut key = vec![0; SIGNING_KEY_BYTES];
        getrandom::fill(&mut key).map_err(|_| NoRandomness)?;
        Ok(SigningSecret(key.into()))
    }

    /// Reads one as [`reveal`](SigningSecret::reveal) wrote it, or another one of Standard Webhooks.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        key_of(text).map(SigningSecret)
    }

    /// The secret as it is shown to the receiver, once.
    pub fn reveal(&self) -> SecretString {
        format!("{PREFIX}{}", STANDARD.encode(self.0.expose_secret())).into()
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.0.expose_secret()
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// The key that a secret of Standard Webhooks spells; the prefix may be missing, as the specification allows.
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
