//! Waiting for an answer, but not for ever. An answer that is there when time is over wins.
//!
//! A process that was paused past a timeout finds both when it goes on: the timer, and perhaps the answer in a buffer that nobody has read
//! yet. The runtime may see the timer first. So when a timer has come, what was waited for gets one more look.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::clock::Clock;
use crate::limits::LAST_LOOK_FOR;

/// Awaits `answer` for `patience`; `None` if it has not come by then.
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
    tokio::time::timeout(LAST_LOOK_FOR, answer).await.ok()
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
        // As after a pause: the byte has come and the time is over before anybody looked, and the runtime has not seen the byte.
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
