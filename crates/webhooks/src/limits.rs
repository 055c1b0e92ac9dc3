//! Every limit of webhooks, by name.

use std::time::Duration;

/// Maximum difference between a sender's clock and ours, in both directions; anything older counts as a replay.
pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// Minimum retention of event ids: as long as senders retry, not only as long as timestamps are valid.
pub const KEEP_EVENT_IDS_FOR: Duration = Duration::from_secs(4 * 24 * 3600);
/// Maximum number of secrets of one source or subscription, during rotation.
pub const MAX_SECRETS: usize = 5;
/// Longest secret in text form, in bytes.
pub const MAX_SECRET_CHARS: usize = 512;
/// Shortest secret that is used as it is, in bytes: whoever has one signed webhook can try shorter ones without asking us.
pub const MIN_SECRET_CHARS: usize = 16;
/// Shortest key of a signing secret of Standard Webhooks, in bytes.
pub const MIN_SIGNING_KEY_BYTES: usize = 24;
/// Longest key of a signing secret of Standard Webhooks, in bytes.
pub const MAX_SIGNING_KEY_BYTES: usize = 64;
/// Length of generated keys, in bytes.
pub const SIGNING_KEY_BYTES: usize = 32;
/// Longest header with signatures, in bytes.
pub const MAX_SIGNATURE_HEADER_BYTES: usize = 4 * 1024;
/// Maximum number of signatures in one header; a header with more is refused.
pub const MAX_SIGNATURES: usize = 16;
/// Longest timestamp, in digits.
pub const MAX_TIMESTAMP_CHARS: usize = 12;
/// Longest id of a message or an event, in characters.
pub const MAX_MESSAGE_ID_CHARS: usize = 255;
/// Longest text before a signature in its header, such as `sha256=`.
pub const MAX_PREFIX_CHARS: usize = 64;

/// Largest body that is sent, in bytes. A receiver that needs more can ask for it.
pub const MAX_SENT_BYTES: usize = 20_000;
/// Maximum number of attempts of one delivery.
pub const MAX_DELIVERY_ATTEMPTS: u32 = crate::SCHEDULE.len() as u32 + 1;
/// Longest pause that `Retry-After` can request.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Longest pause between two attempts, including jitter.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(29 * 3600);
/// Latest start of an attempt after the event. A receiver that keeps ids for as long as we do still recognises it.
pub const DELIVER_WITHIN: Duration = KEEP_EVENT_IDS_FOR;
