//! Credentials of callers: API keys.

pub mod key;
