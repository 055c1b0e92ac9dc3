//! Long copies: they report progress, and stop when the command is interrupted.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use anyhow::{Context, Result};
use hapax::sqlite::{OnProgress, Progress};

use crate::limits::{BREAK_OFF_WITHIN, TELL_PROGRESS_EVERY};
use crate::output::say;

/// Runs `work` on a blocking thread. Dropping the future stops the work and waits until it has removed its temporary files.
pub(crate) async fn copy<T: Send + 'static>(
    done: &'static str,
    work: impl FnOnce(&mut OnProgress<'_>) -> T + Send + 'static,
) -> Result<T> {
    let is_over = Arc::new(AtomicBool::new(false));
    let (ended, told) = channel::<()>();
    let _break_off = StopOnDrop { is_over: is_over.clone(), ended: told };
    let worked = tokio::task::spawn_blocking(move || {
        // Dropping the sender signals the end.
        let _ended = ended;
        let mut last = Instant::now();
        work(&mut |progress: Progress| {
            if last.elapsed() >= TELL_PROGRESS_EVERY {
                last = Instant::now();
                say(&tell(done, progress));
            }
            match is_over.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    });
    worked.await.context("the copy ended without a word")
}

/// Stops the thread on drop, and waits for it.
struct StopOnDrop {
    is_over: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.ended.recv_timeout(BREAK_OFF_WITHIN);
    }
}

fn tell(done: &str, Progress { done: bytes, total }: Progress) -> String {
    let percent = (bytes * 100).checked_div(total).unwrap_or(100);
    format!("{done} {percent} % ({} of {})", size(bytes), size(total))
}

/// Formats a number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut value = bytes as f64 / 1_000.0;
    let mut unit = 0;
    while value >= 1_000.0 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_percent_and_bytes() {
        let progress = Progress { done: 4_096_000, total: 16_384_000 };
        assert_eq!(tell("copied", progress), "copied 25 % (4.1 MB of 16.4 MB)");
        assert_eq!(tell("copied", Progress { done: 0, total: 0 }), "copied 100 % (0.0 kB of 0.0 kB)");
        assert_eq!(size(5_000_000_000_000), "5.0 TB");
    }

    #[tokio::test]
    async fn a_copy_that_nobody_waits_for_is_broken_off() {
        let (broken, was_broken) = channel();
        let copying = copy("copied", move |progress| {
            while progress(Progress { done: 0, total: 1 }).is_continue() {
                std::thread::yield_now();
            }
            broken.send(()).unwrap();
        });
        let mut copying = Box::pin(copying);
        assert!(futures_once(&mut copying).await.is_none());
        drop(copying);
        assert!(was_broken.try_recv().is_ok(), "it has ended by the time that the command does");
    }

    /// Polls once, so that the work has begun.
    async fn futures_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = std::future::ready(()) => None,
        }
    }
}
