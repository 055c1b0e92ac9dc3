//! Time and size limits of the client.

use std::time::Duration;

/// To reach the server.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For one response, from the first byte sent to the last byte read. Longer than a server holds a
/// request under a key in use.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);
/// In all, for sending a call again.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Before the second try; doubled for each further one.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(2);
/// A live stream that is silent this long is broken: the server sends keep-alives far more often.
pub(super) const STREAM_SILENCE: Duration = Duration::from_secs(60);
/// The largest answer that is read.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// The largest event of a live stream.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// Characters of an unreadable response that an error quotes.
pub(super) const MAX_ECHO_CHARS: usize = 200;
