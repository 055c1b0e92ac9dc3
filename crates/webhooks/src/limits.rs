//! Every limit of webhooks, by name.

use std::time::Duration;

/// How far a sender's clock may be from ours, either way; older is taken for a replay.
pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// How long the ids of events are kept at least: as long as senders try, not as long as timestamps are good for.
pub const KEEP_EVENT_IDS_FOR: Duration = Duration::from_secs(4 * 24 * 3600);
/// Most secrets of one source or subscription at once, while they are being rotated.
pub const MAX_SECRETS: usize = 5;
/// Longest secret as it is written, in bytes.
pub const MAX_SECRET_CHARS: usize = 512;
/// Shortest key of a signing secret of Standard Webhooks, in bytes.
pub const MIN_SIGNING_KEY_BYTES: usize = 24;
/// Longest key of a signing secret of Standard Webhooks, in bytes.
pub const MAX_SIGNING_KEY_BYTES: usize = 64;
/// Length of the keys we make, in bytes.
pub const SIGNING_KEY_BYTES: usize = 32;
/// Longest header with signatures, in bytes.
pub const MAX_SIGNATURE_HEADER_BYTES: usize = 4 * 1024;
/// Most signatures in one header that are looked at; a header with more is refused.
pub const MAX_SIGNATURES: usize = 16;
/// Longest timestamp, in digits.
pub const MAX_TIMESTAMP_CHARS: usize = 12;
/// Longest id of a message or an event, in characters.
pub const MAX_MESSAGE_ID_CHARS: usize = 255;
/// Longest text before a signature in its header, such as `sha256=`.
pub const MAX_PREFIX_CHARS: usize = 64;

/// Largest body that is sent, in bytes: no receiver should need more to know what to ask for.
pub const MAX_SENT_BYTES: usize = 20_000;
/// How often a delivery is begun at most.
pub const MAX_DELIVERY_ATTEMPTS: u32 = crate::SCHEDULE.len() as u32 + 1;
/// Longest pause that a receiver is granted by `Retry-After`.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);
/// No pause between two attempts is longer, chance included.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(29 * 3600);
/// No attempt is begun later than this after the event, so that receivers that keep ids for as long as we do know it again.
pub const DELIVER_WITHIN: Duration = KEEP_EVENT_IDS_FOR;
