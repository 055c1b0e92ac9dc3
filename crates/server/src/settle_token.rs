//! The text of a settle token: `hps_` and 256 random bits. It authorizes one settlement; only its
//! digest is stored.

use std::fmt;

use hapax_engine::store::TokenDigest;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::base62;
use crate::credentials::key::NoRandomness;

/// Prefix of every token.
pub const PREFIX: &str = "hps_";
/// Characters of its secret: 256 bits in base 62.
const SECRET_CHARS: usize = 43;
/// Keeps token digests apart from other hashes.
const PURPOSE: &[u8] = b"hapax settle token 1\0";

/// A settle token.
pub struct SettleSecret(SecretString);

impl SettleSecret {
    /// A new one.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|_| NoRandomness)?;
        let text = format!("{PREFIX}{}", base62::encode(&secret, SECRET_CHARS));
        Ok(SettleSecret(SecretString::from(text)))
    }

    /// The token in the clear, to be shown once.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for SettleSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SettleSecret({PREFIX}…)")
    }
}

/// Digest of a token, for storage and lookup. Any text is hashed, so a malformed token takes the
/// same path as an unknown one.
pub fn digest_of(text: &str) -> TokenDigest {
    Sha256::new().chain_update(PURPOSE).chain_update(text.as_bytes()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RELIABILITY, security: at least 256 bits, kept hashed under a label of its own.
    #[test]
    fn a_token_is_long_and_its_digest_is_domain_separated() {
        let (one, other) = (SettleSecret::generate().unwrap(), SettleSecret::generate().unwrap());
        assert_eq!(one.reveal().len(), PREFIX.len() + SECRET_CHARS);
        assert_ne!(one.reveal(), other.reveal());
        let plain: TokenDigest = Sha256::digest(one.reveal().as_bytes()).into();
        assert_ne!(digest_of(one.reveal()), plain);
        assert_ne!(digest_of(one.reveal()), digest_of(other.reveal()));
    }

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        let secret = SettleSecret::generate().unwrap();
        assert!(!format!("{secret:?}").contains(&secret.reveal()[PREFIX.len()..]));
    }
}
