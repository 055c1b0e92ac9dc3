//! A connection that runs a check before every write, and records whether bytes were written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::request::SendCheck;

/// Progress of a request, which decides between "nothing happened" and "outcome unknown".
#[derive(Debug, Default)]
pub(crate) struct Progress {
    check: Option<SendCheck>,
    refused: AtomicBool,
    sent: AtomicBool,
    /// 0 until the head of an answer was read.
    status: AtomicU16,
}

impl Progress {
    /// Tracks a request that is sent only if `check` permits it at the last moment.
    pub(crate) fn checked_by(check: Option<SendCheck>) -> Self {
        Progress { check, ..Progress::default() }
    }

    /// Returns true if the check refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// Runs the check. It runs before every write: a receiver acts on the last byte of a request, and a process may
    /// pause in the middle of a large one.
    fn may_write(&self) -> bool {
        let allows = self.check.as_ref().is_none_or(SendCheck::allows);
        self.refused.store(!allows, Ordering::Release);
        allows
    }

    /// Set once any byte of the request may have left.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    /// The status, once known.
    pub(crate) fn find_status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Acquire)).filter(|status| *status > 0)
    }

    pub(crate) fn note_status(&self, status: u16) {
        self.status.store(status, Ordering::Release);
    }
}

/// A tracked connection. It wraps the TLS stream, so a handshake does not count as a request.
pub(crate) struct TrackedStream<S> {
    stream: S,
    progress: Arc<Progress>,
}

impl<S> TrackedStream<S> {
    pub(crate) fn new(stream: S, progress: Arc<Progress>) -> Self {
        Self { stream, progress }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if !self.progress.may_write() {
            return Poll::Ready(Err(io::Error::other("the right to send was lost")));
        }
        // TLS may accept bytes and then report the error of the underlying write. So an attempted write counts unless
        // it is known to have accepted nothing.
        let before = self.progress.sent.swap(true, Ordering::AcqRel);
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Pending | Poll::Ready(Ok(0)) = written {
            self.progress.sent.store(before, Ordering::Release);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
