//! Every limit of an outgoing request, by name.

use std::time::Duration;

/// From the call to the last byte of the answer of a request that does not say how long it may take, unless the rules say otherwise.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The most that a request may ask for, and that rules may grant.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How long an answer that may be there already is looked for once its time is over.
pub const FINAL_POLL_FOR: Duration = Duration::from_millis(100);

/// For the look-up, the connection and the TLS handshake together, unless the rules say otherwise.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of an answer, unless the rules say otherwise.
pub const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// Header fields of an answer, unless the rules say otherwise.
pub const MAX_RESPONSE_HEADERS: usize = 100;

/// The status line and header fields of an answer together.
pub const MAX_RESPONSE_HEAD_BYTES: usize = 64 * 1024;

/// The address of a request.
pub const MAX_URL_BYTES: usize = 8 * 1024;

/// Header fields of a request.
pub const MAX_REQUEST_HEADERS: usize = 100;

/// Names and values of a request's header fields together.
pub const MAX_REQUEST_HEAD_BYTES: usize = 64 * 1024;

/// The body of a request.
pub const MAX_REQUEST_BYTES: usize = 8 * 1024 * 1024;

/// Addresses of one name that are tried, one after the other.
pub const MAX_ADDRESSES: usize = 16;

/// How much of a `Location` is reported.
pub const MAX_LOCATION_CHARS: usize = 2048;
