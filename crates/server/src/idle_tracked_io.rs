//! A socket that reports incoming bytes to its idle tracker, and gives up on a client that does not
//! read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::idle_tracker::IdleTracker;

/// The tracked socket.
#[derive(Debug)]
pub(crate) struct IdleTrackedIo<T> {
    inner: T,
    pulse: IdleTracker,
    stall_timeout: Duration,
    /// Runs while bytes could not be sent.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> IdleTrackedIo<T> {
    pub(crate) fn new(inner: T, pulse: IdleTracker, stall_timeout: Duration) -> Self {
        IdleTrackedIo { inner, pulse, stall_timeout, stalled: None }
    }

    /// Passes `outcome` through, unless the socket has stalled for too long.
    fn unless_stalled<R>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let stall_timeout = self.stall_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall_timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for IdleTrackedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let bytes = &buffer.filled()[before..];
        if !bytes.is_empty() {
            self.pulse.saw_bytes(bytes, Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for IdleTrackedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.unless_stalled(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.unless_stalled(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.unless_stalled(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.unless_stalled(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_reads_is_given_up() {
        let (_never_read, socket) = tokio::io::duplex(16);
        let begin = Instant::now();
        let mut socket = IdleTrackedIo::new(socket, IdleTracker::new(begin), Duration::from_secs(30));
        let error = socket.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed().as_secs(), 30);
    }
}
