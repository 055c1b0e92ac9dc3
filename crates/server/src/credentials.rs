//! API keys of callers.

pub mod key;

pub use key::{ApiKey, KeyId, NoRandomness, NotAKey, SecretHash};
