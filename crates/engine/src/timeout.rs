//! Timeouts where an answer that has already arrived wins.
//!
//! A process that was paused past a timeout finds both the expired timer and perhaps an unread answer in a
//! buffer. The runtime may see the timer first. So after the timer fires, the answer is polled once more.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::clock::Clock;
use crate::limits::FINAL_POLL_FOR;

/// Awaits `answer` for `patience`. Returns `None` if it has not come by then.
pub(crate) async fn answer_within<T>(
    clock: &dyn Clock,
    patience: Duration,
    answer: impl Future<Output = T>,
) -> Option<T> {
    let mut answer = pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => return Some(answer),
        () = clock.sleep(patience) => {}
    }
    tokio::time::timeout(FINAL_POLL_FOR, answer).await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::clock::ManualClock;

    #[tokio::test]
    async fn an_answer_that_is_in_a_buffer_when_time_is_over_wins() {
        let clock = Arc::new(ManualClock::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut sending = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut receiving, _) = listener.accept().await.unwrap();
        let mut byte = [0];
        let mut waiting =
            pin!(answer_within(&*clock, Duration::from_secs(5), receiving.read_exact(&mut byte)));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        // As after a pause: the byte has arrived and the time is over, and the runtime has not seen the byte
        // yet.
        sending.write_all(b"x").await.unwrap();
        clock.advance(Duration::from_secs(60));
        assert!(waiting.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_is_given_up() {
        let clock = crate::clock::SystemClock::following_tokio(crate::model::Timestamp::EPOCH);
        let never = std::future::pending::<()>();
        assert_eq!(answer_within(&clock, Duration::from_secs(5), never).await, None);
    }
}
