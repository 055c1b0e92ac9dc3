//! Activity of a connection, to tell an idle or slow client from an active one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The opening bytes of HTTP/2; no HTTP/1 request line begins with them.
const HTTP2_OPENING: &[u8] = b"PRI * HTTP/2.0";

/// Shared by the socket, the service and the tracker of one connection.
#[derive(Debug, Clone)]
pub(crate) struct IdleTracker(Arc<Mutex<ConnectionActivity>>);

#[derive(Debug)]
struct ConnectionActivity {
    in_flight: usize,
    /// Arrival of the first byte after the last request: the next head is in progress.
    head_began_at: Option<Instant>,
    /// Time of the last activity: no request, and no head in progress, since then.
    quiet_since: Instant,
    opening: Vec<u8>,
}

/// Decision about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Check again at this instant.
    LookAgain(Instant),
    /// It has had no request for too long: close it gracefully.
    CloseIdle,
    /// Its client sends a head too slowly: cut it.
    CutSlowHead,
}

impl IdleTracker {
    pub(crate) fn new(now: Instant) -> Self {
        let beat =
            ConnectionActivity { in_flight: 0, head_began_at: None, quiet_since: now, opening: Vec::new() };
        IdleTracker(Arc::new(Mutex::new(beat)))
    }

    fn beat(&self) -> MutexGuard<'_, ConnectionActivity> {
        // The state is consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came in.
    pub(crate) fn saw_bytes(&self, bytes: &[u8], now: Instant) {
        let mut beat = self.beat();
        if beat.opening.len() < HTTP2_OPENING.len() {
            let missing = HTTP2_OPENING.len() - beat.opening.len();
            beat.opening.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        }
        if beat.in_flight == 0 && beat.head_began_at.is_none() {
            beat.head_began_at = Some(now);
        }
    }

    /// The head of a request is complete; the request is in flight until the guard is dropped.
    pub(crate) fn begin_request(&self) -> InFlight {
        let mut beat = self.beat();
        beat.in_flight += 1;
        beat.head_began_at = None;
        InFlight(self.clone())
    }

    /// Decides about the connection at `now`.
    pub(crate) fn judge(&self, now: Instant, head_timeout: Duration, idle_timeout: Duration) -> Verdict {
        let beat = self.beat();
        let next_round = now + head_timeout;
        if beat.in_flight > 0 {
            return Verdict::LookAgain(next_round);
        }
        // On HTTP/2, bytes may be mere protocol frames. A client stuck within a frame cannot answer
        // pings, and is cut for that.
        let is_http2 = beat.opening == HTTP2_OPENING;
        match beat.head_began_at.filter(|_| !is_http2) {
            Some(began_at) if now >= began_at + head_timeout => Verdict::CutSlowHead,
            Some(began_at) => Verdict::LookAgain(began_at + head_timeout),
            None if now >= beat.quiet_since + idle_timeout => Verdict::CloseIdle,
            None => Verdict::LookAgain(next_round.min(beat.quiet_since + idle_timeout)),
        }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct InFlight(IdleTracker);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut beat = self.0.beat();
        beat.in_flight -= 1;
        beat.quiet_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    fn after(begin: Instant, seconds: u64) -> Instant {
        begin + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_dribbles_is_cut_however_often_bytes_come() {
        let begin = Instant::now();
        let pulse = IdleTracker::new(begin);
        pulse.saw_bytes(b"G", after(begin, 3));
        pulse.saw_bytes(b"E", after(begin, 8));
        assert_eq!(pulse.judge(after(begin, 9), HEAD, IDLE), Verdict::LookAgain(after(begin, 13)));
        assert_eq!(pulse.judge(after(begin, 13), HEAD, IDLE), Verdict::CutSlowHead);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_kept_until_it_is_idle_too_long() {
        let begin = Instant::now();
        let pulse = IdleTracker::new(begin);
        assert_eq!(pulse.judge(begin, HEAD, IDLE), Verdict::LookAgain(after(begin, 10)));
        assert_eq!(pulse.judge(after(begin, 70), HEAD, IDLE), Verdict::LookAgain(after(begin, 75)));
        assert_eq!(pulse.judge(after(begin, 75), HEAD, IDLE), Verdict::CloseIdle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_flight_is_left_alone_and_http2_may_chat() {
        let begin = Instant::now();
        let pulse = IdleTracker::new(begin);
        pulse.saw_bytes(b"GET /", begin);
        let in_flight = pulse.begin_request();
        pulse.saw_bytes(b"body", begin);
        assert_eq!(pulse.judge(after(begin, 500), HEAD, IDLE), Verdict::LookAgain(after(begin, 510)));
        drop(in_flight);
        assert_eq!(pulse.judge(after(begin, 500), HEAD, IDLE), Verdict::CloseIdle);

        let pulse = IdleTracker::new(begin);
        pulse.saw_bytes(b"PRI * HT", begin);
        pulse.saw_bytes(b"TP/2.0\r\n\r\n", begin);
        assert_eq!(pulse.judge(after(begin, 20), HEAD, IDLE), Verdict::LookAgain(after(begin, 30)));
        assert_eq!(pulse.judge(after(begin, 75), HEAD, IDLE), Verdict::CloseIdle);
    }
}
