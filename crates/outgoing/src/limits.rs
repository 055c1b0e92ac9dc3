//! Every limit of an outgoing request, by name.

use std::time::Duration;

/// Default time from the call to the last byte of the answer.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum that a request may ask for, and that rules may grant.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Grace period after the timeout, for reading an answer that has already arrived.
pub const FINAL_POLL_FOR: Duration = Duration::from_millis(100);

/// Default time for name lookup, connection and TLS handshake together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default limit of an answer's body.
pub const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// Default limit of an answer's header fields.
pub const MAX_RESPONSE_HEADERS: usize = 100;

/// Limit of an answer's status line and header fields together.
pub const MAX_RESPONSE_HEAD_BYTES: usize = 64 * 1024;

/// Limit of a request's URL.
pub const MAX_URL_BYTES: usize = 8 * 1024;

/// Limit of a request's header fields.
pub const MAX_REQUEST_HEADERS: usize = 100;

/// Limit of the names and values of a request's header fields together.
pub const MAX_REQUEST_HEAD_BYTES: usize = 64 * 1024;

/// Limit of a request's body.
pub const MAX_REQUEST_BYTES: usize = 8 * 1024 * 1024;

/// Number of addresses of one name that are tried, one after another.
pub const MAX_ADDRESSES: usize = 16;

/// Maximum length of a reported `Location`.
pub const MAX_LOCATION_CHARS: usize = 2048;
