//! Credentials of callers: API keys.

pub mod key;

pub use key::{ApiKey, KeyId, NoRandomness, NotAKey, SecretHash};
