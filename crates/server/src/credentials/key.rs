//! The text of an API key: `hpx_<id>_<secret><checksum>`.
//!
//! The id finds the credential and is not secret. The secret has 256 random bits, so a plain
//! SHA-256 of it may be stored. With the checksum, the server rejects a mistyped key, and scanners
//! find a leaked one, without a lookup.

use std::fmt;

use hapax_engine::model::Name;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::base62;

/// Prefix of every key.
pub const PREFIX: &str = "hpx_";
/// Prefix of every credential id.
const CREDENTIAL_PREFIX: &str = "cred_";
/// Characters of an id.
pub const ID_CHARS: usize = 16;
/// Characters of a secret: 256 bits in base 62.
pub const SECRET_CHARS: usize = 43;
/// Characters of a checksum: CRC-32 in base 62.
pub const CHECKSUM_CHARS: usize = 6;
/// Characters of a key.
pub const KEY_CHARS: usize = PREFIX.len() + ID_CHARS + 1 + SECRET_CHARS + CHECKSUM_CHARS;

/// The id of a credential in its key: lower-case letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(String);

impl KeyId {
    /// Reads an id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_id_char = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        (text.len() == ID_CHARS && text.bytes().all(is_id_char)).then(|| KeyId(text.to_owned()))
    }

    /// The key id within a credential id, which has a prefix.
    pub fn from_credential(credential: &Name) -> Option<Self> {
        credential.as_str().strip_prefix(CREDENTIAL_PREFIX).and_then(Self::parse)
    }

    /// The id of the credential.
    pub fn credential(&self) -> Name {
        Name::new("credential id", &format!("{CREDENTIAL_PREFIX}{self}"))
            .expect("a key id is a short plain word")
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Stored hash of a secret.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// A stored hash.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        SecretHash(bytes)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Compares two hashes in constant time. For an unknown id, compare with
    /// [`SecretHash::unmatchable`], so that it takes the same time.
    pub fn matches(&self, other: &SecretHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// A hash that no secret has.
    pub fn unmatchable() -> Self {
        SecretHash([0; 32])
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

/// The random source failed; no key can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random numbers, so no key can be made; look at its logs")]
pub struct NoRandomness;

/// Parse error of a key. Callers only ever see `unauthorized`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an API key of this server: it begins with {PREFIX} and has {KEY_CHARS} characters")]
pub struct NotAKey;

/// An API key.
pub struct ApiKey {
    id: KeyId,
    text: SecretString,
}

impl ApiKey {
    /// A new key under a new id.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
        let id =
            bytes.iter().map(|byte| char::from(b"0123456789abcdefghijklmnopqrstuv"[usize::from(byte % 32)]));
        Self::generate_for(KeyId(id.collect()))
    }

    /// A new key under an existing id, for a rotation.
    pub fn generate_for(id: KeyId) -> Result<Self, NoRandomness> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|_| NoRandomness)?;
        let body = format!("{PREFIX}{id}_{}", base62::encode(&secret, SECRET_CHARS));
        let text = format!("{body}{}", checksum(&body));
        Ok(ApiKey { id, text: SecretString::from(text) })
    }

    /// Reads a key exactly as it was issued: no spaces, no line end.
    pub fn parse(text: &str) -> Result<Self, NotAKey> {
        if text.len() != KEY_CHARS || !text.is_ascii() {
            return Err(NotAKey);
        }
        let (body, given) = text.split_at(KEY_CHARS - CHECKSUM_CHARS);
        let rest = body.strip_prefix(PREFIX).ok_or(NotAKey)?;
        let (id, secret) = rest.split_once('_').ok_or(NotAKey)?;
        let id = KeyId::parse(id).ok_or(NotAKey)?;
        let is_secret = secret.bytes().all(|byte| byte.is_ascii_alphanumeric());
        // The checksum is not secret: it can be computed from the rest.
        match is_secret && base62::is_number(given, crc32(body.as_bytes())) {
            true => Ok(ApiKey { id, text: SecretString::from(text.to_owned()) }),
            false => Err(NotAKey),
        }
    }

    /// The id that finds its credential.
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// Hash of the secret, for storage and comparison.
    pub fn hash(&self) -> SecretHash {
        let text = self.text.expose_secret();
        let secret = &text[KEY_CHARS - CHECKSUM_CHARS - SECRET_CHARS..KEY_CHARS - CHECKSUM_CHARS];
        SecretHash(Sha256::digest(secret.as_bytes()).into())
    }

    /// The key in the clear, to be shown once.
    pub fn reveal(&self) -> &str {
        self.text.expose_secret()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({PREFIX}{}_…)", self.id)
    }
}

fn checksum(body: &str) -> String {
    base62::encode(&crc32(body.as_bytes()).to_be_bytes(), CHECKSUM_CHARS)
}

/// CRC-32 as in zip and PNG.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(u32::MAX, |crc, byte| CRC_OF_BYTE[((crc ^ u32::from(*byte)) & 0xFF) as usize] ^ (crc >> 8))
}

/// Table for CRC-32: every request with a key is checked, and a byte at a time is eight times as
/// fast as a bit.
const CRC_OF_BYTE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_has_the_same_hash() {
        let key = ApiKey::generate().unwrap();
        let read = ApiKey::parse(key.reveal()).unwrap();
        assert_eq!(read.id(), key.id());
        assert!(read.hash().matches(&key.hash()));
        assert!(!read.hash().matches(&SecretHash::unmatchable()));
        assert_eq!(key.reveal().len(), KEY_CHARS);
    }

    #[test]
    fn two_keys_differ_also_under_one_id() {
        let key = ApiKey::generate().unwrap();
        let rotated = ApiKey::generate_for(key.id().clone()).unwrap();
        assert_eq!(rotated.id(), key.id());
        assert!(!rotated.hash().matches(&key.hash()));
        assert_ne!(ApiKey::generate().unwrap().id(), key.id());
    }

    /// RELIABILITY, HTTP: Auth with trailing newline and other malformed keys.
    #[test]
    fn malformed_keys_are_rejected() {
        let key = ApiKey::generate().unwrap();
        let text = key.reveal();
        let last = if text.ends_with('0') { '1' } else { '0' };
        let middle = if &text[30..31] == "A" { "B" } else { "A" };
        for bad in [
            format!("{text}\n"),
            format!(" {text}"),
            format!("{}\n", &text[..KEY_CHARS - 1]),
            format!("{}{last}", &text[..KEY_CHARS - 1]),
            format!("{}{middle}{}", &text[..30], &text[31..]),
            text.replacen("hpx_", "abc_", 1),
            text.to_uppercase(),
            text[..KEY_CHARS - 6].to_owned(),
            "é".repeat(KEY_CHARS / 2),
            "hpx_".to_owned(),
            String::new(),
        ] {
            assert!(ApiKey::parse(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn neither_key_nor_hash_shows_in_debug_output() {
        let key = ApiKey::generate().unwrap();
        let shown = format!("{key:?} {:?}", key.hash());
        assert!(!shown.contains(&key.reveal()[21..]), "{shown}");
        assert!(shown.contains(key.id().as_str()));
    }

    #[test]
    fn the_checksum_is_the_crc_everybody_knows() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
