//! The id of an outgoing webhook: the same for all attempts, so that its receiver recognises duplicates.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::hex;
use crate::limits::MAX_MESSAGE_ID_CHARS;

/// An id of 1 to 255 printable ASCII characters without spaces and dots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(String);

/// The text is not a valid id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the id of a message is 1 to {MAX_MESSAGE_ID_CHARS} printable ASCII characters without spaces and dots"
)]
pub struct BadMessageId;

impl MessageId {
    /// Uses a given id.
    pub fn new(text: &str) -> Result<Self, BadMessageId> {
        match is_message_id(text) {
            true => Ok(MessageId(text.to_string())),
            false => Err(BadMessageId),
        }
    }

    /// The id for `key`, such as the key of an after-effect. The same key always gives the same id, whatever characters
    /// it has. `scope` separates equal keys in different places.
    pub fn from_key(scope: &str, key: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"hapax webhook message\0");
        // The length separates ("a", "bc") from ("ab", "c").
        hash.update((scope.len() as u64).to_be_bytes());
        hash.update(scope);
        hash.update(key);
        MessageId(format!("msg_{}", hex::encode(&hash.finalize()[..16])))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// With a dot, an id and a timestamp could be read as another id and timestamp.
pub(crate) fn is_message_id(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_graphic() && byte != b'.';
    (1..=MAX_MESSAGE_ID_CHARS).contains(&text.len()) && text.bytes().all(is_fine)
}
