//! A connection that asks before anything is written to it, and remembers whether anything was.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::request::SendCheck;

/// How far a request has come: what decides between "nothing happened" and "nobody knows".
#[derive(Debug, Default)]
pub(crate) struct Progress {
    check: Option<SendCheck>,
    refused: AtomicBool,
    sent: AtomicBool,
    /// 0 until the head of an answer was read.
    status: AtomicU16,
}

impl Progress {
    /// Of a request that is sent only if `check` allows it at the last moment.
    pub(crate) fn checked_by(check: Option<SendCheck>) -> Self {
        Progress { check, ..Progress::default() }
    }

    /// Did the check refuse to let it be sent?
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// Asks the check. It is asked before every write: a receiver acts on the last byte of a request, and a process may pause in the
    /// middle of a large one.
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

/// A connection under watch. It lies above TLS, so a handshake is not taken for a request.
pub(crate) struct Watched<S> {
    stream: S,
    progress: Arc<Progress>,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, progress: Arc<Progress>) -> Self {
        Self { stream, progress }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if !self.progress.may_write() {
            return Poll::Ready(Err(io::Error::other("the right to send was lost")));
        }
        // TLS may take bytes and then report the error of the write below, so trying counts unless it is known to have
        // taken none.
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
